"""The marketplace: cards with filters in the address, pages by key, places that follow the clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.accounts import services as accounts
from apps.catalog.domain.stages import Stage
from apps.catalog.models import RegisteredModel
from apps.catalog.services import market, words
from apps.catalog.services.market import PAGE, Choice, Wanted

LISTING = accounts.Listing(text=True, size=PAGE)
MOST_IDS = 100


@dataclass(frozen=True)
class Facet:
    """A filter with its choices: value, word, count, whether it is chosen."""

    name: str
    title: str
    choices: list[tuple[str, str, int, bool]]


@require_GET
def models(request: HttpRequest) -> HttpResponse:
    """The page, or with `?part=fits&id=…` where the models on an open page fit now."""
    actor = request.actor
    clusters, nodes = market.free_nodes(actor)
    if request.GET.get("part") == "fits":
        ids = [_id(text) for text in request.GET.getlist("id")[:MOST_IDS]]
        shown = RegisteredModel.objects.visible_to(actor).filter(pk__in=ids)
        return render(request, "catalog/list.html#fits", {"offers": market.offers(shown, nodes)})
    wanted = Wanted.read(request.GET)
    found = market.found_for(actor, wanted).select_related("tenant")
    page = LISTING.page(found, request.GET)
    offers = market.offers(page.rows, nodes)
    facets = _facets(market.facets(actor, wanted), wanted)
    context = {
        "page": page.of(offers),
        "facets": facets,
        "wanted": wanted,
        "clusters": clusters,
        "count": found.count(),
        "fitting": sum(offer.fits for offer in offers),
        "paged": bool(request.GET.get("before") or request.GET.get("after")),
        "looks": {stage.value: (*look, words.STAGES[stage]) for stage, look in words.STAGE_LOOKS.items()},
        "formats": words.FORMATS,
    }
    return render(request, "catalog/list.html", context)


def _id(text: str) -> str:
    """A text from an address that may be an id; "" for one that cannot be."""
    return text if text.isascii() and text.isalnum() and len(text) <= 26 else ""


def _facets(counted: dict[str, list[Choice]], wanted: Wanted) -> list[Facet]:
    names = {choice.value: choice.name for choice in counted["tenant"]}
    spoken = {
        "stage": lambda value: str(words.STAGES[Stage(value)]),
        "format": lambda value: str(words.FORMATS.get(value, value)),
        "tenant": lambda value: names.get(value, value),
        "licence": str,
    }
    found = []
    for name, choices in counted.items():
        chosen = getattr(wanted, name)
        if chosen and all(choice.value != chosen for choice in choices):
            choices = [*choices, Choice(chosen, 0)]
        told = [(c.value, _said(spoken[name], c.value), c.count, c.value == chosen) for c in choices]
        found.append(Facet(name, str(words.FIELDS[name]), told))
    return found


def _said(speak: Any, value: str) -> str:
    try:
        return str(speak(value))
    except ValueError:  # a filter that somebody typed into the address
        return value
