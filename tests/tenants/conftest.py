"""A cluster with Volcano's controllers, which the portal enters with the account that an operator gives it."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection

from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.adapters.errors import OutsideError
from apps.adapters.kubernetes import Endpoint, KubeApi, objects
from apps.clusters.services import Registration
from apps.clusters.services.connect import register
from apps.tenants import services
from apps.tenants.models import Placement
from apps.tenants.reconcile import reconcile_placement
from deploy.local.access import Access
from deploy.local.home import Home
from deploy.local.program import NotReady, Program, dying_with_parent, wait_until
from deploy.local.stack import TREE
from deploy.testbed import Parts, control_plane
from tests.factories import World
from tests.needs import require
from tests.small_cluster import small_cluster

PARTS = Parts(scheduler=False, fleet=None, crds=("volcano",))


@dataclass(frozen=True)
class Plane:
    """A control plane. `stop` ends its API server, `start` brings it back on the same state."""

    kubeconfig: Path
    server: str
    token: str
    ca_pem: str
    stop: Callable[[], object]
    start: Callable[[], object]

    def admin(self) -> KubeApi:
        return KubeApi(Endpoint(self.server, self.ca_pem, lambda fresh=False: self.token))


@pytest.fixture(
    scope="session", params=["small", pytest.param("real", marks=[pytest.mark.prove, pytest.mark.timeout(1800)])]
)
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The small cluster's API server, and with `-m prove` the real one; our stand-in for Volcano at both."""
    folder = tmp_path_factory.mktemp("tenants")
    with (_small if request.param == "small" else _real)(folder) as found:
        wait_for_volcano(found.admin())
        yield found


@contextmanager
def _small(folder: Path) -> Iterator[Plane]:
    with small_cluster(folder, "volcano") as cluster:
        stop, start = partial(cluster.kill, "apiserver"), partial(cluster.start, "apiserver")
        yield Plane(cluster.kubeconfig, cluster.server, cluster.token, cluster.ca_pem, stop, start)


@contextmanager
def _real(folder: Path) -> Iterator[Plane]:
    require("apiserver")
    killed: list[Program] = []
    with control_plane(folder / "plane", PARTS) as found, (folder / "volcano.log").open("wb") as log:
        arguments = (sys.executable, "-m", "apps.localcluster.volcano", "--kubeconfig", str(found.kubeconfig))
        command = dying_with_parent("TERM", arguments)
        volcano = subprocess.Popen(command, cwd=TREE, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield Plane(
                found.kubeconfig,
                found.server,
                found.token,
                found.ca_pem,
                lambda: killed.append(found.processes.kill("kube-apiserver")),
                lambda: found.processes.start(killed.pop()),
            )
        finally:
            volcano.terminate()
            volcano.wait(10)


def wait_for_volcano(api: KubeApi) -> None:
    """Until it has opened the queue that it makes itself."""

    def check() -> None:
        try:
            state = api.get(objects.path(objects.QUEUE, name="default"))["status"]["state"]
        except (OutsideError, KeyError) as error:
            raise NotReady("no queue yet") from error
        if state != "Open":
            raise NotReady(str(state))

    wait_until(check, 60)


@dataclass
class Scene:
    """One tenant's way through a cluster. `admin` is the cluster's administrator, who is not the portal."""

    world: World
    admin: KubeApi
    slug: str
    placement: Placement | None = None

    def ask(self, name: str = "语音识别", gpus: int = 8) -> Placement:
        """Asked for by the team admin, approved by the operator."""
        asked = services.Asked(self.slug, name, self.world.place.cluster_id, gpus, "語音 für alle")
        request = services.ask_tenant(self.world.actor(Role.TEAM_ADMIN), asked)
        services.decide(self.world.actor(Role.OPERATOR), request, services.Decision(approve=True))
        self.placement = Placement.objects.for_system().get(tenant__slug=self.slug)
        return self.placement

    def look(self) -> Placement:
        """One look, as the task takes it."""
        assert self.placement
        rows = Placement.objects.for_system().select_related("tenant", "cluster")
        reconcile_placement(rows.get(pk=self.placement.pk))
        self.placement = rows.get(pk=self.placement.pk)
        return self.placement

    def until(self, state: str) -> Placement:
        def check() -> None:
            found = self.look()
            if found.state != state:
                raise NotReady(f"{found.state} {found.problem} {found.steps}")

        wait_until(check, 30)
        assert self.placement
        return self.placement

    @property
    def namespace(self) -> str:
        return f"tenant-{self.slug}"

    def path(self, kind: objects.Kind, name: str) -> str:
        return objects.path(kind, self.namespace if kind.namespaced else "", name)

    def states(self) -> dict[str, str]:
        assert self.placement
        return {one.key: one.state for one in self.placement.found}


@pytest.fixture
def outside_calls() -> Any:
    """A test's own transaction is not one the code under test has opened."""
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


@pytest.fixture
def scene(
    world: World,
    plane: Plane,
    secrets_server: None,
    outside_calls: None,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Scene:
    """The portal has the account of deploy/cluster/portal.yaml, and no right besides."""
    home = Home(tmp_path / "home")
    home.prepare()
    access = Access(home, plane.kubeconfig)
    access.grant()
    own = yaml.safe_load(access.kubeconfig.read_text())["users"][0]["user"]["token"]
    registration = Registration("train-a", "Train A", plane.server, plane.ca_pem)
    register(Actor.system("test"), registration, own)
    world.place.cluster.refresh_from_db()
    slug = f"t{zlib.crc32(request.node.name.encode()):x}"  # tests share a cluster, not a tenant
    return Scene(world, plane.admin(), slug)
