"""Holds: exactly as much as the limit, given back once, and the count that proves it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from apps.accounts.domain import Role
from apps.accounts.models import Tenant
from apps.accounts.types import Actor, Denied
from apps.audit.models import Entry
from apps.quotas import services
from apps.quotas.models import Allowance, Hold, LedgerEntry
from apps.quotas.services import NoRoom, PodUse, Pool, registry
from tests.factories import World

POOL = Pool("train-b", "nvidia.com/gpu")
SYSTEM = Actor.system("test")


@pytest.fixture
def tenant(db: None) -> int:
    made = Tenant.objects.create(slug="speech", name="语音")
    services.set_base(SYSTEM, made.pk, POOL, 16)
    return made.pk


def held(tenant_id: int) -> tuple[int, int]:
    use = services.use(tenant_id, POOL)
    return use.held, use.left


def test_a_hold_is_taken_once_changed_and_given_back_once(tenant: int) -> None:
    services.take(tenant, POOL, 10, "job:a")
    services.take(tenant, POOL, 10, "job:a")
    assert held(tenant) == (10, 6)
    services.take(tenant, POOL, 16, "job:a")
    services.take(tenant, POOL, 4, "job:a")
    assert held(tenant) == (4, 12)
    services.release("job:a")
    services.release("job:a")
    assert held(tenant) == (0, 16)
    assert not Hold.objects.exists()


def test_what_does_not_fit_leaves_everything_as_it_was(tenant: int) -> None:
    services.take(tenant, POOL, 10, "job:a")
    for amount, subject in [(7, "job:b"), (17, "job:a")]:
        with pytest.raises(NoRoom) as caught:
            services.take(tenant, POOL, amount, subject)
        assert (caught.value.left, caught.value.limit) == (6, 16)
    assert held(tenant) == (10, 6)
    assert list(Hold.objects.values_list("subject", "amount")) == [("job:a", 10)]


def test_a_pool_nobody_gave_has_no_room_and_nothing_needs_none(tenant: int) -> None:
    other = Pool("train-b", "huawei.com/Ascend910")
    with pytest.raises(NoRoom):
        services.take(tenant, other, 1, "job:a")
    services.take(tenant, other, 0, "job:a")
    assert services.use(tenant, other).limit == 0


def test_below_what_is_held_work_goes_on_and_nothing_more_is_let_in(tenant: int) -> None:
    services.take(tenant, POOL, 10, "job:a")
    services.set_base(SYSTEM, tenant, POOL, 4)
    assert (held(tenant), services.use(tenant, POOL).over) == ((10, 0), 6)
    with pytest.raises(NoRoom):
        services.take(tenant, POOL, 1, "job:b")
    services.take(tenant, POOL, 8, "job:a")
    assert held(tenant) == (8, 0)


def test_a_limit_is_told_once_and_only_when_it_changed(tenant: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, Pool]] = []
    monkeypatch.setattr(registry, "_listeners", [lambda tenant_id, pool: told.append((tenant_id, pool))])
    services.set_base(SYSTEM, tenant, POOL, 16)
    services.set_base(SYSTEM, tenant, POOL, 24)
    assert told == [(tenant, POOL)]
    assert Entry.objects.filter(action="quota.base-set").count() == 2


def test_only_the_platform_sets_what_a_tenant_has(world: World) -> None:
    with pytest.raises(Denied):
        services.set_base(world.actor(Role.TEAM_ADMIN), world.nlp.pk, POOL, 1000)
    services.set_base(world.actor(Role.OPERATOR), world.nlp.pk, POOL, 1000)


def at_once(count: int, act: Callable[[int], None]) -> list[Exception]:
    """Run `act(0)` … at the same moment in threads with transactions of their own; what they raised."""
    raised: list[Exception] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait()
            act(number)
        except (NoRoom, DatabaseError, ObjectDoesNotExist) as error:
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_at_one_below_the_limit_let_exactly_one_in(tenant: int) -> None:
    services.take(tenant, POOL, 15, "job:before")
    refused = at_once(20, lambda number: services.take(tenant, POOL, 1, f"job:{number}"))
    assert [type(error) for error in refused] == [NoRoom] * 19
    assert held(tenant) == (16, 0)


@pytest.mark.django_db(transaction=True)
def test_one_subject_taken_and_given_back_at_once_ends_with_the_right_sum(tenant: int) -> None:
    def act(number: int) -> None:
        for _ in range(5):
            if number % 2:
                services.release("job:a")
            else:
                services.take(tenant, POOL, 1 + number, "job:a")

    assert at_once(8, act) == []
    assert held(tenant)[0] == sum(Hold.objects.values_list("amount", flat=True))


def test_what_a_refused_submit_held_is_gone_with_it(tenant: int) -> None:
    with transaction.atomic():
        services.take(tenant, POOL, 4, "job:a")
        transaction.set_rollback(True)
    assert held(tenant) == (0, 16)


def test_holds_are_counted_against_live_work(
    tenant: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alive = {"job:a", "job:lost"}
    monkeypatch.setattr(registry, "_live", {"job": registry.LiveKind(lambda: alive, lambda some: some & {"job:a"})})
    for subject in ("job:a", "job:dead", "task:b"):
        services.take(tenant, POOL, 2, subject)
    Allowance.objects.for_system().filter(tenant_id=tenant).update(held=7)
    found = {(one.what, one.about, one.amount) for one in services.check()}
    assert found == {
        ("without-hold", "job:lost", 0),
        ("without-work", "job:dead", 2),
        ("unknown-kind", "task:b", 2),
        ("wrong-sum", f"tenant:{tenant} nvidia.com/gpu @ train-b", 1),
    }
    use = services.use(tenant, POOL)
    assert (use.held, use.used) == (7, 4)
    with pytest.raises(SystemExit) as caught:
        call_command("check_holds")
    assert caught.value.code == 1
    assert "without-work: job:dead (2)" in capsys.readouterr().out


NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def test_a_pod_is_booked_once_and_its_own_word_corrects_an_estimate(tenant: int) -> None:
    def tell(seconds: float) -> None:
        pod = PodUse("uid-1", 8, NOON, NOON + timedelta(seconds=seconds))
        services.book(tenant, POOL, "job:a", [pod, PodUse("uid-2", 8, NOON, NOON)])

    tell(101.5)
    tell(100)
    assert services.booked("job:a") == 800
    assert LedgerEntry.objects.count() == 2
    assert services.booked_since([tenant], NOON) == {(tenant, POOL): 800}


def test_a_clock_that_went_back_books_nothing(tenant: int) -> None:
    services.book(tenant, POOL, "job:a", [PodUse("uid", 8, NOON, NOON - timedelta(seconds=5))])
    assert services.booked("job:a") == 0
