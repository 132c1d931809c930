"""A cluster with Volcano's controllers, which the portal enters with the account that an operator gives it."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection

from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.adapters.errors import NotFound
from apps.adapters.kubernetes import Endpoint, KubeApi, objects
from apps.clusters.services import Registration
from apps.clusters.services.connect import register
from apps.tenants import services
from apps.tenants.models import Placement
from apps.tenants.reconcile import reconcile_placement
from deploy.local.access import Access
from deploy.local.home import Home
from deploy.local.program import NotReady, wait_until
from tests.factories import World
from tests.small_cluster import SmallCluster, small_cluster


@pytest.fixture(scope="session")
def volcano_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    with small_cluster(tmp_path_factory.mktemp("tenants"), "volcano") as cluster:
        wait_for_volcano(KubeApi(administrator(cluster.kubeconfig)))
        yield cluster


def administrator(kubeconfig: Path) -> Endpoint:
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, token = document["clusters"][0]["cluster"], document["users"][0]["user"]["token"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Endpoint(cluster["server"], authority, lambda fresh=False: token)


def wait_for_volcano(api: KubeApi) -> None:
    """Until it has opened the queue that it makes itself."""

    def check() -> None:
        connection.outside_calls_allowed = True  # type: ignore[attr-defined]
        try:
            state = api.get(objects.path(objects.QUEUE, name="default"))["status"]["state"]
        except (NotFound, KeyError) as error:
            raise NotReady("no queue yet") from error
        finally:
            del connection.outside_calls_allowed  # type: ignore[attr-defined]
        if state != "Open":
            raise NotReady(state)

    wait_until(check, 30)


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
    volcano_cluster: SmallCluster,
    secrets_server: None,
    outside_calls: None,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Scene:
    """The portal has the account of deploy/cluster/portal.yaml, and no right besides."""
    return enter(world, volcano_cluster.kubeconfig, tmp_path, request.node.name)


def enter(world: World, kubeconfig: Path, folder: Path, test: str) -> Scene:
    home = Home(folder / "home")
    home.prepare()
    access = Access(home, kubeconfig)
    access.grant()
    own = yaml.safe_load(access.kubeconfig.read_text())
    cluster = own["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    registration = Registration("train-a", "Train A", cluster["server"], authority)
    register(Actor.system("test"), registration, own["users"][0]["user"]["token"])
    world.place.cluster.refresh_from_db()
    slug = f"t{zlib.crc32(test.encode()):x}"  # tests share a cluster, not a tenant
    return Scene(world, KubeApi(administrator(kubeconfig)), slug)
