"""What a person touched last, whichever app it belongs to: the way back to it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.types import Actor
from apps.jobs.services import Draft, Job
from apps.quotas.services import QuotaRequest, titles_of
from apps.serving.services import Deployment

SHOWN = 6


@dataclass(frozen=True)
class Recent:
    """One thing and the way to it. `at` is when it was asked for, or a draft's last saving."""

    icon: str
    text: str
    url: str
    at: datetime


def recent_of(actor: Actor, slug: str = "") -> list[Recent]:
    """The newest of a person's own jobs, drafts, deployments and requests (of one tenant), in one query or two each."""
    if not actor.user_pk:
        return []
    found = [*_jobs(actor, slug), *_drafts(actor, slug), *_deployments(actor, slug), *_requests(actor, slug)]
    return sorted(found, key=attrgetter("at"), reverse=True)[:SHOWN]


def _jobs(actor: Actor, slug: str) -> list[Recent]:
    rows = Job.objects.visible_to(actor).filter(owner_id=uuid.UUID(actor.user_pk)).order_by("-pk")
    rows = rows.filter(tenant__slug=slug) if slug else rows
    return [
        Recent("player-play", row.name, reverse("jobs:detail", args=[row.pk]), row.created_at) for row in rows[:SHOWN]
    ]


def _drafts(actor: Actor, slug: str) -> list[Recent]:
    rows = Draft.objects.visible_to(actor).filter(submitted_at=None).order_by("-updated_at")
    rows = rows.filter(tenant__slug=slug) if slug else rows
    return [
        Recent(
            "pencil",
            _("Draft: {name}").format(name=row.document.get("name") or _("without a name")),
            reverse("jobs:draft-data", args=[row.pk]),
            row.updated_at,
        )
        for row in rows[:SHOWN]
    ]


def _deployments(actor: Actor, slug: str) -> list[Recent]:
    rows = Deployment.objects.visible_to(actor).filter(owner_id=uuid.UUID(actor.user_pk)).order_by("-pk")
    rows = rows.filter(tenant__slug=slug) if slug else rows
    return [
        Recent("rocket", row.name, reverse("serving:detail", args=[row.pk]), row.created_at) for row in rows[:SHOWN]
    ]


def _requests(actor: Actor, slug: str) -> list[Recent]:
    rows = QuotaRequest.objects.visible_to(actor).filter(asker_id=uuid.UUID(actor.user_pk)).order_by("-pk")
    newest = list((rows.filter(tenant__slug=slug) if slug else rows)[:SHOWN])
    titles = titles_of(newest)
    return [
        Recent(
            "gauge",
            _("Request: {amounts}").format(amounts=titles.get(row.pk, row)),
            reverse("quotas:request", args=[row.pk]),
            row.created_at,
        )
        for row in newest
    ]
