"""People and tenants that every test may lean on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
import yaml

from tests.needs import require

if TYPE_CHECKING:
    from tests.factories import World
    from tests.small_cluster import SmallCluster

# How long an example takes is the machine's affair, and says nothing of what is right.
hypothesis.settings.register_profile("portal", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("portal")


@pytest.fixture(autouse=True)
def language() -> Iterator[None]:
    """A request leaves its reader's language behind in the thread; the next test begins in the portal's own."""
    from django.utils import translation

    yield
    translation.deactivate()


@pytest.fixture
def world(db: None) -> World:
    """Two tenants with a place in one cluster, and one person of each role."""
    from tests.factories import World  # models can be imported only once Django is set up, after this file was read

    return World.make()


@pytest.fixture(scope="session")
def secrets_server() -> None:
    """OpenBao, in this process's settings: one for each worker, whose tests write to the same paths as those of others."""
    from django.conf import settings

    from deploy.local.testing import serve

    require("openbao")
    serve("openbao")
    for name in ("VAULT_ADDR", "VAULT_ROLE_ID_FILE", "VAULT_SECRET_ID_FILE"):
        setattr(settings, name, os.environ[name])
    for name in ("VAULT_ENTRY_ROLE_ID_FILE", "VAULT_ENTRY_SECRET_ID_FILE"):
        setattr(settings, name, os.environ.get(name, os.environ[name.replace("ENTRY_", "")]))


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    """The small cluster's API server alone: nothing happens in it but what a test does."""
    from tests.small_cluster import small_cluster

    with small_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def connected(world: World, api_server: SmallCluster, secrets_server: None) -> World:
    """The world, its cluster being that API server, its places provisioned. The portal is its administrator there, who
    may also ask for the tenants' accounts."""
    from apps.accounts.types import Actor
    from apps.adapters.kubernetes import objects
    from apps.clusters.services import Registration
    from apps.clusters.services.connect import connect, register
    from apps.tenants.domain.place import ACCOUNT_ROLE, place_steps
    from apps.tenants.services import place_of
    from deploy.local.access import MANIFEST

    cluster = register(
        Actor.system("test"),
        Registration("train-a", "Train A", api_server.server, api_server.ca_pem),
        api_server.token,
    )
    api = connect(cluster)
    documents = yaml.safe_load_all(MANIFEST.read_text())
    role = next(one for one in documents if one["kind"] == "ClusterRole" and one["metadata"]["name"] == ACCOUNT_ROLE)
    api.apply(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ACCOUNT_ROLE}", role)
    for place in (world.place, world.other_place):
        place.refresh_from_db()
        for step in place_steps(place_of(place)):
            api.apply(objects.object_path(step.manifest), step.manifest)
    return world
