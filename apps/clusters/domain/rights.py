"""The rights that the portal's account needs in a cluster, and those that it must not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Rule = Mapping[str, Any]
"""A rule as Kubernetes tells it: `apiGroups`, `resources`, `verbs`, and perhaps `resourceNames`."""


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource; the core group is "". With a `name` it is about the one object of that name."""

    group: str
    resource: str
    verb: str
    name: str = ""

    @property
    def thing(self) -> str:
        """What it is about, as kubectl writes it: `jobs.batch.volcano.sh`, `clusterroles.…/maas-portal-tenant`."""
        thing = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{thing}/{self.name}" if self.name else thing


ACCOUNT, NAMESPACE = "portal", "maas-portal"
"""The portal's account in a cluster, as the manifest makes it."""


def needed(manifest: Iterable[Mapping[str, Any]]) -> frozenset[Right]:
    """Every right that a manifest gives the portal's account, in all namespaces or in its own."""
    documents = list(manifest)
    names = {
        (document["roleRef"]["kind"], document["roleRef"]["name"])
        for document in documents
        if document["kind"] in ("ClusterRoleBinding", "RoleBinding")
        and any((who["name"], who.get("namespace")) == (ACCOUNT, NAMESPACE) for who in document["subjects"])
    }
    roles = (document for document in documents if (document["kind"], document["metadata"]["name"]) in names)
    return frozenset(
        Right(group, resource, verb, name)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    )


EVERYTHING = Right("*", "*", "*")
RBAC = "rbac.authorization.k8s.io"
FORBIDDEN: Mapping[str, tuple[Right, ...]] = {
    "everything": (EVERYTHING,),
    "impersonate": tuple(Right("", thing, "impersonate") for thing in ("users", "groups", "serviceaccounts")),
    "escalate": tuple(Right(RBAC, "clusterroles", verb) for verb in ("escalate", "bind")),
}
"""Rights that make an account a cluster's administrator, or anybody it likes. A credential with one is refused."""

READS_SECRETS = Right("", "secrets", "list")
"""More than the portal needs, and worth a warning."""


def covers(rule: Rule, right: Right) -> bool:
    """Whether a rule gives a right."""
    names = rule.get("resourceNames")
    if names and right.name not in names:
        return False
    _resource, _slash, sub = right.resource.partition("/")
    resources = {right.resource, "*"} | ({f"*/{sub}"} if sub else set())
    return (
        bool({right.group, "*"} & set(rule.get("apiGroups") or ()))
        and bool(resources & set(rule.get("resources") or ()))
        and bool({right.verb, "*"} & set(rule.get("verbs") or ()))
    )


def missing(rules: Sequence[Rule], wanted: Iterable[Right]) -> list[Right]:
    """The wanted rights that no rule gives, in order."""
    return sorted(right for right in wanted if not any(covers(rule, right) for rule in rules))


def in_words(rights: Iterable[Right]) -> str:
    """Rights by resource: `pods: get, list; nodes: get`."""
    verbs: dict[str, list[str]] = {}
    for right in rights:
        verbs.setdefault(right.thing, []).append(right.verb)
    return "; ".join(f"{thing}: {', '.join(some)}" for thing, some in verbs.items())
