"""The list of deployments: filters and place in the address, pages by key, rows that update in place."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.accounts.types import Permission
from apps.serving.forms import SHOWN, STATES, DeploymentFilter
from apps.serving.models import Deployment
from apps.serving.services.messages import LOOKS, PHASES
from apps.serving.services.reading import ready_counts

PAGE = 50
MOST_ROWS = 100


@dataclass(frozen=True)
class Row:
    deployment: Deployment
    ready: int

    @property
    def look(self) -> tuple[str, str]:
        return LOOKS[self.deployment.state]

    @property
    def word(self) -> object:
        return PHASES[self.deployment.state]


@dataclass(frozen=True)
class Page:
    """Deployments newest first; `older` and `newer` are the addresses' queries, "" where there is nothing more."""

    rows: list[Row]
    older: str
    newer: str

    @property
    def alive(self) -> list[str]:
        """Ids of the rows that may still change."""
        return [row.deployment.pk for row in self.rows if not row.deployment.state.is_final]


@require_GET
def deployments(request: HttpRequest) -> HttpResponse:
    """The page, or the rows that an open page asks for again: `?part=rows&id=…`."""
    actor = request.actor
    visible = Deployment.objects.visible_to(actor).select_related("tenant", "owner", "placement__cluster")
    if request.GET.get("part") == "rows":
        found = visible.filter(pk__in=request.GET.getlist("id")[:MOST_ROWS])
        return render(request, "serving/list.html#live", {"rows": _rows(list(found))})
    chosen = DeploymentFilter(request.GET, visible, request=request)
    found = chosen.qs if chosen.is_valid() else visible
    if not request.GET.get("state"):
        found = found.filter(phase__in=SHOWN)
    context = {
        "page": _page(request, found),
        "states": [(key, word) for key, (word, _phases) in STATES.items()],
        "filtered": any(request.GET.get(name) for name in ("state", "mine", "q")),
        "may_deploy": actor.may(Permission.DEPLOYMENT_CREATE),
    }
    return render(request, "serving/list.html", context)


def _page(request: HttpRequest, found: QuerySet[Deployment]) -> Page:
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
    return Page(_rows(some), older, newer)


def _rows(some: list[Deployment]) -> list[Row]:
    ready = ready_counts(some)
    return [Row(deployment, ready.get(deployment.pk, 0)) for deployment in some]


def _query(asked: QueryDict) -> str:
    """The filters of an address, ready to be continued with `name=value`."""
    kept = {key: asked[key] for key in ("state", "mine", "tenant", "q") if asked.get(key)}
    return f"{urlencode(kept)}&" if kept else ""
