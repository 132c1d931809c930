"""Who may see, enter, replace and remove secrets. No value leaves a test here: the store is not asked."""

from __future__ import annotations

from typing import Any

from apps.secrets.models import Secret
from tests.factories import World

#                                             anon nobody view  sci  adm   aud  oper stranger
LINES: dict[tuple[str, str], str] = {
    ("secrets:list", "GET"): "                302  403   403   200  200   200  403  200",
    ("secrets:enter", "GET"): "               302  403   403   200  200   403  403  200",
    # Auditors and operators see the tenant, but enter nothing in it.
    ("secrets:enter", "POST"): "              302  422   403   422  422   403  403  422",
    ("secrets:replace", "GET"): "             302  404   404   200  200   403  404  404",
    ("secrets:replace", "POST"): "            302  404   404   422  422   403  404  404",
    ("secrets:remove", "GET"): "              302  404   404   200  200   403  404  404",
    ("secrets:remove", "POST"): "             302  404   404   302  302   403  404  404",
    ("api:secrets", "GET"): "                 401  403   403   200  200   200  403  200",
    ("api:secret", "GET"): "                  401  404   404   200  200   200  404  404",
    ("api:secret", "PUT"): "                  401  404   403   400  400   403  403  404",
    ("api:secret", "DELETE"): "               401  404   404   204  204   403  404  404",
}  # fmt: skip


def objects(world: World) -> dict[str, Any]:
    me = world.scientist
    made = Secret.objects.create(
        tenant=world.nlp, name="hf-token", kind="token", keys=["token"], version=1, created_by=me, changed_by=me
    )
    return {"secret": made}


ARGS = {
    "secrets:replace": lambda made: [made["secret"].pk],
    "secrets:remove": lambda made: [made["secret"].pk],
    "api:secret": lambda _made: ["nlp", "hf-token"],
}

# Nothing is sent that could be stored: whoever may enter is told of the missing value.
BODIES = {
    "secrets:enter": lambda _made: {"tenant": "nlp", "name": "new", "kind": "token", "key_1": "token"},
    "secrets:replace": lambda _made: {"kind": "token", "key_1": "token", "version": "1"},
    "secrets:remove": lambda _made: {"name": "hf-token"},
}
