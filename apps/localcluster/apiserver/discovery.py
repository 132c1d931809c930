"""What the server offers: versions, groups, resources, and the same in one document."""

from __future__ import annotations

from typing import Any

from apps.localcluster.apiserver.answers import Answer, json_answer
from apps.localcluster.apiserver.errors import no_resource
from apps.localcluster.apiserver.kinds import Kind, Registry

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
SUBRESOURCE_GROUPS = {
    "TokenRequest": ("authentication.k8s.io", "v1"),
    "Eviction": ("policy", "v1"),
    "Scale": ("autoscaling", "v1"),
}


def wants_aggregated(accept: str) -> bool:
    return "as=APIGroupDiscoveryList" in accept and "v=v2" in accept


def answer(registry: Registry, path: str, accept: str, address: str) -> Answer | None:
    """The answer of a discovery path, None for any other path."""
    parts = path.strip("/").split("/")
    if parts == ["api"]:
        if wants_aggregated(accept):
            return _aggregated(registry, core=True)
        return json_answer(
            {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
            }
        )
    if parts == ["apis"]:
        if wants_aggregated(accept):
            return _aggregated(registry, core=False)
        groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
        return json_answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    if parts[0] == "api" and len(parts) == 2:
        return _resources(registry, "", parts[1])
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in registry.groups():
        return json_answer({"kind": "APIGroup", "apiVersion": "v1"} | _group(parts[1], registry.groups()[parts[1]]))
    if parts[0] == "apis" and len(parts) == 3 and parts[1] in registry.groups():
        return _resources(registry, parts[1], parts[2])
    return None


def _group(name: str, versions: dict[str, list[Kind]]) -> Object:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resources(registry: Registry, group: str, version: str) -> Answer:
    kinds = registry.groups().get(group, {}).get(version)
    if kinds is None:
        raise no_resource()
    resources = []
    for kind in kinds:
        resources.append(_resource(kind))
        for name, (body, verbs) in sorted(kind.subresources.items()):
            entry: Object = {
                "name": f"{kind.plural}/{name}",
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": body,
                "verbs": list(verbs),
            }
            if body in SUBRESOURCE_GROUPS:
                entry["group"], entry["version"] = SUBRESOURCE_GROUPS[body]
            resources.append(entry)
    document: Object = {"kind": "APIResourceList", "groupVersion": f"{group}/{version}" if group else version}
    if group:
        document["apiVersion"] = "v1"
    return json_answer(document | {"resources": resources})


def _resource(kind: Kind) -> Object:
    entry: Object = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    return entry


def _aggregated(registry: Registry, *, core: bool) -> Answer:
    items = []
    for group, versions in registry.groups().items():
        if (group == "") != core:
            continue
        entries = [
            {"version": version, "freshness": "Current", "resources": [_discovered(kind) for kind in kinds]}
            for version, kinds in versions.items()
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": entries})
    body = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }
    answer = json_answer(body)
    answer.content_type = AGGREGATED
    answer.headers.append(("Vary", "Accept"))
    return answer


def _discovered(kind: Kind) -> Object:
    group, version = (kind.group, kind.version) if kind.custom else ("", "")
    entry: Object = {
        "resource": kind.plural,
        "responseKind": {"group": group, "version": version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular or kind.kind.lower(),
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": dict(
                    zip(("group", "version"), SUBRESOURCE_GROUPS.get(body, (group, version)), strict=True), kind=body
                ),
                "verbs": list(verbs),
            }
            for name, (body, verbs) in sorted(kind.subresources.items())
        ]
    return entry
