"""The rows once more, each with somebody to do Volcano's work and somebody to play the nodes."""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from apps.localcluster.volcano.scheduler.settings import Settings
from deploy.local.home import Home
from deploy.local.program import Program, listening
from deploy.local.stack import TREE
from deploy.testbed import Parts, control_plane
from deploy.testbed.processes import Processes
from tests.localcluster.contract import rows
from tests.localcluster.contract.exchange import Exchange
from tests.localcluster.contract.replay import Refused
from tests.localcluster.contract.rows import Row
from tests.localcluster.contract.volcano.cluster import Cluster, Recorder
from tests.localcluster.contract.volcano.ground import Ground
from tests.localcluster.contract.volcano.nodes import played
from tests.localcluster.volcano_cases import SETUP
from tests.needs import require
from tests.ports import free_port
from tests.small_cluster import small_cluster

GIVEN_SETTING = "CONTRACT_VOLCANO"
"""The scheduler configuration that runs in a given cluster, by its name in the recordings."""


class Skipped(Exception):
    """The cluster is not one that could be asked this."""


@dataclass(frozen=True)
class Site:
    """`use(SETTING)` makes a scheduler configuration run. Raises Refused, Skipped. `settle`: seconds until everybody
    has seen what was cleared away, and the same after a job was deleted by a case."""

    name: str
    cluster: Cluster
    recorder: Recorder
    ground: Ground
    use: Callable[[str], None]
    settle: tuple[float, float] = (0.3, 1.0)


@contextmanager
def _site(row: Row, use: Callable[[str], None], settle: tuple[float, float] = (0.3, 1.0)) -> Iterator[Site]:
    exchange = Exchange(row)
    cluster, recorder = Cluster(exchange), Recorder(exchange)
    try:
        yield Site(row.name, cluster, recorder, Ground(cluster), use, settle)
    finally:
        recorder.close()
        exchange.close()


class StandIn:
    """Ours, with the configuration that is asked for."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self._folder, self._kubeconfig, self._port = folder, kubeconfig, free_port()
        home = Home(folder)
        home.prepare()
        self._processes, self._setting = Processes(home), ""

    def use(self, setting: str) -> None:
        if setting == self._setting:
            return
        text = SETUP["schedulers"][setting]
        try:
            Settings.parse(text)
        except ValueError as error:
            raise Refused(str(error)) from error
        self.stop()
        conf = self._folder / "scheduler.conf"
        conf.write_text(text)
        command = (sys.executable, "-m", "apps.localcluster.volcano", f"--kubeconfig={self._kubeconfig}")
        options = (f"--scheduler-conf={conf}", f"--port={self._port}")
        path = {"PYTHONPATH": str(TREE)}
        self._processes.start(
            Program("volcano", "Volcano's stand-in", (*command, *options), listening(self._port), path)
        )
        self._setting = setting

    def stop(self) -> None:
        self._processes.stop()
        self._setting = ""


@contextmanager
def small(folder: Path) -> Iterator[Site]:
    """The small cluster; the suite plays its nodes."""
    with small_cluster(folder) as cluster, ExitStack() as stack:
        trust = ssl.create_default_context(cadata=cluster.ca_pem)
        yield _with_stand_in(
            stack, folder, Row("small", cluster.server, cluster.token, trust), cluster.kubeconfig, True
        )


@contextmanager
def real(folder: Path) -> Iterator[Site]:
    """A real control plane with KWOK and our stand-in."""
    require("apiserver")
    folder.mkdir(parents=True, exist_ok=True)
    fleet = folder / "fleet.json"
    fleet.write_text("[]")
    with control_plane(folder, Parts(fleet=fleet, crds=("volcano",), flags=rows.FLAGS)) as plane, ExitStack() as stack:
        trust = ssl.create_default_context(cadata=plane.ca_pem)
        row = Row("apiserver", plane.server, plane.token, trust)
        yield _with_stand_in(stack, folder, row, plane.kubeconfig, "kwok" in plane.left_out)


def _with_stand_in(stack: ExitStack, folder: Path, row: Row, kubeconfig: Path, play: bool) -> Site:
    stand_in = StandIn(folder / "stand-in", kubeconfig)
    stack.callback(stand_in.stop)
    site = stack.enter_context(_site(row, stand_in.use))
    if play:
        stack.enter_context(played(site.cluster.exchange))
    return site


@contextmanager
def given(folder: Path) -> Iterator[Site]:
    """The one of CONTRACT_KUBECONFIG, where CONTRACT_VOLCANO says which configuration runs. Its nodes are KWOK's."""
    running = os.environ.get(GIVEN_SETTING)

    def use(setting: str) -> None:
        if setting != running:
            raise Skipped(f"it needs the scheduler configuration {setting}; {GIVEN_SETTING} says {running}")

    with rows.given(folder) as row, _site(row, use, (1.2, 4.0)) as site:
        assert running is None or site.ground.is_throwaway(), "nodes that KWOK does not play: not for this suite"
        yield site


SITES: dict[str, Callable[[Path], AbstractContextManager[Site]]] = {"small": small, "apiserver": real, "given": given}
