"""The list of deployments: filters and place in the address, pages by key, rows that update in place."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.accounts import services as accounts
from apps.accounts.types import Permission
from apps.serving.forms import SHOWN, STATES, DeploymentFilter
from apps.serving.models import Deployment
from apps.serving.services.messages import LOOKS, PHASES
from apps.serving.services.reading import ready_counts

LISTING = accounts.Listing(text=True)
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
    page = LISTING.page(found, request.GET)
    context = {
        "page": page.of(_rows(page.rows)),
        "moving": [one.pk for one in page.rows if not one.state.is_final],
        "states": [(key, word) for key, (word, _phases) in STATES.items()],
        "filtered": any(request.GET.get(name) for name in ("state", "mine", "q")),
        "may_deploy": actor.may(Permission.DEPLOYMENT_CREATE),
    }
    return render(request, "serving/list.html", context)


def _rows(some: list[Deployment]) -> list[Row]:
    ready = ready_counts(some)
    return [Row(deployment, ready.get(deployment.pk, 0)) for deployment in some]
