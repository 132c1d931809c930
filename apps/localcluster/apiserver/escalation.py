"""Nobody grants rights that they do not hold, unless they may escalate or bind."""

from __future__ import annotations

import json
from typing import Any

from apps.localcluster.apiserver.errors import StatusError, forbidden
from apps.localcluster.apiserver.rbac import GROUP, Ask, Rbac, covers, covers_path
from apps.localcluster.apiserver.requests import MASTERS, Request

Object = dict[str, Any]

FIELDS = {
    "APIGroups": "apiGroups",
    "Resources": "resources",
    "ResourceNames": "resourceNames",
    "NonResourceURLs": "nonResourceURLs",
    "Verbs": "verbs",
}


def check(rbac: Rbac, request: Request, new: Object, old: Object | None) -> None:
    """Raise StatusError 403 when a role or binding gives more than its writer holds."""
    user, kind, before = request.user, request.kind, old or {}
    if kind.group != GROUP or MASTERS in user.groups:
        return
    if kind.kind in ("Role", "ClusterRole"):
        rules, unchanged = new.get("rules") or [], (new.get("rules") or []) == (before.get("rules") or [])
        way_out = Ask("escalate", GROUP, kind.plural, request.namespace, request.name)
    else:
        reference = new.get("roleRef") or {}
        rules, unchanged = rbac.role_rules(reference, request.namespace), new.get("subjects") == before.get("subjects")
        plural = "roles" if reference.get("kind") == "Role" else "clusterroles"
        way_out = Ask("bind", GROUP, plural, request.namespace, reference.get("name", ""))
    if (old is not None and unchanged) or rbac.reason(user, way_out) is not None:
        return
    held = rbac.rules_of(user, request.namespace)
    missing = [rule | {"verbs": verbs} for rule in rules if (verbs := _missing_verbs(rule, held))]
    if missing:
        raise _refusal(request, new, missing)


def _missing_verbs(rule: Object, held: list[Object]) -> list[str]:
    """The verbs of a rule that are not held for all that it is about."""
    things = [
        (group, resource, "", name)
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for name in rule.get("resourceNames") or [""]
    ]
    return [
        verb
        for verb in rule.get("verbs") or ()
        if not all(any(covers(mine, Ask(verb, *thing)) for mine in held) for thing in things)
        or not all(any(covers_path(mine, verb, path) for mine in held) for path in rule.get("nonResourceURLs") or ())
    ]


def _refusal(request: Request, new: Object, missing: list[Object]) -> StatusError:
    groups = " ".join(map(json.dumps, request.user.groups))
    head = f'user "{request.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
    name = request.name or new["metadata"].get("name", "")
    return forbidden(request.kind, name, "\n".join([head, *map(_shown, missing)]))


def _shown(rule: Object) -> str:
    parts = [f"{title}:[{' '.join(map(json.dumps, rule[name]))}]" for title, name in FIELDS.items() if rule.get(name)]
    return "{" + ", ".join(parts) + "}"
