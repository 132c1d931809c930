"""What the server offers: versions, groups, resources, and the same in one document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.localcluster.apiserver.answers import Answer, json_answer
from apps.localcluster.apiserver.errors import no_resource
from apps.localcluster.apiserver.kinds import Kind, Registry
from apps.localcluster.apiserver.store import encode

Object = dict[str, Any]

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "gitVersion": "v1.36.1",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "localcluster",
    "platform": "linux/amd64",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
FOREIGN_BODIES = {
    "TokenRequest": ("authentication.k8s.io", "v1"),
    "Eviction": ("policy", "v1"),
    "Scale": ("autoscaling", "v1"),
}


def answer(registry: Registry, path: str, accept: str, address: str) -> Answer | None:
    """The answer of a discovery path, None for any other path. Raises StatusError 404."""
    groups = registry.groups()
    match path.strip("/").split("/"):
        case ["api" | "apis" as root] if AGGREGATED in accept.replace(" ", ""):
            return _aggregated({name: groups[name] for name in groups if (root == "api") == (name == "")})
        case ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return json_answer({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses})
        case ["apis"]:
            listed = [_group(name, versions) for name, versions in groups.items() if name]
            return json_answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        case ["api", version]:
            return _resources(version, groups[""].get(version))
        case ["apis", group] if group in groups:
            return json_answer({"kind": "APIGroup", "apiVersion": "v1"} | _group(group, groups[group]))
        case ["apis", group, version] if group in groups:
            return _resources(f"{group}/{version}", groups[group].get(version))
    return None


def _group(name: str, versions: dict[str, list[Kind]]) -> Object:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(group_version: str, kinds: list[Kind] | None) -> Answer:
    if kinds is None:
        raise no_resource()
    document: Object = {"kind": "APIResourceList", "groupVersion": group_version}
    if "/" in group_version:
        document["apiVersion"] = "v1"
    return json_answer(document | {"resources": [entry for kind in kinds for entry in _entries(kind)]})


def _entries(kind: Kind) -> Iterator[Object]:
    inside = {"namespaced": kind.namespaced}
    named = {"name": kind.plural, "singularName": _singular(kind), "kind": kind.kind, "verbs": kind.verbs}
    yield named | inside | _names(kind)
    for name, (body, verbs) in sorted(kind.subresources.items()):
        foreign = dict(zip(("group", "version"), FOREIGN_BODIES.get(body, ()), strict=False))
        entry = {"name": f"{kind.plural}/{name}", "singularName": "", "kind": body, "verbs": verbs}
        yield entry | inside | foreign


def _aggregated(groups: dict[str, dict[str, list[Kind]]]) -> Answer:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {"version": version, "freshness": "Current", "resources": [_discovered(kind) for kind in kinds]}
                for version, kinds in versions.items()
            ],
        }
        for group, versions in groups.items()
    ]
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return Answer(200, encode(head | {"items": items}), AGGREGATED, [("Vary", "Accept")])


def _discovered(kind: Kind) -> Object:
    entry: Object = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": _singular(kind),
        "verbs": kind.verbs,
    }
    below = [
        {"subresource": name, "responseKind": _response_kind(kind, body), "verbs": verbs}
        for name, (body, verbs) in sorted(kind.subresources.items())
    ]
    return entry | _names(kind) | ({"subresources": below} if below else {})


def _response_kind(kind: Kind, body: str) -> Object:
    own = (kind.group, kind.version) if kind.custom else ("", "")
    group, version = FOREIGN_BODIES.get(body, own)
    return {"group": group, "version": version, "kind": body}


def _singular(kind: Kind) -> str:
    return kind.singular or kind.kind.lower()


def _names(kind: Kind) -> Object:
    names = {"shortNames": kind.short_names, "categories": kind.categories}
    return {name: values for name, values in names.items() if values}
