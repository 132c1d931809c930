"""Plays the nodes where no KWOK does: they are ready, pods on them run at once, and go when they are told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from apps.localcluster.volcano.objects import CORE, deleting, name, namespace, path
from tests.localcluster.contract.exchange import Exchange
from tests.localcluster.contract.volcano.cluster import APPLY, MERGE, Object, follow
from tests.localcluster.contract.volcano.ground import PLAYED

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
RENEW_SECONDS = 10.0
STARTED = "2026-01-01T00:00:00Z"


@contextmanager
def played(exchange: Exchange) -> Iterator[None]:
    """Until the block ends."""
    over, nodes = threading.Event(), Nodes(exchange)
    for kind, take in (("nodes", nodes.node), ("pods", nodes.pod)):
        threading.Thread(target=follow, args=(exchange, path(CORE, kind), take, over), daemon=True).start()
    threading.Thread(target=nodes.renew, args=(over,), daemon=True).start()
    try:
        yield
    finally:
        over.set()


class Nodes:
    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._played: set[str] = set()

    def renew(self, over: threading.Event) -> None:
        """Nodes that say nothing for a while are given up."""
        while not over.wait(RENEW_SECONDS):
            for node in tuple(self._played):
                spec = {"holderIdentity": node, "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
                lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}}
                self.exchange.ask("PATCH", f"{LEASES}/{node}?fieldManager=nodes", {**lease, "spec": spec}, APPLY)

    def node(self, change: str, node: Object) -> None:
        conditions = (node.get("status") or {}).get("conditions") or []
        mine = change != "DELETED" and PLAYED.items() <= (node["metadata"].get("labels") or {}).items()
        (self._played.add if mine else self._played.discard)(name(node))
        if not mine or conditions:
            return
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": STARTED}
        where = path(CORE, "nodes", "", name(node), "status")
        self.exchange.ask("PATCH", where, {"status": {"conditions": [ready]}}, MERGE)

    def pod(self, change: str, pod: Object) -> None:
        where = path(CORE, "pods", namespace(pod), name(pod))
        if change == "DELETED" or not pod["spec"].get("nodeName"):
            return
        if deleting(pod):
            if not pod["metadata"].get("finalizers"):
                self.exchange.ask("DELETE", where, {"gracePeriodSeconds": 0, "preconditions": _this(pod)})
        elif (pod["status"].get("phase") or "Pending") == "Pending":
            self.exchange.ask("PATCH", f"{where}/status", {"metadata": _this(pod), "status": _running(pod)}, MERGE)


def _this(pod: Object) -> Object:
    return {"uid": pod["metadata"]["uid"]}


def _running(pod: Object) -> Object:
    known = [c for c in pod["status"].get("conditions") or [] if c["type"] != "Ready"]
    state = {"state": {"running": {"startedAt": STARTED}}, "ready": True, "restartCount": 0, "imageID": ""}
    return {
        "phase": "Running",
        "conditions": [*known, {"type": "Ready", "status": "True", "lastTransitionTime": STARTED}],
        "containerStatuses": [{"name": c["name"], "image": c["image"], **state} for c in pod["spec"]["containers"]],
        "startTime": STARTED,
    }
