"""Deploying, scaling, stopping, removing, keys: who may, what the quota says, and that nothing happens twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction

from apps.accounts.domain import Role
from apps.accounts.types import Denied
from apps.audit.services import Entry, Result
from apps.catalog import services as catalog
from apps.catalog.models import ModelVersion
from apps.quotas import services as quotas
from apps.serving import services
from apps.serving.domain.phases import Phase, Wanted
from apps.serving.models import Deployment, DeploymentKey, DeploymentPhase
from apps.serving.services import background
from tests.factories import World
from tests.serving import made

POOL = quotas.Pool("train-a", "nvidia.com/gpu")


def held(world: World) -> int:
    return quotas.use(world.nlp.pk, POOL).held


def code_of(raised: pytest.ExceptionInfo[services.InvalidRequest]) -> tuple[str, dict[str, Any]]:
    problem = raised.value.problems[0]
    return problem.code, problem.params


def test_deploying_takes_a_hold_and_tells_the_audit_log(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version, replicas=3, shape="1-large")
    assert (deployment.phase, deployment.wanted, deployment.held, held(world)) == ("asking", "run", 3, 3)
    assert background.live_subjects() == {f"deployment:{deployment.pk}"}
    assert quotas.check() == []
    entry = Entry.objects.get(action="deployment.created")
    assert (entry.target, entry.params["gpus"], entry.params["model"]) == (deployment.subject, 3, "harbour v1")
    assert catalog.uses_of([version.pk])[0].name == "harbour chat"


def test_two_clicks_are_one_deployment(world: World, version: ModelVersion) -> None:
    first = made.deployment(world.scientist, version, key="page:1")
    again = made.deployment(world.scientist, version, key="page:1")
    assert (again.pk, Deployment.objects.for_system().count(), held(world)) == (first.pk, 1, 1)
    with pytest.raises(services.KeyReused):
        made.deployment(world.scientist, version, key="page:1", name="another")


@pytest.mark.django_db(transaction=True)
def test_ten_at_once_with_room_for_three_let_three_in() -> None:
    world = World.make()
    version = made.version(world.scientist, world.place)
    quotas.set_base(world.actor(Role.OPERATOR), world.nlp.pk, POOL, 3)

    def once(number: int) -> str:
        try:
            made.deployment(world.scientist, version, name=f"n{number}")
        except services.InvalidRequest as invalid:
            return invalid.problems[0].code
        finally:
            connections.close_all()
        return "in"

    with ThreadPoolExecutor(10) as pool:
        assert sorted(pool.map(once, range(10))) == ["in"] * 3 + ["no-room"] * 7
    assert (held(world), Deployment.objects.for_system().count()) == (3, 3)
    assert quotas.check() == []


def test_more_than_the_quota_is_refused_with_numbers_and_leaves_nothing(world: World, version: ModelVersion) -> None:
    with pytest.raises(services.InvalidRequest) as raised:
        made.deployment(world.scientist, version, replicas=17)
    assert code_of(raised) == ("no-room", {"more": 17, "left": 16, "limit": 16})
    assert not Deployment.objects.for_system().exists()
    assert held(world) == 0


def test_scaling_follows_the_quota_by_the_difference(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version, replicas=2)
    actor = world.scientist.actor()
    services.scale(actor, deployment=deployment, replicas=16)
    assert held(world) == 16
    with pytest.raises(services.InvalidRequest) as raised:
        services.scale(actor, deployment=deployment, replicas=20)
    assert code_of(raised) == ("no-room", {"more": 4, "left": 0, "limit": 16})
    services.scale(actor, deployment=deployment, replicas=1)
    deployment.refresh_from_db()
    assert (deployment.replicas, deployment.held, held(world)) == (1, 16, 16), "held until the replicas are gone"
    services.scale(actor, deployment=deployment, replicas=0)
    deployment.refresh_from_db()
    assert deployment.wanted == Wanted.STOP


@pytest.mark.parametrize("typed", ["1.5", "1e3", "-1", "", "999", "٣"])
def test_odd_numbers_of_replicas_change_nothing(world: World, version: ModelVersion, typed: str) -> None:
    deployment = made.deployment(world.scientist, version)
    with pytest.raises(services.InvalidRequest):
        services.scale(world.scientist.actor(), deployment=deployment, replicas=typed)
    deployment.refresh_from_db()
    assert (deployment.replicas, deployment.wanted) == (1, "run")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"files": catalog.Files.COMING}, "files-coming"),
        ({"facts": {"format": "pickle", "bytes": 9}}, "no-engine"),
        ({"facts": {"format": "charlm", "bytes": 1 << 42}}, "does-not-fit"),
    ],
)
def test_what_cannot_be_served_is_said(world: World, change: dict[str, Any], code: str) -> None:
    version = made.version(world.scientist, world.place, name="other", **change)
    with pytest.raises(services.InvalidRequest) as raised:
        made.deployment(world.scientist, version)
    assert raised.value.problems[0].code == code


def test_another_tenants_version_is_not_there_unless_it_is_public(world: World) -> None:
    foreign = made.version(world.stranger(), world.other_place)
    with pytest.raises(services.InvalidRequest) as raised:
        made.deployment(world.scientist, foreign, tenant_id=world.nlp.pk)
    assert raised.value.problems[0].code == "unknown-version"
    foreign.model.visibility, foreign.model.stage = catalog.Visibility.PUBLIC, catalog.Stage.APPROVED
    foreign.model.save()
    foreign.stage = catalog.Stage.APPROVED
    foreign.save()
    assert made.deployment(world.scientist, foreign, tenant_id=world.nlp.pk).tenant_id == world.nlp.pk


def test_a_viewer_is_refused_and_that_is_written(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version)
    viewer = world.actor(Role.VIEWER)
    for attempt in (
        lambda: services.deploy(viewer, request=made.request(version)),
        lambda: services.scale(viewer, deployment=deployment, replicas=2),
        lambda: services.remove(viewer, deployment=deployment, typed=deployment.name),
        lambda: services.make_key(viewer, deployment=deployment, name="k", rate=1),
    ):
        with pytest.raises(Denied):
            attempt()
    refused = Entry.objects.filter(result=Result.REFUSED).order_by("id").values_list("action", flat=True)
    assert list(refused) == ["deployment.created", "deployment.scaled", "deployment.removed", "deployment.key-made"]


def test_removing_takes_the_typed_name_and_its_keys_at_once(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version)
    actor = world.scientist.actor()
    services.make_key(actor, deployment=deployment, name="ci", rate=60)
    with pytest.raises(services.InvalidRequest):
        services.remove(actor, deployment=deployment, typed="harbour")
    services.remove(actor, deployment=deployment, typed=" harbour chat ")
    services.remove(actor, deployment=deployment, typed="whatever: it is being removed")
    assert DeploymentKey.objects.for_system().get().revoked_at
    assert Entry.objects.filter(action="deployment.removed").count() == 1
    with pytest.raises(services.NotNow):
        services.start(actor, deployment=deployment)
    with pytest.raises(services.NotNow):
        services.make_key(actor, deployment=deployment, name="late", rate=60)


def test_a_stopped_one_starts_again_with_its_quota_or_says_what_is_missing(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version, replicas=2)
    quotas.release(deployment.subject)
    Deployment.objects.for_system().update(phase=Phase.STOPPED, wanted=Wanted.STOP, held=0)
    other = made.deployment(world.scientist, version, replicas=15, name="other")
    actor = world.scientist.actor()
    with pytest.raises(services.InvalidRequest) as raised:
        services.start(actor, deployment=deployment)
    assert code_of(raised) == ("no-room", {"more": 2, "left": 1, "limit": 16})
    services.scale(actor, deployment=deployment, replicas=1)
    deployment.refresh_from_db()
    assert (deployment.wanted, deployment.replicas, held(world)) == ("run", 1, 16)
    assert other.held == 15


def test_a_key_is_kept_as_its_hash_only(world: World, version: ModelVersion) -> None:
    deployment = made.deployment(world.scientist, version)
    key, clear = services.make_key(world.scientist.actor(), deployment=deployment, name="ci", rate="60")
    assert clear.startswith(key.prefix)
    with connection.cursor() as cursor, transaction.atomic():
        for table in ("serving_deploymentkey", "audit_entry"):
            cursor.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s", [f"%{clear[9:]}%"])
            assert cursor.fetchone() == (0,)
    services.revoke_key(world.actor(Role.TEAM_ADMIN), key=key)
    services.revoke_key(world.actor(Role.TEAM_ADMIN), key=key)
    assert Entry.objects.filter(action="deployment.key-revoked").count() == 1


def test_names_in_any_script_get_an_address(world: World, version: ModelVersion) -> None:
    ours = made.deployment(world.scientist, version, name="港口 对话")
    latin = made.deployment(world.scientist, version, name="Llama_7B chat!")
    tails = [one.pk[-10:].lower() for one in (ours, latin)]
    assert [ours.slug, latin.slug] == [tails[0], f"llama-7b-chat-{tails[1]}"]
    assert DeploymentPhase.objects.count() == 2
