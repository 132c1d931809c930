"""Nobody grants rights that they do not hold, unless they may escalate or bind."""

from __future__ import annotations

import json
from typing import Any

from apps.localcluster.apiserver.errors import StatusError, forbidden
from apps.localcluster.apiserver.rbac import GROUP, Rbac, covers
from apps.localcluster.apiserver.requests import MASTERS, Request, Target

Object = dict[str, Any]

ROLES, BINDINGS = ("Role", "ClusterRole"), ("RoleBinding", "ClusterRoleBinding")


def check(rbac: Rbac, request: Request, new: Object, old: Object | None) -> None:
    """Raise StatusError 403 when a role or binding gives more than its writer holds."""
    user, kind = request.user, request.kind
    if kind.group != GROUP or MASTERS in user.groups:
        return
    if kind.kind in ROLES:
        rules, before = new.get("rules") or [], (old or {}).get("rules") or []
        if rules == before or _may(rbac, request, "escalate", kind.plural, request.name):
            return
    else:
        reference = new.get("roleRef") or {}
        plural = "roles" if reference.get("kind") == "Role" else "clusterroles"
        if old is not None and old.get("subjects") == new.get("subjects"):
            return
        if _may(rbac, request, "bind", plural, reference.get("name", "")):
            return
        rules = rbac.role_rules(reference, request.namespace)
    held = list(rbac.rules_of(user, request.namespace))
    missing = [short for rule in rules if (short := _missing(rule, held))]
    if missing:
        raise _refusal(request, new, missing)


def _may(rbac: Rbac, request: Request, verb: str, plural: str, name: str) -> bool:
    target = Target("", GROUP, "v1", plural, request.namespace, name)
    asked = Request("POST", target, {}, {}, request.user, rbac.kind_of(plural))
    return rbac.allows(request.user, verb, asked)


def _missing(rule: Object, held: list[Object]) -> Object | None:
    """The part of a rule that no held rule covers: the verbs that are not held for all its resources."""
    verbs = []
    for verb in rule.get("verbs") or ():
        names = rule.get("resourceNames") or [""]
        wanted = [(g, r, n) for g in rule.get("apiGroups") or () for r in rule.get("resources") or () for n in names]
        paths = rule.get("nonResourceURLs") or ()
        fits = all(any(covers(mine, verb, *each) for mine in held) for each in wanted)
        fits = fits and all(
            any(verb in (mine.get("verbs") or ()) and path in (mine.get("nonResourceURLs") or ()) for mine in held)
            for path in paths
        )
        if not fits:
            verbs.append(verb)
    return rule | {"verbs": verbs} if verbs else None


def _refusal(request: Request, new: Object, missing: list[Object]) -> StatusError:
    groups = " ".join(json.dumps(group) for group in request.user.groups)
    lines = "".join("\n" + _shown(rule) for rule in missing)
    text = (
        f'user "{request.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently '
        f"held:{lines}"
    )
    return forbidden(request.kind, request.name or new["metadata"].get("name", ""), text)


def _shown(rule: Object) -> str:
    names = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("Verbs", "verbs"),
    )
    parts = [
        f"{title}:[{' '.join(json.dumps(each) for each in rule[name])}]" for title, name in names if rule.get(name)
    ]
    return "{" + ", ".join(parts) + "}"
