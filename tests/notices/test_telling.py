"""Telling people: who is told, in which words, and once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone, translation
from django.utils.translation import gettext_lazy

from apps.accounts import services as accounts
from apps.accounts.domain import Role
from apps.accounts.models import Membership, User
from apps.accounts.types import Denied, Permission
from apps.notices import services as notices
from apps.notices.models import Notice
from apps.streams.services import may_follow
from tests import factories
from tests.factories import World

KIND = notices.kind("test.told", "{name} ended {how} {gone}", words={"how": lambda code: gettext_lazy(code)})


def tell(*people: User, **more: Any) -> None:
    with transaction.atomic():
        notices.tell([person.pk for person in people], KIND, **{"link": "/jobs/1/", "name": "first light", **more})


def test_those_who_may_decide_are_found_and_nobody_else(world: World) -> None:
    def who(permission: Permission, tenant_id: int | None) -> set[str]:
        found = User.objects.filter(pk__in=accounts.people_with(permission, tenant_id))
        return set(found.values_list("sub", flat=True))

    assert who(Permission.QUOTA_DECIDE_TENANT, world.nlp.pk) == {"team-admin"}
    assert who(Permission.QUOTA_DECIDE_TENANT, world.vision.pk) == set()
    assert who(Permission.JOB_CONTROL_ANY, world.nlp.pk) == {"team-admin", "platform-operator"}
    assert who(Permission.JOB_CONTROL_ANY, None) == {"platform-operator"}
    User.objects.filter(sub="platform-operator").update(is_active=False)
    assert who(Permission.TENANT_DECIDE, None) == set()


def test_a_notice_is_read_in_the_language_of_its_reader(world: World) -> None:
    tell(world.scientist, how="Language")
    notice = Notice.objects.for_system().get()
    assert notices.sentence(notice) == "first light ended Language …"
    with translation.override("zh-hans"):
        assert notices.sentence(notice) == "first light ended 语言 …"


def test_the_same_told_twice_is_told_once_until_it_was_read(world: World) -> None:
    me, other = world.scientist, world.people[Role.TEAM_ADMIN]
    tell(me, how="x")
    tell(me, other, other, how="x")
    tell(me, how="y")
    assert Notice.objects.for_system().filter(user=me).count() == 2
    assert Notice.objects.for_system().filter(user=other).count() == 1
    notices.mark_all_read(me.actor(), Notice.objects.for_system().latest("pk").pk)
    tell(me, how="x")
    assert notices.unread_count(me.actor()) == 1
    old = Notice.objects.for_system().filter(user=me).earliest("pk")
    assert notices.mark_read(me.actor(), old.pk, read=False).read_at is not None  # its twin is unread already


def test_what_one_has_not_seen_yet_stays_unread(world: World) -> None:
    me = world.scientist
    tell(me, how="seen")
    seen = Notice.objects.for_system().get().pk
    tell(me, how="came meanwhile")
    assert notices.mark_all_read(me.actor(), seen) == 1
    assert notices.unread_count(me.actor()) == 1


def test_an_inbox_is_its_owners_alone(world: World) -> None:
    tell(world.scientist, how="x")
    notice = Notice.objects.for_system().get()
    other = world.actor(Role.TEAM_ADMIN)
    with pytest.raises(Notice.DoesNotExist):
        notices.mark_read(other, notice.pk)
    assert notices.mark_all_read(other, notice.pk) == 0
    assert may_follow(world.scientist.actor(), f"inbox.{world.scientist.pk}")
    assert not may_follow(other, f"inbox.{world.scientist.pk}")
    with pytest.raises(Denied):
        notices.mark_read(world.scientist.actor(read_only=True), notice.pk)


def test_who_has_left_a_tenant_reads_no_more_of_it(world: World) -> None:
    tell(world.scientist, how="ours", tenant_id=world.nlp.pk)
    tell(world.scientist, how="everybody's")
    Membership.objects.filter(user=world.scientist).delete()
    assert [n.params["how"] for n in Notice.objects.visible_to(world.scientist.actor())] == ["everybody's"]
    world_viewer = factories.user("late", Role.VIEWER, world.nlp)
    assert not Notice.objects.visible_to(world_viewer.actor()).exists()


def test_what_was_told_is_kept_for_ninety_days(world: World) -> None:
    tell(world.scientist, how="old")
    tell(world.scientist, how="new")
    Notice.objects.for_system().filter(params__how="old").update(at=timezone.now() - timedelta(days=91))
    assert [n.params["how"] for n in Notice.objects.visible_to(world.scientist.actor())] == ["new"]
    assert Notice.objects.for_system().count() == 2
    tell(world.people[Role.VIEWER], how="something else")
    assert sorted(n.params["how"] for n in Notice.objects.for_system()) == ["new", "something else"]


@pytest.mark.django_db(transaction=True)
def test_telling_needs_the_transaction_of_its_change() -> None:
    with pytest.raises(RuntimeError, match="belongs into the transaction"):
        notices.tell([], KIND, link="/")
