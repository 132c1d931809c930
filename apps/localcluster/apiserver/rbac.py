"""Who may do what: roles and bindings, as the objects of the cluster say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver.errors import StatusError, details_of
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.requests import MASTERS, Request, User
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(request: Request) -> str:
    """The verb that rights are asked for."""
    if not request.name:
        if request.method in ("GET", "HEAD"):
            return "watch" if request.flag("watch") else "list"
        if request.method == "DELETE":
            return "deletecollection"
    return VERBS.get(request.method, request.method.lower())


@dataclass(frozen=True)
class Binding:
    """A binding as rights are looked up: `role` is (kind, namespace, name)."""

    namespace: str
    name: str
    role: tuple[str, str, str]
    subjects: list[Object]

    def told(self, user: User) -> str:
        """As an access review explains it."""
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        own = f"{self.name}/{self.namespace}" if self.namespace else self.name
        return f'RBAC: allowed by {kind} "{own}" of {self.role[0]} "{self.role[2]}" to {_subject_told(self, user)}'


def _subject_told(binding: Binding, user: User) -> str:
    for subject in binding.subjects:
        if _is_subject(subject, user, binding.namespace):
            place = subject.get("namespace") or binding.namespace
            name = f"{subject['name']}/{place}" if subject["kind"] == "ServiceAccount" else subject["name"]
            return f'{subject["kind"]} "{name}"'
    return ""


class Rbac:
    """Answers from the roles and bindings in the store; compiled anew after any of them has changed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._bells = [
            store.listen(f"{name}.{GROUP}") for name in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        ]
        self._roles: dict[tuple[str, str, str], list[Object]] = {}
        self._bindings: list[Binding] = []
        for bell in self._bells:
            bell.set()

    def _refresh(self) -> None:
        if not any(bell.is_set() for bell in self._bells):
            return
        for bell in self._bells:
            bell.clear()
        self._roles, self._bindings = {}, []
        for plural, kind in (("roles", "Role"), ("clusterroles", "ClusterRole")):
            for record in self.store.select(f"{plural}.{GROUP}"):
                self._roles[kind, record.key[0], record.key[1]] = record.load().get("rules") or []
        for plural in ("clusterrolebindings", "rolebindings"):
            for record in self.store.select(f"{plural}.{GROUP}"):
                item = record.load()
                reference, place = item.get("roleRef") or {}, record.key[0]
                role = (
                    reference.get("kind", ""),
                    place if reference.get("kind") == "Role" else "",
                    reference.get("name", ""),
                )
                self._bindings.append(Binding(place, record.key[1], role, item.get("subjects") or []))

    def grants(self, user: User, namespace: str) -> Iterator[tuple[Object, str]]:
        """Every rule that holds for a user in a namespace (empty: cluster-wide), and what grants it in words."""
        self._refresh()
        for binding in self._bindings:
            if binding.namespace and binding.namespace != namespace:
                continue
            if not any(_is_subject(subject, user, binding.namespace) for subject in binding.subjects):
                continue
            for rule in self._roles.get(binding.role, ()):
                yield rule, binding.told(user)

    def role_rules(self, reference: Object, namespace: str) -> list[Object]:
        """The rules of the role a binding names; none when it is not there."""
        self._refresh()
        kind = reference.get("kind", "")
        return self._roles.get((kind, namespace if kind == "Role" else "", reference.get("name", "")), [])

    def kind_of(self, plural: str) -> Kind:
        """A stand-in for a kind of this group, to ask about rights on it."""
        return Kind(GROUP, "v1", "", plural)

    def rules_of(self, user: User, namespace: str) -> Iterator[Object]:
        """Every rule that holds for a user in a namespace."""
        return (rule for rule, _ in self.grants(user, namespace))

    def reason(self, user: User, verb: str, request: Request) -> str | None:
        """Why a user may do this to the request's resource; None when the user may not."""
        if MASTERS in user.groups:
            return ""
        target, kind = request.target, request.kind
        resource = kind.plural + (f"/{target.subresource}" if target.subresource else "")
        for rule, told in self.grants(user, target.namespace):
            if covers(rule, verb, kind.group, resource, target.name):
                return told
        return None

    def allows(self, user: User, verb: str, request: Request) -> bool:
        """Whether a user may do this to the request's resource."""
        return self.reason(user, verb, request) is not None

    def allows_path(self, user: User, verb: str, path: str) -> bool:
        """Whether a user may use a path outside the API."""
        if MASTERS in user.groups:
            return True
        for rule in self.rules_of(user, ""):
            verbs, paths = rule.get("verbs") or (), rule.get("nonResourceURLs") or ()
            if (verb in verbs or "*" in verbs) and any(_path_fits(pattern, path) for pattern in paths):
                return True
        return False

    def check(self, request: Request, verb: str) -> None:
        """Raise StatusError 403 unless the user may."""
        if self.allows(request.user, verb, request):
            return
        raise refusal(request, verb)


def refusal(request: Request, verb: str) -> StatusError:
    target, kind = request.target, request.kind
    resource = kind.plural + (f"/{target.subresource}" if target.subresource else "")
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    message = f'User "{request.user.name}" cannot {verb} resource "{resource}" in API group "{kind.group}" {where}'
    qualified = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    subject = f'{qualified} "{target.name}" is forbidden' if target.name else f"{qualified} is forbidden"
    return StatusError(403, "Forbidden", f"{subject}: {message}", details_of(kind, target.name))


def path_refusal(user: User, verb: str, path: str) -> StatusError:
    return StatusError(403, "Forbidden", f'forbidden: User "{user.name}" cannot {verb} path "{path}"', {})


def covers(rule: Object, verb: str, group: str, resource: str, name: str) -> bool:
    """Whether a rule holds for a verb on a resource (`pods`, `pods/log`) and a name (empty: any or none)."""
    verbs, groups, resources = rule.get("verbs") or (), rule.get("apiGroups") or (), rule.get("resources") or ()
    if not (verb in verbs or "*" in verbs) or not (group in groups or "*" in groups):
        return False
    _, slash, subresource = resource.partition("/")
    if not (resource in resources or "*" in resources or (slash and f"*/{subresource}" in resources)):
        return False
    names = rule.get("resourceNames") or ()
    return not names or (bool(name) and name in names)


def _is_subject(subject: Object, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    place = subject.get("namespace") or namespace
    return bool(kind == "ServiceAccount" and user.name == f"system:serviceaccount:{place}:{name}")


def _path_fits(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
