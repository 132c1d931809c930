"""How many jobs do what now."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q, Sum

from apps.accounts.types import Actor
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job


@dataclass(frozen=True)
class Alive:
    """Jobs that have not ended, by what they do now; `gpus` are those of the running ones."""

    running: int
    gpus: int
    starting: int
    waiting: int
    suspended: int


def alive_seen(actor: Actor, slug: str = "") -> Alive:
    """The jobs that an actor may see (of one tenant) and that have not ended, counted in one query."""
    unfinished = Job.objects.visible_to(actor).unfinished()
    unfinished = unfinished.filter(tenant__slug=slug) if slug else unfinished
    found = unfinished.aggregate(
        running=Count("id", filter=Q(phase=Phase.RUNNING)),
        gpus=Sum("gpus", filter=Q(phase=Phase.RUNNING), default=0),
        starting=Count("id", filter=Q(phase__in=(Phase.STARTING, Phase.RESTARTING))),
        waiting=Count("id", filter=Q(phase__in=(Phase.SUBMITTED, Phase.WAITING))),
        suspended=Count("id", filter=Q(phase__in=(Phase.SUSPENDING, Phase.SUSPENDED))),
    )
    return Alive(**found)
