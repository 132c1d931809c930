"""The list of jobs: filters and place in the address, pages by key, rows that update in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.accounts import services as accounts
from apps.accounts.types import Permission
from apps.jobs.domain.phases import Phase
from apps.jobs.forms import STATES, JobFilter
from apps.jobs.models import Job
from apps.jobs.services.overview import Going, going_of
from apps.jobs.services.shapes import shapes
from apps.jobs.services.tally import alive_seen

LISTING = accounts.Listing(text=True)
MOST_ROWS = 100


@dataclass(frozen=True)
class Row:
    job: Job
    going: Going

    @property
    def uses(self) -> bool:
        """Whether it has its GPUs, or holds them while it waits."""
        return not self.job.state.is_final and self.job.state is not Phase.SUSPENDED


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
            first = accounts.searched(request.GET, "first")
            newer = _filtered(request, Job.objects.visible_to(actor)).filter(pk__gt=first)
            context = {"count": newer[: LISTING.size].count(), "first": first, "query": _query(request.GET)}
            return render(request, "jobs/list.html#newer", context)
    page = LISTING.page(_filtered(request, visible), request.GET)
    context = {
        "page": page.of(_rows(page.rows)),
        "moving": [job.pk for job in page.rows if not job.state.is_final],
        "first": page.rows[0].pk if page.rows and not page.newer else "",
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


def _rows(some: list[Job]) -> list[Row]:
    going = going_of(some)
    return [Row(job, going[job.pk]) for job in some]


def _query(asked: QueryDict) -> str:
    """The filters of an address, ready to be continued with `name=value`."""
    kept: dict[str, Any] = {key: asked[key] for key in ("state", "mine", "tenant", "q") if asked.get(key)}
    return f"{urlencode(kept)}&" if kept else ""
