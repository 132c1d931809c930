"""Inboxes: a notice of the scientist's. Everybody has an inbox, and nobody anybody else's."""

from __future__ import annotations

from typing import Any

from apps.notices.models import Notice
from tests.factories import World

LINES: dict[tuple[str, str], str] = {
    #                                    anon nobody view  sci  adm   aud  oper stranger
    ("notices:inbox", "GET"): "           302  200   200   200  200   200  200  200",
    ("notices:read-all", "POST"): "       302  302   302   302  302   302  302  302",
    ("notices:read", "POST"): "           302  404   404   302  404   404  404  404",
    ("api:inbox", "GET"): "               401  200   200   200  200   200  200  200",
    ("api:inbox-read-all", "POST"): "     401  200   200   200  200   200  200  200",
    ("api:inbox-read", "POST"): "         401  404   404   200  404   404  404  404",
}


def objects(world: World) -> dict[str, Any]:
    values = {"kind": "job.succeeded", "params": {"name": "x"}, "link": "/jobs/", "digest": "d"}
    return {"notice": Notice.objects.create(user=world.scientist, tenant=world.nlp, **values)}


ARGS = {route: lambda made: [made["notice"].pk] for route in ("notices:read", "api:inbox-read")}
BODIES = {"api:inbox-read-all": lambda made: {"up_to": made["notice"].pk}}
