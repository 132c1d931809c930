"""One running control plane: everything of it lives in one folder and listens on loopback."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.home import Home
from deploy.local.program import Missing, Program
from deploy.testbed import crds, kubernetes, kwok, volcano
from deploy.testbed.api import Api
from deploy.testbed.certificates import serving
from deploy.testbed.parts import Parts
from deploy.testbed.processes import Processes

GRACE_SECONDS = 10
"""Beyond its lease, as in Kubernetes by default."""
WORKERS = 8


@dataclass
class ControlPlane:
    """`left_out` says why a part that was asked for does not run."""

    home: Home
    processes: Processes
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.home.root / "kubeconfig"

    @property
    def server(self) -> str:
        return kubernetes.server(self.home)

    @property
    def token(self) -> str:
        """Of an admin, a member of system:masters."""
        return self.home.secret(kubernetes.TOKEN)

    @property
    def ca_pem(self) -> str:
        return kubernetes.authority(self.home).read_text()

    @property
    def pod_log(self) -> Path:
        """See kwok.pod_log."""
        return kwok.pod_log(self.home)

    def api(self) -> Api:
        return kubernetes.api(self.home)

    def restart(self, name: str) -> None:
        """kill -9 of a program (programs.SOURCES), and a new one on the same state. Raises Failed."""
        self.processes.start(self.processes.kill(name))

    def optional(self, name: str, find: Callable[[], Program]) -> None:
        """Starts it, or notes why not."""
        try:
            program = find()
        except Missing as missing:
            self.left_out[name] = str(missing)
        else:
            self.processes.start(program)


@contextmanager
def control_plane(directory: Path | None = None, parts: Parts | None = None) -> Iterator[ControlPlane]:
    """A control plane until the block ends, in a new folder by default; in a given one it goes on where it was.

    Builds what is not built yet. Raises Missing, Failed.
    """
    with ExitStack() as stack:
        if directory is None:
            new = tempfile.TemporaryDirectory(prefix="maas-portal-testbed-", ignore_cleanup_errors=True)
            directory = Path(stack.enter_context(new))
        home = Home(directory)
        plane = ControlPlane(home, Processes(home))
        stack.callback(plane.processes.stop)
        _bring_up(plane, parts or Parts())
        yield plane


def _bring_up(plane: ControlPlane, parts: Parts) -> None:
    home, start = plane.home, plane.processes.start
    home.prepare()
    home.claim_ports(*kubernetes.PORTS, *(volcano.PORTS if parts.volcano else ()))
    start(kubernetes.etcd(home))
    start(kubernetes.apiserver(home, parts.flags.get("kube-apiserver", ())))
    kubeconfig = kubernetes.write_kubeconfig(home)
    with plane.api() as api:
        _install(plane, api, parts)
        nodes = kwok.nodes(parts.fleet) if parts.fleet else []
        if parts.controllers:
            name = "kube-controller-manager"
            grace = f"--node-monitor-grace-period={kwok.lease_seconds(len(nodes)) + GRACE_SECONDS}s"
            flags = (grace, *parts.flags.get(name, ()))
            plane.optional(name, lambda: kubernetes.controllers(home, kubeconfig, flags))
        if parts.scheduler:
            theirs = parts.flags.get("kube-scheduler", ())
            plane.optional("kube-scheduler", lambda: kubernetes.scheduler(home, kubeconfig, theirs))
        if parts.fleet:
            api.delete(kwok.LEASES)  # a new KWOK never plays the pods of nodes that the one before it held last
            certificate = serving(kubernetes.pki(home), "kwok")
            plane.optional("kwok", lambda: kwok.program(home, kubeconfig, certificate, len(nodes)))
            with ThreadPoolExecutor(WORKERS) as workers:
                list(workers.map(lambda node: api.apply(f"/api/v1/nodes/{node['metadata']['name']}", node), nodes))
        if parts.volcano:
            volcano.start(plane.processes, api, kubeconfig, parts.volcano)


def _install(plane: ControlPlane, api: Api, parts: Parts) -> None:
    definitions = []
    try:
        definitions += [each for project in parts.crds for each in crds.find(project)]
    except Missing as missing:
        plane.left_out["crds"] = str(missing)
    if parts.volcano:
        definitions += crds.read(parts.volcano / "crds")
    crds.install(api, definitions)
