"""Asking for a tenant and deciding on it: who may, and what happens when two do at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from apps.accounts.domain import Role
from apps.accounts.models import Tenant, User
from apps.accounts.types import Denied
from apps.audit.models import Entry
from apps.notices import services as notices
from apps.notices.models import Notice
from apps.quotas import services as quotas
from apps.tenants import services
from apps.tenants.models import Placement, TenantRequest
from tests import factories
from tests.factories import World

APPROVE, REJECT = services.Decision(approve=True), services.Decision(approve=False, note="no room before March")


def asked(world: World, slug: str = "speech", gpus: int = 8) -> services.Asked:
    return services.Asked(slug, "语音识别", world.place.cluster_id, gpus, "ASR 训练")


def ask(world: World, role: Role = Role.TEAM_ADMIN, **changes: Any) -> TenantRequest:
    return services.ask_tenant(world.actor(role), asked(world, **changes))


def told(user: User) -> list[str]:
    return list(Notice.objects.for_system().filter(user=user).order_by("pk").values_list("kind", flat=True))


def test_operators_are_told_and_the_asker_hears_of_the_decision(world: World) -> None:
    request = ask(world)
    operator = world.people[Role.OPERATOR]
    assert told(operator) == ["tenant.asked"]
    assert [str(one.url) for one in notices.waiting_for(operator.actor())] == [f"/tenant-requests/{request.pk}/"]
    assert not Tenant.objects.filter(slug="speech").exists()
    services.decide(operator.actor(), request, services.Decision(approve=True, gpus=6))
    placement = Placement.objects.for_system().get(tenant__slug="speech")
    assert (placement.tenant.name, placement.namespace, placement.state) == ("语音识别", "tenant-speech", "asked")
    assert quotas.use(placement.tenant_id, placement.pool).limit == 6
    assert told(world.people[Role.TEAM_ADMIN]) == ["tenant.approved"]
    assert notices.waiting_for(operator.actor()) == []
    done = Entry.objects.filter(action__in=("tenant.asked", "tenant.approved")).order_by("pk")
    assert [(one.action, one.params["gpus"]) for one in done] == [("tenant.asked", 8), ("tenant.approved", 6)]


def test_an_operator_needs_nobodys_approval(world: World) -> None:
    request = ask(world, Role.OPERATOR)
    assert (request.state, request.granted, request.decided_by) == ("approved", 8, world.people[Role.OPERATOR])
    assert Placement.objects.for_system().filter(tenant__slug="speech").count() == 1
    assert told(world.people[Role.OPERATOR]) == []


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SCIENTIST, Role.AUDITOR])
def test_others_do_not_ask(world: World, role: Role) -> None:
    with pytest.raises(Denied):
        ask(world, role)
    assert Entry.objects.get(action="tenant.asked").result == "refused"


def test_nobody_approves_what_they_asked_for(world: World) -> None:
    """Also not somebody who has become an operator since."""
    request = ask(world)
    User.objects.filter(pk=world.people[Role.TEAM_ADMIN].pk).update(platform_roles=[Role.OPERATOR.value])
    asker = User.objects.get(pk=world.people[Role.TEAM_ADMIN].pk).actor()
    with pytest.raises(Denied, match="decide"):
        services.decide(asker, request, APPROVE)
    request.refresh_from_db()
    assert request.is_open
    assert Entry.objects.get(action="tenant.approved").result == "refused"
    assert notices.waiting_for(asker) == []


def test_the_double_click(world: World) -> None:
    request = ask(world)
    for _ in range(2):
        assert services.decide(world.actor(Role.OPERATOR), request, APPROVE).state == "approved"
    assert Entry.objects.filter(action="tenant.approved").count() == 1
    assert Placement.objects.for_system().filter(tenant__slug="speech").count() == 1


def test_a_rejection_creates_nothing_and_leaves_the_name_free(world: World) -> None:
    request = services.decide(world.actor(Role.OPERATOR), ask(world), REJECT)
    assert (request.state, request.note, request.tenant) == ("rejected", REJECT.note, None)
    assert told(world.people[Role.TEAM_ADMIN]) == ["tenant.rejected"]
    assert ask(world).is_open


@pytest.mark.parametrize("slug", ["nlp", "platform", "speech"])
def test_a_name_is_given_once(world: World, slug: str) -> None:
    ask(world, slug="speech")
    with pytest.raises(services.SlugTaken):
        ask(world, slug=slug)


def _at_once(acts: list[Callable[[], Any]]) -> list[Any]:
    """What each of them answered or raised; all begin together."""
    barrier, answers = threading.Barrier(len(acts)), []

    def run(act: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            answers.append(act())
        except (services.AlreadyDecided, services.SlugTaken) as error:
            answers.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.django_db(transaction=True)
def test_two_operators_decide_at_once() -> None:
    world = World.make()
    second = factories.user("second", Role.OPERATOR)
    request = ask(world)
    answers = _at_once(
        [
            lambda: services.decide(world.actor(Role.OPERATOR), request, APPROVE).state,
            lambda: services.decide(second.actor(), request, REJECT).state,
        ]
    )
    (lost,) = [one for one in answers if isinstance(one, services.AlreadyDecided)]
    (state,) = [one for one in answers if isinstance(one, str)]
    assert lost.request.state == state
    assert Entry.objects.filter(action__in=("tenant.approved", "tenant.rejected"), result="done").count() == 1
    assert Tenant.objects.filter(slug="speech").exists() == (state == "approved")
    assert len(told(world.people[Role.TEAM_ADMIN])) == 1


@pytest.mark.django_db(transaction=True)
def test_two_ask_for_one_name_at_once() -> None:
    world = World.make()
    other = factories.user("other", Role.TEAM_ADMIN, world.vision)
    answers = _at_once(
        [lambda: ask(world), lambda: services.ask_tenant(other.actor(), asked(world)), lambda: ask(world)]
    )
    assert sum(isinstance(one, services.SlugTaken) for one in answers) == 2
    assert TenantRequest.objects.for_system().filter(slug="speech").count() == 1


def test_who_asked_withdraws_and_nobody_else(world: World) -> None:
    admin = world.actor(Role.TEAM_ADMIN)
    request = ask(world)
    with pytest.raises(Denied):
        services.withdraw(world.actor(Role.OPERATOR), request)
    assert services.withdraw(admin, request).state == "withdrawn"
    assert services.withdraw(admin, request).state == "withdrawn"
    assert Entry.objects.filter(action="tenant.withdrawn", result="done").count() == 1
    with pytest.raises(services.AlreadyDecided):
        services.decide(world.actor(Role.OPERATOR), request, APPROVE)
    assert not notices.waiting_for(world.actor(Role.OPERATOR))
    ask(world)  # its short name is free again


def test_what_was_decided_is_not_withdrawn(world: World) -> None:
    request = services.decide(world.actor(Role.OPERATOR), ask(world), REJECT)
    with pytest.raises(services.AlreadyDecided):
        services.withdraw(world.actor(Role.TEAM_ADMIN), request)
