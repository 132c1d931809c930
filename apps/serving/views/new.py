"""Deploying on one page: version, place, shape and replicas, with the arithmetic of the answer beside it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.accounts import services as accounts
from apps.accounts.types import Permission
from apps.catalog import services as catalog
from apps.catalog.services.words import stage_name
from apps.serving import services
from apps.serving.domain.engines import ENGINES, engine_for
from apps.serving.domain.fit import Fit
from apps.serving.services.fitting import Offer, offer_of
from apps.serving.services.messages import operand_text
from apps.tenants import services as tenants

CHOICES = 50


@dataclass(frozen=True)
class Typed:
    """The form as it was typed, right or wrong."""

    tenant: str
    name: str
    shape: str
    replicas: str
    key: str


@never_cache
@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """GET shows the form (`?part=panel` what depends on its choices), POST deploys."""
    actor = request.actor
    actor.require(Permission.DEPLOYMENT_CREATE, target="deployments")
    version_id = (request.POST if request.method == "POST" else request.GET).get("version", "")
    version = catalog.version_visible(actor, version_id) if version_id else None
    if version is None:
        if version_id:
            messages.error(request, _("There is no such version, or you may not see it."))
        return render(request, "serving/choose.html", {"versions": _choices(request)})
    if request.method == "POST":
        return _deploy(request, version)
    typed = _typed(request, version)
    if request.GET.get("part") == "panel":
        return render(request, "serving/new.html#panel", _context(request, version, typed) | {"oob": True})
    return render(request, "serving/new.html", _context(request, version, typed))


def _choices(request: HttpRequest) -> list[tuple[catalog.ModelVersion, str]]:
    """The newest versions that an engine here serves, each with its stage in words."""
    formats = {name for engine in ENGINES.values() for name in engine.formats}
    found = catalog.versions_visible(request.actor).filter(files=catalog.Files.READY, facts__format__in=formats)
    found = found.exclude(stage=catalog.Stage.WITHDRAWN).select_related("model", "tenant")
    return [(version, stage_name(version.stage)) for version in found.order_by("-pk")[:CHOICES]]


def _typed(request: HttpRequest, version: catalog.ModelVersion) -> Typed:
    """What came with the request, else what is likely meant."""
    sent = request.POST if request.method == "POST" else request.GET
    return Typed(
        sent.get("tenant", ""),
        sent.get("name", version.model.name),
        sent.get("shape", ""),
        sent.get("replicas", "1"),
        sent.get("key", "") or secrets.token_urlsafe(16),
    )


def _tenants(request: HttpRequest, version: catalog.ModelVersion) -> list[Any]:
    """Where this person may deploy it: the version's own tenant first."""
    actor = request.actor
    found = [one for one in accounts.tenants_of(actor) if actor.may(Permission.DEPLOYMENT_CREATE, one.pk)]
    own = [one for one in found if one.pk == version.tenant_id]
    public = version.model.visibility == catalog.Visibility.PUBLIC
    return own + [one for one in found if one.pk != version.tenant_id and public]


def _context(request: HttpRequest, version: catalog.ModelVersion, typed: Typed) -> dict[str, Any]:
    places = _tenants(request, version)
    tenant = next((one for one in places if one.slug == typed.tenant), next(iter(places), None))
    placement = tenants.placement_of(tenant.pk) if tenant else None
    engine = engine_for(version.facts)
    offer = offer_of(engine, version.facts, placement) if engine and placement else None
    chosen = _chosen(offer, typed.shape)
    return {
        "version": version,
        "typed": typed,
        "places": places,
        "tenant": tenant,
        "engine": engine,
        "offer": offer,
        "operands": [(*operand_text(operand), operand.bytes) for operand in offer.operands] if offer else [],
        "chosen": chosen,
        "sum": _sum(offer, chosen, typed.replicas),
        "errors": {},
    }


def _chosen(offer: Offer | None, key: str) -> Fit | None:
    """The shape that was chosen, else the smallest that fits."""
    if offer is None:
        return None
    return next((answer for answer in offer.answers if answer.shape.key == key), None) or offer.smallest


def _sum(offer: Offer | None, chosen: Fit | None, replicas: str) -> dict[str, int] | None:
    """Accelerators in all and what the quota leaves after; None while that cannot be told."""
    if offer is None or chosen is None or not (replicas.isascii() and replicas.isdecimal() and len(replicas) < 4):
        return None
    gpus = int(replicas) * chosen.shape.accelerators
    return {"gpus": gpus, "after": offer.use.left - gpus}


def _deploy(request: HttpRequest, version: catalog.ModelVersion) -> HttpResponse:
    typed = _typed(request, version)
    context = _context(request, version, typed)
    tenant = context["tenant"]
    if tenant is None:
        context["errors"] = {"": [_("You may not deploy this version in any of your tenants.")]}
        return render(request, "serving/new.html", context, status=422)
    asked = services.Request(tenant.pk, version.pk, typed.name, typed.shape, typed.replicas, f"page:{typed.key}"[:255])
    try:
        deployment = services.deploy(request.actor, request=asked)
    except services.InvalidRequest as invalid:
        errors: dict[str, list[str]] = {}
        for problem in invalid.problems:
            errors.setdefault(problem.field, []).append(services.problem_text(problem))
        return render(request, "serving/new.html", context | {"errors": errors}, status=422)
    except services.KeyReused:
        messages.error(request, _("This form was sent before with other values. Look whether that is what you want."))
        return redirect("serving:list")
    return redirect("serving:detail", deployment.pk)
