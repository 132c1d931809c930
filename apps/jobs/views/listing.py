"""The list of jobs: filters and place in the address, pages by key, rows that update in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.accounts.types import Permission
from apps.jobs.domain.phases import Phase
from apps.jobs.forms import STATES, JobFilter
from apps.jobs.models import Job
from apps.jobs.services.overview import Going, going_of
from apps.jobs.services.shapes import shapes
from apps.jobs.services.tally import alive_seen

PAGE = 50
MOST_ROWS = 100


@dataclass(frozen=True)
class Row:
    job: Job
    going: Going

    @property
    def uses(self) -> bool:
        """Whether it has its GPUs, or holds them while it waits."""
        return not self.job.state.is_final and self.job.state is not Phase.SUSPENDED


@dataclass(frozen=True)
class Page:
    """Jobs newest first; `older` and `newer` are the addresses' queries, "" where there is nothing more."""

    rows: list[Row]
    older: str
    newer: str
    first: str

    @property
    def alive(self) -> list[str]:
        """Ids of the rows that may still change."""
        return [row.job.pk for row in self.rows if not row.job.state.is_final]


@require_GET
def jobs(request: HttpRequest) -> HttpResponse:
    """The page, or the parts of it that an open page asks for again: `?part=rows&id=…` and `?part=newer&first=…`."""
    actor = request.actor
    visible = Job.objects.visible_to(actor).select_related("tenant", "owner", "placement__cluster", "loss_watch")
    match request.GET.get("part"):
        case "rows":
            found = visible.filter(pk__in=request.GET.getlist("id")[:MOST_ROWS])
            context = {
                "rows": _rows(list(found)),
                "alive": alive_seen(actor, request.GET.get("tenant", "")),
                "oob": True,
            }
            return render(request, "jobs/list.html#live", context)
        case "newer":
            first = request.GET.get("first", "")
            newer = _filtered(request, Job.objects.visible_to(actor)).filter(pk__gt=first)
            context = {"count": newer[:PAGE].count(), "first": first, "query": _query(request.GET)}
            return render(request, "jobs/list.html#newer", context)
    page = _page(request, _filtered(request, visible))
    context = {
        "page": page,
        "alive": alive_seen(actor, request.GET.get("tenant", "")),
        "states": [(key, word) for key, (word, _phases) in STATES.items()],
        "query": _query(request.GET),
        "filtered": any(request.GET.get(name) for name in ("state", "mine", "q")),
        "may_submit": actor.may(Permission.JOB_SUBMIT),
        "shapes": shapes(),
    }
    return render(request, "jobs/list.html", context)


def _filtered(request: HttpRequest, visible: QuerySet[Job]) -> QuerySet[Job]:
    chosen = JobFilter(request.GET, visible, request=request)
    return chosen.qs if chosen.is_valid() else visible


def _page(request: HttpRequest, found: QuerySet[Job]) -> Page:
    """One more than a page is asked for, which tells whether there is another; an id is a place in time."""
    before, after = request.GET.get("before", ""), request.GET.get("after", "")
    if after:
        some = list(found.filter(pk__gt=after).order_by("pk")[: PAGE + 1])
        more_newer, more_older = len(some) > PAGE, True
        some = some[:PAGE][::-1]
    else:
        some = list((found.filter(pk__lt=before) if before else found).order_by("-pk")[: PAGE + 1])
        more_newer, more_older = bool(before), len(some) > PAGE
        some = some[:PAGE]
    query = _query(request.GET)
    older = f"{query}before={some[-1].pk}" if some and more_older else ""
    newer = f"{query}after={some[0].pk}" if some and more_newer else ""
    return Page(_rows(some), older, newer, some[0].pk if some and not more_newer else "")


def _rows(some: list[Job]) -> list[Row]:
    going = going_of(some)
    return [Row(job, going[job.pk]) for job in some]


def _query(asked: QueryDict) -> str:
    """The filters of an address, ready to be continued with `name=value`."""
    kept: dict[str, Any] = {key: asked[key] for key in ("state", "mine", "tenant", "q") if asked.get(key)}
    return f"{urlencode(kept)}&" if kept else ""
