"""What the gateway is told: a key opens its own deployment, so many times a minute, until it is revoked."""

from __future__ import annotations

from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client

from apps.accounts.domain import Role
from apps.accounts.models import Membership
from apps.adapters import counter
from apps.catalog.models import ModelVersion
from apps.serving import services
from apps.serving.models import Deployment, DeploymentKey
from apps.serving.services import gate
from tests.factories import World
from tests.serving import made


@pytest.fixture
def deployment(world: World, version: ModelVersion) -> Deployment:
    cache.clear()
    return made.deployment(world.scientist, version)


@pytest.fixture
def key(world: World, deployment: Deployment) -> str:
    return services.make_key(world.scientist.actor(), deployment=deployment, name="ci", rate=3)[1]


def ask(key: str, deployment_id: str, *, method: str = "POST", secret: str = "from the gateway") -> HttpResponse:
    headers = {"Authorization": f"Bearer {key}", "x-maas-deployment": deployment_id, "x-maas-gateway-secret": secret}
    call = Client().post if method == "POST" else Client().get
    return call("/gateway/authorize/nlp/harbour/v1/chat/completions", headers=headers)  # type: ignore[return-value]


def test_a_key_opens_its_deployment_and_nothing_else(world: World, deployment: Deployment, key: str) -> None:
    answer = ask(key, deployment.pk)
    assert (answer.status_code, answer["x-maas-key"]) == (200, f"key-{DeploymentKey.objects.for_system().get().pk}")
    assert DeploymentKey.objects.for_system().get().last_used_at
    sibling = made.deployment(world.scientist, made.version(world.scientist, world.place), name="b")
    foreign = made.deployment(world.stranger(), made.version(world.people[Role.SCIENTIST], world.other_place, name="f"))
    for other, code, error in [
        (sibling.pk, 403, "wrong_deployment"),
        (foreign.pk, 404, "not_found"),
        ("", 404, "not_found"),
        ("01NONE", 404, "not_found"),
    ]:
        answer = ask(key, other)
        assert (answer.status_code, made.error_of(answer.content)) == (code, error)


@pytest.mark.parametrize("shown", ["", "md_wrong", "mdp_wrong", "md_\x00", "'; drop table", "mdp_" + "a" * 5000])
def test_a_bad_key_is_told_nothing_about_what_is_deployed(deployment: Deployment, shown: str) -> None:
    for target in (deployment.pk, "01NONE"):
        answer = ask(shown, target)
        assert answer.status_code == 401
        assert answer["www-authenticate"] == "Bearer"


def test_only_the_gateway_asks(deployment: Deployment, key: str, settings: Any) -> None:
    assert ask(key, deployment.pk, secret="guess").status_code == 403
    settings.GATEWAY_SECRET = ""
    assert ask(key, deployment.pk, secret="").status_code == 403


def test_the_rate_is_counted_by_key_and_minute(world: World, deployment: Deployment, key: str) -> None:
    other = services.make_key(world.scientist.actor(), deployment=deployment, name="b", rate=1)[1]
    with time_machine.travel("2026-11-30T12:00:20Z", tick=False) as clock:
        counts = [ask(key, deployment.pk) for _ in range(4)]
        assert [answer.status_code for answer in counts] == [200, 200, 200, 429]
        assert [answer["x-ratelimit-remaining-requests"] for answer in counts] == ["2", "1", "0", "0"]
        assert (counts[3]["retry-after"], made.error_of(counts[3].content)) == ("40", "rate_limit_exceeded")
        assert ask(other, deployment.pk).status_code == 200
        clock.shift(40)
        assert ask(key, deployment.pk).status_code == 200


def test_while_valkey_is_away_keys_hold_and_each_process_counts(
    deployment: Deployment, key: str, settings: Any
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1"
    counter.counter.cache_clear()
    with time_machine.travel("2026-11-30T13:00:00Z", tick=False):
        assert [ask(key, deployment.pk).status_code for _ in range(4)] == [200, 200, 200, 429]
        assert ask("md_wrong", deployment.pk).status_code == 401


def test_a_revoked_key_stops_within_what_is_remembered(
    world: World, deployment: Deployment, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(key, deployment.pk).status_code == 200
    services.revoke_key(
        world.scientist.actor(), key=DeploymentKey.objects.for_system().select_related("deployment").get()
    )
    assert gate.REMEMBERED <= 5
    now = gate.time.monotonic()
    monkeypatch.setattr(gate.time, "monotonic", lambda: now + gate.REMEMBERED + 0.01)
    assert ask(key, deployment.pk).status_code == 401


def test_what_is_remembered_costs_no_query(deployment: Deployment, key: str, django_assert_num_queries: Any) -> None:
    first = gate.authorize(f"Bearer {key}", deployment.pk)
    with django_assert_num_queries(0):
        again = gate.authorize(f"bearer {key}", deployment.pk)
    assert (first.code, again.code) == (200, 200)


def test_a_playgrounds_pass_is_its_persons_for_a_minute(world: World, deployment: Deployment) -> None:
    actor = world.scientist.actor()
    with time_machine.travel("2026-11-30T14:00:00Z", tick=False) as clock:
        told = services.playground_pass(actor, deployment)
        assert ask(told, deployment.pk, method="GET").status_code == 200
        gate._remembered.clear()
        clock.shift(61)
        assert ask(told, deployment.pk).status_code == 401
        told = services.playground_pass(actor, deployment)
        Membership.objects.filter(user=world.scientist).delete()
        assert ask(told, deployment.pk).status_code == 401


def test_keys_of_what_is_being_removed_open_nothing(world: World, deployment: Deployment, key: str) -> None:
    services.remove(world.scientist.actor(), deployment=deployment, typed=deployment.name)
    assert ask(key, deployment.pk).status_code == 401
