"""Inboxes, and Home as each of the five finds it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.jobs import moves
from apps.jobs.domain.lifecycle import Reason
from apps.jobs.domain.phases import Phase
from apps.notices import services as notices
from apps.notices.models import Notice
from tests import factories
from tests.factories import World

PAGES = {
    "inbox": ("data-scientist", "/inbox/"),
    "inbox-unread": ("data-scientist", "/inbox/?unread=1&kind=job.failed"),
    "inbox-none-fits": ("data-scientist", "/inbox/?kind=job.stopped&tenant=vision"),
    "inbox-empty": ("viewer", "/inbox/"),
    "home-team-admin": ("team-admin", "/"),
    "home-operator": ("platform-operator", "/"),
    "home-auditor": ("auditor", "/"),
    "home-viewer": ("viewer", "/"),
}


def seed(world: World, me: User) -> dict[str, Any]:
    def ended(name: str, how: Phase, reason: Reason | None = None) -> None:
        past = timezone.now() - timedelta(days=5)
        job = factories.job(me, world.place, phase=Phase.RUNNING, document={"name": name})
        moves.move(job, how, moves.Facts(1, reason) if reason else moves.Facts(1))
        type(job).objects.for_system().filter(pk=job.pk).update(ended_at=past)  # told of, no longer waiting

    for number in range(57):
        ended(f"nightly-{number:03}", Phase.SUCCEEDED)
    notices.mark_all_read(me.actor(), Notice.objects.for_system().latest("pk").pk)
    ended("语音识别-微调-2026-冬", Phase.FAILED, Reason("failed.exit", {"rank": 3, "code": 137}))
    ended("mistral-7b-instruct-long-context-with-a-very-long-name-to-wrap", Phase.SUCCEEDED)
    with transaction.atomic():
        told = {"link": "/jobs/", "tenant_id": world.nlp.pk, "name": "qwen-14b-dpo", "by": "Lars Lindqvist"}
        notices.tell([me.pk, world.people[Role.TEAM_ADMIN].pk], notices.kinds()["job.stopped"], **told)
    return {}
