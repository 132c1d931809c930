"""Who may do what with tenants. The request was made by the team admin; a job of the tenant stands in the way of removing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from apps.accounts.domain import Role
from apps.tenants.models import TenantRequest
from tests.access import Objects
from tests.factories import World

#                                            anon nobody view  sci  adm   aud  oper stranger
SIGNED_IN = "                                302  200   200   200  200   200  200  200"
LINES: Mapping[tuple[str, str], str] = {
    ("tenants:list", "GET"): SIGNED_IN,
    ("tenants:detail", "GET"): "             302  404   200   200  200   200  200  404",
    ("tenants:restore", "POST"): "           302  404   403   403  302   403  302  404",
    ("tenants:look", "POST"): "              302  404   302   302  302   302  302  404",
    ("tenants:remove", "GET"): "             302  404   403   403  403   403  200  404",
    ("tenants:remove", "POST"): "            302  404   403   403  403   403  409  404",
    ("tenants:requests", "GET"): SIGNED_IN,
    ("tenants:ask", "GET"): "                302  403   403   403  200   403  200  403",
    ("tenants:ask", "POST"): "               302  403   403   403  302   403  302  403",
    ("tenants:request", "GET"): "            302  404   404   404  200   200  200  404",
    ("tenants:decide", "POST"): "            302  404   404   404  403   403  302  404",
    ("tenants:withdraw", "POST"): "          302  404   404   404  302   403  403  404",
    ("api:tenants", "GET"): "                401  200   200   200  200   200  200  200",
    ("api:tenant", "GET"): "                 401  404   200   200  200   200  200  404",
    ("api:tenant-members", "GET"): "         401  404   200   200  200   200  200  404",
    ("api:tenant-look", "POST"): "           401  404  202  202  202  202  202  404",
    ("api:tenant-restore", "POST"): "        401  404   403   403  202   403  202  404",
    ("api:tenant-remove", "POST"): "         401  404   403   403  403   403  409  404",
    ("api:tenant-requests", "GET"): "        401  200   200   200  200   200  200  200",
    ("api:tenant-requests", "POST"): "       401  403   403   403  201   403  201  403",
    ("api:tenant-request", "GET"): "         401  404   404   404  200   200  200  404",
    ("api:tenant-request-decide", "POST"): " 401  404   404   404  403   403  200  404",
    ("api:tenant-request-withdraw", "POST"): "401 404  404   404  200   403  403  404",
}  # fmt: skip


def objects(world: World) -> dict[str, Any]:
    asked = TenantRequest.objects.create(
        slug="speech", name="语音", cluster=world.place.cluster, gpus=8, reason="asr", asked_by=world.people[Role.TEAM_ADMIN]
    )  # fmt: skip
    return {"tenant": world.nlp, "asked": asked}


_PLACE: Callable[[Objects], list[Any]] = lambda found: ["nlp", "train-a"]  # noqa: E731
_REQUEST: Callable[[Objects], list[Any]] = lambda found: [found["asked"].pk]  # noqa: E731
ARGS: Mapping[str, Callable[[Objects], list[Any]]] = {
    "tenants:detail": lambda found: ["nlp"],
    "tenants:restore": _PLACE,
    "tenants:look": _PLACE,
    "tenants:remove": _PLACE,
    "tenants:request": _REQUEST,
    "tenants:decide": _REQUEST,
    "tenants:withdraw": _REQUEST,
    "api:tenant": lambda found: ["nlp"],
    "api:tenant-members": lambda found: ["nlp"],
    "api:tenant-look": _PLACE,
    "api:tenant-restore": _PLACE,
    "api:tenant-remove": _PLACE,
    "api:tenant-request": _REQUEST,
    "api:tenant-request-decide": _REQUEST,
    "api:tenant-request-withdraw": _REQUEST,
}
_ASK = {"slug": "robots", "name": "Robots", "cluster": "train-a", "gpus": 4, "reason": "grasping"}
BODIES: Mapping[str, Callable[[Objects], dict[str, Any]]] = {
    "tenants:ask": lambda found: _ASK,
    "tenants:decide": lambda found: {"decision": "approve", "gpus": "8", "note": ""},
    "tenants:remove": lambda found: {"name": "nlp"},
    "api:tenant-requests": lambda found: _ASK,
    "api:tenant-request-decide": lambda found: {"decision": "approve"},
    "api:tenant-remove": lambda found: {"name": "nlp"},
}
