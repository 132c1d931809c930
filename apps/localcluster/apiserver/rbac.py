"""Who may do what: roles and bindings, as the objects of the cluster say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver.errors import StatusError, forbidden, not_found
from apps.localcluster.apiserver.requests import MASTERS, Request, User
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
ON_MANY = {"get": "list", "delete": "deletecollection"}
TOLD = {
    "APIGroups": "apiGroups",
    "Resources": "resources",
    "ResourceNames": "resourceNames",
    "NonResourceURLs": "nonResourceURLs",
    "Verbs": "verbs",
}


def verb_of(request: Request) -> str:
    """The verb that rights are asked for."""
    verb = VERBS.get(request.method, request.method.lower())
    if request.name:
        return verb
    return "watch" if verb == "get" and request.flag("watch") else ON_MANY.get(verb, verb)


@dataclass(frozen=True)
class Ask:
    """A question about rights. `resource` as in a rule: `pods`, `pods/log`."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


def ask_of(request: Request, verb: str) -> Ask:
    target, kind = request.target, request.kind
    resource = kind.plural + (f"/{target.subresource}" if target.subresource else "")
    return Ask(verb, kind.group, resource, target.namespace, target.name)


def covers(rule: Object, ask: Ask) -> bool:
    """Whether a rule holds for what is asked; the namespace is its binding's affair."""

    def lists(field: str, *values: str) -> bool:
        return not {"*", *values}.isdisjoint(rule.get(field) or ())

    _, slash, subresource = ask.resource.partition("/")
    resources = (ask.resource, f"*/{subresource}") if slash else (ask.resource,)
    named = not rule.get("resourceNames") or (bool(ask.name) and ask.name in rule["resourceNames"])
    return named and lists("verbs", ask.verb) and lists("apiGroups", ask.group) and lists("resources", *resources)


def covers_path(rule: Object, verb: str, path: str) -> bool:
    """Whether a rule holds for a path outside the API."""
    patterns = rule.get("nonResourceURLs") or ()
    fits = any(path.startswith(each[:-1]) if each.endswith("*") else path == each for each in patterns)
    return fits and not {"*", verb}.isdisjoint(rule.get("verbs") or ())


@dataclass(frozen=True)
class Binding:
    """A binding as rights are looked up: `role` is (kind, namespace, name)."""

    namespace: str
    name: str
    role: tuple[str, str, str]
    subjects: list[Object]

    def subject(self, user: User) -> str | None:
        """The subject that a user is, in words."""
        for each in self.subjects:
            kind, name, place = each.get("kind"), each.get("name", ""), each.get("namespace") or self.namespace
            if kind == "ServiceAccount" and user.name == f"system:serviceaccount:{place}:{name}":
                return f'ServiceAccount "{name}/{place}"'
            if (kind == "User" and name == user.name) or (kind == "Group" and name in user.groups):
                return f'{kind} "{name}"'
        return None

    def told(self, subject: str) -> str:
        """As an access review explains it."""
        own = f'RoleBinding "{self.name}/{self.namespace}"' if self.namespace else f'ClusterRoleBinding "{self.name}"'
        return f'RBAC: allowed by {own} of {self.role[0]} "{self.role[2]}" to {subject}'


class Rbac:
    """Answers from the roles and bindings in the store; compiled anew after any of them has changed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        kinds = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        self._bells = [store.listen(f"{plural}.{GROUP}") for plural in kinds]
        self._roles: dict[tuple[str, str, str], list[Object]] = {}
        self._bindings: list[Binding] = []
        self._bells[0].set()

    def _refresh(self) -> None:
        if not any(bell.is_set() for bell in self._bells):
            return
        for bell in self._bells:
            bell.clear()
        self._roles, self._bindings = {}, []
        for plural, kind in (("roles", "Role"), ("clusterroles", "ClusterRole")):
            for record in self.store.select(f"{plural}.{GROUP}"):
                self._roles[kind, *record.key] = record.load().get("rules") or []
        for plural in ("clusterrolebindings", "rolebindings"):
            for record in self.store.select(f"{plural}.{GROUP}"):
                item, (namespace, name) = record.load(), record.key
                role = _role_of(item.get("roleRef") or {}, namespace)
                self._bindings.append(Binding(namespace, name, role, item.get("subjects") or []))

    def grants(self, user: User, namespace: str) -> Iterator[tuple[Object, str]]:
        """Every rule that holds for a user in a namespace (empty: cluster-wide), and what grants it in words."""
        self._refresh()
        for binding in self._bindings:
            if binding.namespace in ("", namespace) and (subject := binding.subject(user)):
                told = binding.told(subject)
                yield from ((rule, told) for rule in self._roles.get(binding.role, ()))

    def rules_of(self, user: User, namespace: str) -> list[Object]:
        """Every rule that holds for a user in a namespace."""
        return [rule for rule, _ in self.grants(user, namespace)]

    def role_rules(self, reference: Object, namespace: str) -> list[Object] | None:
        """The rules of the role a binding names; None when it is not there."""
        self._refresh()
        return self._roles.get(_role_of(reference, namespace))

    def reason(self, user: User, ask: Ask) -> str | None:
        """Why a user may do what is asked; None when the user may not."""
        if MASTERS in user.groups:
            return ""
        return next((told for rule, told in self.grants(user, ask.namespace) if covers(rule, ask)), None)

    def allows_path(self, user: User, verb: str, path: str) -> bool:
        """Whether a user may use a path outside the API."""
        return MASTERS in user.groups or any(covers_path(rule, verb, path) for rule in self.rules_of(user, ""))

    def check(self, request: Request, verb: str) -> None:
        """Raise StatusError 403 unless the user may."""
        ask = ask_of(request, verb)
        if self.reason(request.user, ask) is None:
            raise _refusal(request, ask)


def _role_of(reference: Object, namespace: str) -> tuple[str, str, str]:
    kind = reference.get("kind", "")
    return kind, namespace if kind == "Role" else "", reference.get("name", "")


def _refusal(request: Request, ask: Ask) -> StatusError:
    where = f'in the namespace "{ask.namespace}"' if ask.namespace else "at the cluster scope"
    why = f'User "{request.user.name}" cannot {ask.verb} resource "{ask.resource}" in API group "{ask.group}" {where}'
    return forbidden(request.kind, ask.name, why)


def path_refusal(user: User, verb: str, path: str) -> StatusError:
    return StatusError(403, "Forbidden", f'forbidden: User "{user.name}" cannot {verb} path "{path}"', {})


def check_escalation(rbac: Rbac, request: Request, new: Object, old: Object | None) -> None:
    """Nobody grants rights that they do not hold: raise StatusError 403 when a role or binding gives more than its
    writer holds, who may neither escalate nor bind; 404 for a binding to a role that is not there."""
    user, kind, before = request.user, request.kind, old or {}
    rules: list[Object] | None
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
    if rules is None:
        raise not_found(kind, way_out.name)  # the role's name, though the binding's kind
    held = rbac.rules_of(user, request.namespace)
    missing = [rule | {"verbs": verbs} for rule in rules if (verbs := _missing_verbs(rule, held))]
    if missing:
        raise _overreach(request, new, missing)


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


def _overreach(request: Request, new: Object, missing: list[Object]) -> StatusError:
    groups = " ".join(map(json.dumps, request.user.groups))
    head = f'user "{request.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
    name = request.name or new["metadata"].get("name", "")
    return forbidden(request.kind, name, "\n".join([head, *map(_shown, missing)]))


def _shown(rule: Object) -> str:
    parts = [f"{title}:[{' '.join(map(json.dumps, rule[name]))}]" for title, name in TOLD.items() if rule.get(name)]
    return "{" + ", ".join(parts) + "}"
