"""A cluster as the recorded cases speak of it: kinds by name, and what a watch of them has shown."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from apps.localcluster.volcano.objects import BUS, CORE, JOB_NAME, JOBS, NETWORKING, SCHEDULING, TOPOLOGY, name, path
from tests.localcluster.contract.exchange import Answer, Exchange

Object = dict[str, Any]

NAMESPACE = "team-a"
POLL_SECONDS = 0.2
MERGE, JSON_PATCH, APPLY = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)

KINDS = {  # group, plural, whether it lives in a namespace
    "Job": (JOBS, "jobs", True),
    "Command": (BUS, "commands", True),
    "PodGroup": (SCHEDULING, "podgroups", True),
    "Queue": (SCHEDULING, "queues", False),
    "HyperNode": (TOPOLOGY, "hypernodes", False),
    "Pod": (CORE, "pods", True),
    "Service": (CORE, "services", True),
    "ConfigMap": (CORE, "configmaps", True),
    "Secret": (CORE, "secrets", True),
    "ResourceQuota": (CORE, "resourcequotas", True),
    "PersistentVolumeClaim": (CORE, "persistentvolumeclaims", True),
    "Event": (CORE, "events", True),
    "NetworkPolicy": (NETWORKING, "networkpolicies", True),
    "Node": (CORE, "nodes", False),
    "Namespace": (CORE, "namespaces", False),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
}
WATCHED = ("Job", "PodGroup", "Pod", "Queue")
OWN = {("ConfigMap", "kube-root-ca.crt"), ("Queue", "default"), ("Queue", "root")}
"""Objects that belong to the cluster and to no case."""

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHOICES = re.compile(r"(valid (?:events|actions) are \[)([^\]]*)\]")


def where(kind: str, label: str = "", subresource: str = "") -> str:
    group, plural, inside = KINDS[kind]
    return path(group, plural, NAMESPACE if inside else "", label, subresource)


def clean(text: str) -> str:
    """As it was recorded: without uids, lists of choices sorted."""
    return _CHOICES.sub(lambda found: f"{found[1]}{' '.join(sorted(found[2].split()))}]", _UID.sub("<uid>", text))


def phase_of(kind: str, item: Object) -> str | None:
    status = item.get("status") or {}
    if kind == "Job":
        status = status.get("state") or {}
    return status.get("state" if kind == "Queue" else "phase")


def job_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(JOB_NAME) or name(pod))


def until(holds: Callable[[], object], seconds: float) -> bool:
    """Whether it came to hold within that time. What is not there yet does not hold."""
    end, pause = time.monotonic() + seconds, threading.Event()
    while True:
        try:
            if holds():
                return True
        except (KeyError, IndexError, TypeError):
            pass
        if time.monotonic() > end:
            return False
        pause.wait(POLL_SECONDS)


class Cluster:
    """Reads and writes in the words of the cases: kinds and names in place of paths."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange

    def list(self, kind: str) -> list[Object]:
        """Empty where the kind is not known."""
        return list((self.exchange.ask("GET", where(kind)).json or {}).get("items") or [])

    def get(self, kind: str, label: str) -> Object:
        """Empty where there is none."""
        answer = self.exchange.ask("GET", where(kind, label))
        return dict(answer.json) if answer.status == 200 else {}

    def create(self, item: Object) -> Answer:
        return self.exchange.ask("POST", where(item["kind"]), item)

    def patch(self, target: str, body: Any, kind: str = MERGE) -> Answer:
        """`target`: a path."""
        return self.exchange.ask("PATCH", target, body, kind)

    def delete(
        self, kind: str, label: str = "", *, propagation: str = "Background", grace: int | None = None
    ) -> Answer:
        """One object, or without a name all of them."""
        query = f"?propagationPolicy={propagation}" + (f"&gracePeriodSeconds={grace}" if grace is not None else "")
        return self.exchange.ask("DELETE", where(kind, label) + query)

    def strangers(self, kind: str) -> list[Object]:
        """Those that are not the cluster's own."""
        return [item for item in self.list(kind) if (kind, name(item)) not in OWN]


def follow(exchange: Exchange, target: str, take: Callable[[str, Object], None], over: threading.Event) -> None:
    """Calls `take(type, object)` for what is there and for what happens, until `over` is set."""
    while not over.is_set():
        try:
            listed = exchange.ask("GET", target).json
            for item in listed["items"]:
                take("ADDED", item)
            query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"], "timeoutSeconds": "600"}
            for line in exchange.lines({"method": "GET", "path": target, "query": query}):
                event = json.loads(line)
                if over.is_set() or event["type"] == "ERROR":
                    break
                take(event["type"], event["object"])
        except (httpx.HTTPError, KeyError, TypeError, ValueError):
            over.wait(0.3)  # the server is away or busy
        except RuntimeError:
            return  # the client was closed: so was the cluster


class Recorder:
    """What a watch has shown of phases and pods since the last `clear()`."""

    def __init__(self, exchange: Exchange) -> None:
        self._over, self._lock = threading.Event(), threading.Lock()
        self._seen: list[tuple[str, str, Object]] = []
        for kind in WATCHED:
            arguments = (exchange, where(kind), self._taker(kind), self._over)
            threading.Thread(target=follow, args=arguments, daemon=True).start()

    def _taker(self, kind: str) -> Callable[[str, Object], None]:
        def take(change: str, item: Object) -> None:
            with self._lock:
                self._seen.append((kind, change, item))

        return take

    def close(self) -> None:
        self._over.set()

    def clear(self) -> None:
        with self._lock:
            self._seen.clear()

    def seen(self) -> list[tuple[str, str, Object]]:
        with self._lock:
            return list(self._seen)

    def sequences(self) -> dict[str, list[str]]:
        """Every phase in the order it was seen, by KIND/NAME."""
        found: dict[str, list[str]] = {}
        for kind, change, item in self.seen():
            if kind == "Pod" or (kind, name(item)) in OWN:
                continue
            phase = "(deleted)" if change == "DELETED" else phase_of(kind, item) or "(none)"
            phases = found.setdefault(f"{kind}/{clean(name(item))}", [])
            if phases[-1:] != [phase]:
                phases.append(phase)
        return found

    def lives(self) -> dict[str, int]:
        """How many pods of a name there were."""
        uids: dict[str, set[str]] = {}
        for kind, _, item in self.seen():
            if kind == "Pod":
                uids.setdefault(name(item), set()).add(item["metadata"]["uid"])
        return {pod: len(found) for pod, found in uids.items()}
