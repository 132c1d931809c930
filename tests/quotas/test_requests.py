"""Requests: who decides, what is told, when the limit rises and falls, and what two at once come to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.domain import Role
from apps.accounts.models import Membership, User
from apps.accounts.types import Actor, Denied
from apps.audit.models import Entry
from apps.audit.services import Result
from apps.notices.models import Notice
from apps.quotas import services
from apps.quotas.domain.impact import Grant, peak
from apps.quotas.domain.states import ALLOWED, OFFERS, OPEN, State
from apps.quotas.models import Allowance, QuotaRequest
from apps.quotas.services import AlreadyDecided, Ask, InvalidRequest, Pool, Terms, registry
from tests import factories
from tests.factories import World

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
POOL = Pool("train-a", "nvidia.com/gpu")


@pytest.fixture(autouse=True)
def at_noon() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(NOON, tick=False) as clock:
        yield clock


def terms(amount: int = 8, days: float = 14, after: float = 0) -> Terms:
    return Terms({POOL: amount}, NOON + timedelta(days=after), NOON + timedelta(days=after + days))


def asked(world: World, role: Role = Role.SCIENTIST, wish: Terms | None = None, key: str = "") -> QuotaRequest:
    made = Ask(world.nlp.pk, wish or terms(), "演示在周五。", key)
    return services.ask(world.actor(role), wish=made)


def limit(world: World) -> int:
    return services.use(world.nlp.pk, POOL).limit


def turned(request: QuotaRequest, to: datetime) -> State:
    """What time has made of a request by then."""
    with time_machine.travel(to, tick=False):
        for pk in services.due_requests():
            services.turn(QuotaRequest.objects.for_system().get(pk=pk), to)
    request.refresh_from_db()
    return request.standing


def test_two_steps_raise_the_limit_and_time_takes_it_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(registry, "_listeners", [lambda tenant_id, pool: told.append(limit(world))])
    request = asked(world, wish=terms(after=1))
    services.approve(world.actor(Role.TEAM_ADMIN), request, seen=State.TEAM, note="ok")
    services.approve(world.actor(Role.OPERATOR), request, seen=State.PLATFORM)
    assert (request.standing, limit(world)) == (State.APPROVED, 16)
    assert turned(request, NOON + timedelta(hours=23)) is State.APPROVED
    assert (turned(request, NOON + timedelta(days=1)), limit(world)) == (State.ACTIVE, 24)
    assert (turned(request, NOON + timedelta(days=16)), limit(world)) == (State.ENDED, 16)
    assert told == [24, 16]
    assert [event.kind for event in request.events.all()] == ["asked", "team-approved", "approved", "began", "ended"]
    assert [entry.action for entry in Entry.objects.filter(target=f"quota-request:{request.pk}").order_by("id")] == [
        "quota.asked", "quota.team-approved", "quota.approved", "quota.began", "quota.ended",
    ]  # fmt: skip
    services.turn(request, NOON + timedelta(days=17))
    assert limit(world) == 16


def test_what_is_approved_after_its_begin_begins_at_once(world: World) -> None:
    request = asked(world)
    services.approve(world.actor(Role.TEAM_ADMIN), request, seen=State.TEAM)
    services.approve(world.actor(Role.OPERATOR), request, seen=State.PLATFORM)
    assert (request.standing, limit(world)) == (State.ACTIVE, 24)


def test_what_nobody_decided_in_time_lapses_and_what_never_began_ends(world: World) -> None:
    late, unused = asked(world), asked(world, wish=terms(days=1, after=3))
    services.approve(world.actor(Role.TEAM_ADMIN), unused, seen=State.TEAM)
    services.approve(world.actor(Role.OPERATOR), unused, seen=State.PLATFORM)
    assert turned(late, NOON + timedelta(days=30)) is State.LAPSED
    unused.refresh_from_db()
    assert (unused.standing, limit(world)) == (State.ENDED, 16)


def both_roles(world: World) -> Actor:
    """Team admin of the tenant and platform operator in one person."""
    person = factories.user("both", Role.TEAM_ADMIN, world.nlp)
    User.objects.filter(pk=person.pk).update(platform_roles=[Role.OPERATOR.value])
    return User.objects.get(pk=person.pk).actor()


def test_nobody_decides_on_what_they_asked_for_and_the_refusal_is_kept(world: World) -> None:
    """Crater lets who asked review it."""
    both = both_roles(world)
    request = services.ask(both, wish=Ask(world.nlp.pk, terms(), "Because."))
    assert request.standing is State.PLATFORM
    for act in (services.approve, services.reject):
        with pytest.raises(Denied, match="decide-platform"):
            act(both, request, seen=State.PLATFORM, note="I may.")
    with pytest.raises(Denied):
        services.offer(both, request, seen=State.PLATFORM, terms=terms(4))
    refused = Entry.objects.filter(result=Result.REFUSED, target=f"quota-request:{request.pk}")
    assert {(entry.action, entry.actor) for entry in refused} == {
        (action, both.id) for action in ("quota.approved", "quota.rejected", "quota.offered")
    }
    services.approve(world.actor(Role.OPERATOR), request, seen=State.PLATFORM)
    assert limit(world) == 24


def test_nobody_decides_both_steps(world: World) -> None:
    both, request = both_roles(world), asked(world)
    services.approve(both, request, seen=State.TEAM)
    with pytest.raises(Denied):
        services.approve(both, request, seen=State.PLATFORM)
    assert not services.may_decide(both, request)
    assert services.deciders(request) == ["Platform-Operator"]


def test_a_scientist_who_became_team_admin_still_does_not_decide_alone(world: World) -> None:
    request = asked(world)
    Membership.objects.filter(user=world.scientist).update(role=Role.TEAM_ADMIN)
    with pytest.raises(Denied):
        services.approve(world.actor(Role.SCIENTIST), request, seen=State.TEAM)


@pytest.mark.parametrize(
    ("step", "after"), [(State.TEAM, State.PLATFORM), (State.PLATFORM, State.ACTIVE)], ids=["team", "platform"]
)
def test_an_offer_that_is_accepted_decides_the_step_of_who_made_it(world: World, step: State, after: State) -> None:
    request = asked(world)
    if step is State.PLATFORM:
        services.approve(world.actor(Role.TEAM_ADMIN), request, seen=State.TEAM)
    decider = world.actor(Role.TEAM_ADMIN if step is State.TEAM else Role.OPERATOR)
    services.offer(decider, request, seen=step, terms=terms(4, days=7), note="Half of it?")
    assert (request.standing in OFFERS, limit(world)) == (True, 16)
    with pytest.raises(Denied):
        services.accept(world.actor(Role.TEAM_ADMIN), request)
    services.accept(world.actor(Role.SCIENTIST), request)
    assert (request.standing, request.items.get().amount) == (after, 4)
    assert request.ends_at == NOON + timedelta(days=7)
    if step is State.PLATFORM:
        assert limit(world) == 20


def test_an_offer_gives_no_more_than_was_asked_for(world: World) -> None:
    request = asked(world)
    for offered, code in [(terms(9), "more-than-asked"), (terms(), "same-as-asked"), (terms(0), "nothing")]:
        with pytest.raises(InvalidRequest) as caught:
            services.offer(world.actor(Role.TEAM_ADMIN), request, seen=State.TEAM, terms=offered)
        assert code in [problem.code for problem in caught.value.problems]
    assert request.standing is State.TEAM


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("second", ["approve", "reject"])
def test_two_deciders_at_once_make_one_decision_and_one_is_told(second: str) -> None:
    """Crater reads, then writes by id alone: the later decision overwrites the earlier."""
    world = World.make()
    request = asked(world)
    people = [world.people[Role.TEAM_ADMIN], factories.user("另一位", Role.TEAM_ADMIN, world.nlp)]
    acts = [services.approve, services.approve if second == "approve" else services.reject]
    barrier, outcomes = threading.Barrier(2), dict[int, object]()

    def decide(number: int) -> None:
        mine = QuotaRequest.objects.for_system().get(pk=request.pk)
        barrier.wait()
        try:
            acts[number](people[number].actor(), mine, seen=State.TEAM, note="So be it.")
            outcomes[number] = None
        except AlreadyDecided as late:
            outcomes[number] = late
        finally:
            connection.close()

    threads = [threading.Thread(target=decide, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [number for number, outcome in outcomes.items() if outcome is None]
    late = outcomes[1 - winner]
    assert isinstance(late, AlreadyDecided)
    assert late.by == people[winner].name
    assert people[winner].name in services.late_text(late)
    assert request.events.exclude(kind="asked").count() == 1
    assert Entry.objects.filter(action__in=("quota.team-approved", "quota.rejected")).count() == 1


def test_a_page_of_the_step_before_decides_nothing(world: World) -> None:
    both, request = both_roles(world), asked(world)
    services.approve(world.actor(Role.TEAM_ADMIN), request, seen=State.TEAM)
    with pytest.raises(AlreadyDecided) as caught:
        services.approve(both, request, seen=State.TEAM)
    assert (caught.value.by, request.standing) == ("Team-Admin", State.PLATFORM)


def test_withdrawing_ends_it_until_it_has_begun(world: World) -> None:
    actor, request = world.actor(Role.SCIENTIST), asked(world, wish=terms(after=1))
    services.approve(world.actor(Role.TEAM_ADMIN), request, seen=State.TEAM)
    services.approve(world.actor(Role.OPERATOR), request, seen=State.PLATFORM)
    services.withdraw(actor, request)
    assert (turned(request, NOON + timedelta(days=2)), limit(world)) == (State.WITHDRAWN, 16)
    begun = asked(world)
    services.approve(world.actor(Role.TEAM_ADMIN), begun, seen=State.TEAM)
    services.approve(world.actor(Role.OPERATOR), begun, seen=State.PLATFORM)
    with pytest.raises(AlreadyDecided):
        services.withdraw(actor, begun)


@pytest.mark.parametrize(
    ("wish", "reason", "code"),
    [
        (terms(0), "r", "nothing"),
        (terms(-1), "r", "amount-range"),
        (terms(10**7), "r", "amount-range"),
        (terms(days=-1), "r", "past"),
        (terms(days=400), "r", "too-long"),
        (terms(after=400), "r", "too-far"),
        (Terms({POOL: 1}, NOON + timedelta(2), NOON + timedelta(1)), "r", "backward"),
        (Terms({Pool("elsewhere", "nvidia.com/gpu"): 1}, NOON, NOON + timedelta(1)), "r", "unknown-pool"),
        (terms(), "  ", "no-reason"),
        (terms(), "r" * 1001, "long-reason"),
    ],
)
def test_what_cannot_be_asked_for(world: World, wish: Terms, reason: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        services.ask(world.actor(Role.SCIENTIST), wish=Ask(world.nlp.pk, wish, reason))
    assert code in [problem.code for problem in caught.value.problems]
    assert "{" not in services.problem_text(caught.value.problems[0])
    assert not QuotaRequest.objects.for_system().exists()


@pytest.mark.django_db(transaction=True)
def test_the_double_click() -> None:
    world = World.make()
    made: list[int] = []

    def press() -> None:
        try:
            made.append(asked(world, key="once").pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=press) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(set(made))) == (6, 1)
    assert Entry.objects.filter(action="quota.asked").count() == 1


def test_each_is_told_what_waits_for_them(world: World) -> None:
    request = asked(world)
    admin, operator, scientist = (world.actor(role) for role in (Role.TEAM_ADMIN, Role.OPERATOR, Role.SCIENTIST))

    def waits() -> list[str]:
        people = {"admin": admin, "operator": operator, "scientist": scientist}
        return [name for name, actor in people.items() if services.waiting_for(actor)]

    assert waits() == ["admin"]
    services.approve(admin, request, seen=State.TEAM)
    assert waits() == ["operator"]
    services.offer(operator, request, seen=State.PLATFORM, terms=terms(4))
    assert waits() == ["scientist"]
    services.accept(scientist, request)
    assert waits() == []
    told = {(notice.kind, str(notice.user_id)) for notice in Notice.objects.for_system()}
    assert told == {
        ("quota.asked", admin.user_pk),
        ("quota.asked", operator.user_pk),
        ("quota.offered", scientist.user_pk),
        ("quota.accepted", operator.user_pk),
    }


def test_only_who_asks_or_decides_here_comments(world: World) -> None:
    request = asked(world)
    for role in (Role.SCIENTIST, Role.TEAM_ADMIN, Role.OPERATOR):
        services.comment(world.actor(role), request, "与视觉组商量过了。")
    for actor in (world.actor(Role.VIEWER), world.actor(Role.AUDITOR), world.stranger().actor()):
        with pytest.raises(Denied):
            services.comment(actor, request, "Me too.")
    assert request.events.filter(kind="comment").count() == 3


def test_the_impact_counts_what_else_is_granted_in_that_time(world: World) -> None:
    services.set_base(Actor.system("test"), world.vision.pk, POOL, 40)
    services.take(world.nlp.pk, POOL, 5, "job:a")
    Allowance.objects.for_system().filter(tenant_id=world.vision.pk).update(granted=2)
    for wish in (terms(4, days=2), terms(3, days=2, after=1.5), terms(100, days=1, after=20)):
        granted = asked(world, wish=wish)
        services.approve(world.actor(Role.TEAM_ADMIN), granted, seen=State.TEAM)
        services.approve(world.actor(Role.OPERATOR), granted, seen=State.PLATFORM)
    (impact,) = services.impact_of(asked(world, wish=terms(8, days=10)))
    assert (impact.before, impact.after, impact.others, impact.promised) == (16 + 7, 31, 42, 73)
    assert (impact.use.held, impact.figures) == (5, None)


def test_less_is_offered_where_less_is_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = services.PoolFigures("Train A", "A800", total=40, free=6, nodes=5, whole_free=0)
    monkeypatch.setattr(registry, "_figures", [lambda pools: dict.fromkeys(pools, seen)])
    (impact,) = services.impact_of(asked(world, wish=terms(20)))
    assert (impact.promised, impact.beyond, impact.free_after, impact.lacking) == (16 + 16 + 20, 12, 0, 14)
    assert impact.smaller == [(6, "free"), (8, "promised")]
    assert [round(part.width) for part in impact.cluster_bar] == [85, 15]


grants = st.lists(
    st.builds(
        lambda amount, start, length: Grant(amount, NOON + timedelta(hours=start), NOON + timedelta(hours=start + length)),
        st.integers(1, 9), st.integers(-20, 20), st.integers(1, 20),
    ), max_size=6,
)  # fmt: skip


@given(grants, st.integers(1, 20))
def test_the_peak_is_what_counting_every_hour_finds(some: list[Grant], hours: int) -> None:
    counted = [
        sum(grant.amount for grant in some if grant.starts_at <= NOON + timedelta(hours=hour) < grant.ends_at)
        for hour in range(hours)
    ]
    assert peak(some, NOON, NOON + timedelta(hours=hours)) == max(counted)


def test_every_state_has_words_and_ends_are_for_good() -> None:
    assert ALLOWED.keys() == services.STATES.keys() == set(State)
    assert {state for state in State if state.is_final} == {State.ENDED, State.REJECTED, State.WITHDRAWN, State.LAPSED}
    assert all(State.LAPSED in ALLOWED[state] for state in OPEN)
