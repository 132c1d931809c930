"""The clusters that are asked."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from apps.localcluster.client import Kubeconfig
from deploy.local.home import Home
from deploy.local.program import NotReady, Program, wait_until
from deploy.local.stack import TREE
from deploy.testbed import Parts, control_plane, kwok
from deploy.testbed.api import Api
from deploy.testbed.parts import FLEET
from deploy.testbed.processes import Processes
from tests.needs import require
from tests.small_cluster import small_cluster

GIVEN = "CONTRACT_KUBECONFIG"
GIVEN_HAS = "CONTRACT_HAS"

NODES, SCHEDULER, WEBHOOKS, LOGS, HISTORY = "nodes", "scheduler", "webhooks", "logs", "history"
"""What some cases lean on: the testbed's fleet, kube-scheduler, a server that reaches webhooks on this machine, times in
logs that are the recorded ones, and a store that has forgotten its beginning."""
KWOK, VOLCANO_1_13 = "kwok", "volcano-1.13"
"""Nodes that leave a pod Running until it has gone, where a kubelet ends it first; and Volcano's definitions of 1.13,
which take negative numbers and leave a queue's dequeueStrategy out, where those of 1.15 do neither."""

FLAGS = {
    # The store forgets what is older than that; five minutes is the default.
    "kube-apiserver": ("--etcd-compaction-interval=20s",),
    # Hundreds of namespaces are deleted in a row, and a namespace is asked about every kind there is.
    "kube-controller-manager": ("--kube-api-qps=1000", "--kube-api-burst=2000"),
}


@dataclass(frozen=True)
class Row:
    name: str
    server: str
    token: str
    trust: ssl.SSLContext
    has: frozenset[str] = field(default_factory=frozenset)
    pod_log: Path | None = None
    patience: float = 60.0
    """Seconds that something may take to come about."""
    offers_less: bool = False
    """Whether discovery may leave things out, if they are then refused."""


@contextmanager
def small(folder: Path) -> Iterator[Row]:
    """The small cluster's API server, and its node agent with the recordings' nodes."""
    with small_cluster(folder) as cluster:
        trust = ssl.create_default_context(cadata=cluster.ca_pem)
        api = Api(cluster.server, cluster.token, cluster.ca_pem)
        with api, _node_agent(folder, cluster.kubeconfig):
            wait_until(lambda: _all_ready(api), 60)
            has = frozenset({NODES, SCHEDULER, WEBHOOKS, HISTORY})
            yield Row("small", cluster.server, cluster.token, trust, has, patience=5, offers_less=True)


@contextmanager
def _node_agent(folder: Path, kubeconfig: Path) -> Iterator[None]:
    """Until the block ends. Every image of the recordings prints their log and stays, but the one of init containers."""
    images = [{"name": "example/prep:*", "cmd": ["true"]}]
    images += [
        {"name": name, "cmd": ["sh", "-c", f"{LOG_AS_SHELL}; exec sleep 1000"]} for name in ("example/*:*", "i:latest")
    ]
    (folder / "images.json").write_text(json.dumps({"images": images}))
    command = (sys.executable, "-m", "apps.localcluster.nodeagent", f"--dir={folder / 'nodes'}")
    options = (f"--kubeconfig={kubeconfig}", f"--fleet={FLEET}", f"--images={folder / 'images.json'}", "--max=16")
    home = Home(folder / "agent")
    home.prepare()
    processes = Processes(home)
    try:
        processes.start(Program("nodeagent", "node agent", (*command, *options), None, {"PYTHONPATH": str(TREE)}))
        yield
    finally:
        processes.stop()
        subprocess.run([*command, "--end"], cwd=TREE, check=True, capture_output=True)


def _all_ready(api: Api) -> None:
    nodes = api.get("/api/v1/nodes")["items"]
    ready = [node for node in nodes if '"type": "Ready", "status": "True"' in json.dumps(node)]
    if len(ready) < len(kwok.nodes(FLEET)):
        raise NotReady(f"{len(ready)} nodes are ready")


@contextmanager
def real(folder: Path) -> Iterator[Row]:
    """A real control plane with KWOK's nodes."""
    require("apiserver")
    with control_plane(folder, Parts(flags=FLAGS)) as plane:
        plane.pod_log.write_text("".join(recorded_log()))
        # A server that has seen an empty store can still tell what has happened since; one started later cannot.
        plane.restart("kube-apiserver")
        has = {WEBHOOKS, HISTORY, VOLCANO_1_13, *({NODES, SCHEDULER, LOGS, KWOK} if not plane.left_out else ())}
        trust = ssl.create_default_context(cadata=plane.ca_pem)
        yield Row("apiserver", plane.server, plane.token, trust, frozenset(has), plane.pod_log)


@contextmanager
def given(folder: Path) -> Iterator[Row]:
    """The one whose kubeconfig is named in CONTRACT_KUBECONFIG, with what CONTRACT_HAS says it has."""
    del folder
    config = Kubeconfig.load(os.environ[GIVEN])
    assert isinstance(config.verify, ssl.SSLContext), "only over TLS"
    has = frozenset(filter(None, os.environ.get(GIVEN_HAS, "").split(",")))
    yield Row("given", config.server, config.token, config.verify, has)


ROWS: dict[str, Callable[[Path], AbstractContextManager[Row]]] = {"small": small, "apiserver": real, "given": given}


def recorded_log() -> list[str]:
    """What the log cases were recorded from, in CRI format."""
    lines = [
        f"2026-01-01T00:00:{i % 60:02d}.000000000Z stdout F step: {i}/1000 | loss: {9 / (i + 1) + 1:.4f}\n"
        for i in range(1000)
    ]
    return [*lines, APPENDED]


LOG_AS_SHELL = (
    'awk \'BEGIN { for (i = 0; i < 1000; i++) printf "step: %d/1000 | loss: %.4f\\n", i, 9 / (i + 1) + 1;'
    ' print "appended while followed" }\''
)
APPENDED = "2026-01-01T00:20:00.000000000Z stdout F appended while followed\n"
