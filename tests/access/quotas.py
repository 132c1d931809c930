"""Quota: the pools, and one request of the scientist's that waits for the team admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.domain import Role
from apps.quotas import services
from apps.quotas.models import QuotaRequest
from tests.access import Objects
from tests.factories import World

LINES: dict[tuple[str, str], str] = {
    #                                   anon nobody view sci  adm  aud  oper stranger
    ("quotas:list", "GET"): "           302  200   200  200  200  200  200  200",
    ("quotas:ask", "GET"): "            302  403   403  200  200  403  403  200",
    ("quotas:ask", "POST"): "           302  403   403  302  302  403  403  422",
    ("quotas:request", "GET"): "        302  404   200  200  200  200  200  404",
    ("quotas:approve", "POST"): "       302  404   403  403  302  403  403  404",
    ("quotas:reject", "GET"): "         302  404   403  403  200  403  403  404",
    ("quotas:reject", "POST"): "        302  404   403  403  302  403  403  404",
    ("quotas:offer", "GET"): "          302  404   403  403  200  403  403  404",
    ("quotas:offer", "POST"): "         302  404   403  403  302  403  403  404",
    ("quotas:accept", "POST"): "        302  404   403  302  403  403  403  404",
    ("quotas:withdraw", "POST"): "      302  404   403  302  403  403  403  404",
    ("quotas:comment", "POST"): "       302  404   403  302  302  403  302  404",
    ("api:quota", "GET"): "             401  200   200  200  200  200  200  200",
    ("api:quota-requests", "GET"): "    401  200   200  200  200  200  200  200",
    ("api:quota-requests", "POST"): "   401  400   403  201  201  403  403  400",
    ("api:quota-request", "GET"): "     401  404   200  200  200  200  200  404",
    ("api:quota-request-approve", "POST"): "401 404 403  403  200  403  403  404",
    ("api:quota-request-reject", "POST"): " 401 404 403  403  200  403  403  404",
    ("api:quota-request-offer", "POST"): "  401 404 403  403  200  403  403  404",
    ("api:quota-request-accept", "POST"): " 401 404 403  409  403  403  403  404",
    ("api:quota-request-withdraw", "POST"): "401 404 403 200  403  403  403  404",
    ("api:quota-request-comment", "POST"): "401 404 403  200  200  403  200  404",
}  # fmt: skip


def objects(world: World) -> dict[str, Any]:
    """What the scientist asks for, eight more for a week."""
    pool = services.Pool(world.place.cluster.slug, world.place.accelerator)
    terms = services.Terms({pool: 8}, timezone.now(), timezone.now() + timedelta(days=7))
    wish = services.Ask(world.nlp.pk, terms, "The demo is on Friday.")
    return {"quotarequest": services.ask(world.actor(Role.SCIENTIST), wish=wish)}


_NAMES = ("request", "approve", "reject", "offer", "accept", "withdraw", "comment")
_ROUTES = [f"quotas:{name}" for name in _NAMES] + [route for route, _ in LINES if route.startswith("api:quota-request")]
ARGS = {
    route: lambda found: [found["quotarequest"].pk] for route in set(_ROUTES) - {"api:quota-requests"}
}  # fmt: skip


def _typed(found: Objects, amount: str) -> dict[str, Any]:
    request: QuotaRequest = found["quotarequest"]
    item = request.items.get()
    return {
        f"amount_{item.allowance_id}": amount,
        "starts_at": "2026-01-01T00:00",
        "ends_at": f"{timezone.localtime(request.ends_at):%Y-%m-%dT%H:%M}",
    }


def _sent(found: Objects, amount: str) -> dict[str, Any]:
    request: QuotaRequest = found["quotarequest"]
    item = request.items.get()
    pool = {"cluster": item.allowance.cluster, "resource": item.allowance.resource, "amount": amount}
    times = {"starts_at": request.starts_at.isoformat(), "ends_at": request.ends_at.isoformat()}
    return {"amounts": [pool], **times}


BODIES = {
    "quotas:ask": lambda found: {**_typed(found, "4"), "tenant": "nlp", "reason": "Why not."},
    "quotas:reject": lambda found: {"note": "Not now."},
    "quotas:offer": lambda found: _typed(found, "4"),
    "quotas:comment": lambda found: {"text": "Please."},
    "api:quota-requests": lambda found: {**_sent(found, "4"), "tenant": "nlp", "reason": "Why not."},
    "api:quota-request-reject": lambda found: {"note": "Not now."},
    "api:quota-request-offer": lambda found: _sent(found, "4"),
    "api:quota-request-comment": lambda found: {"text": "Please."},
}
