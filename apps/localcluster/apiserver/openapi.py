"""OpenAPI v3 as kubectl reads it for apply, explain and its validation: an index, and one document a version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from apps.localcluster.apiserver import schemas
from apps.localcluster.apiserver.answers import TEXT, Answer
from apps.localcluster.apiserver.errors import not_implemented
from apps.localcluster.apiserver.kinds import Kind, Registry
from apps.localcluster.apiserver.store import encode

Object = dict[str, Any]

REFERENCE = "#/components/schemas/"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
WRITE_OPTIONS = ("dryRun", "fieldManager", "fieldValidation")
ON_MANY = {"get": "list", "post": "create"}
ON_ONE = {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
ACTIONS = {"create": "post", "update": "put"}


class OpenApi:
    """Documents are kept until the kinds that they describe change."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._documents: dict[tuple[str, str], tuple[list[Kind], bytes]] = {}

    def answer(self, path: str) -> Answer | None:
        """The answer to a path below /openapi; None for a document that is not there. Raises StatusError 501 for v2."""
        if path.startswith("/openapi/v2"):
            raise not_implemented("OpenAPI v2")
        versions = {_place(group, version): (group, version) for group, version in self._versions()}
        if path.rstrip("/") == "/openapi/v3":
            index = {place: self._entry(place, *versions[place]) for place in versions}
            return Answer(200, encode({"paths": index}), TEXT)
        found = versions.get(path.removeprefix("/openapi/v3/"))
        return Answer(200, self._document(*found)) if found else None

    def _versions(self) -> list[tuple[str, str]]:
        return [(group, version) for group, versions in self.registry.groups().items() for version in versions]

    def _entry(self, place: str, group: str, version: str) -> Object:
        digest = hashlib.sha256(self._document(group, version)).hexdigest().upper()
        return {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest}"}

    def _document(self, group: str, version: str) -> bytes:
        kinds = self.registry.groups()[group][version]
        known = self._documents.get((group, version))
        if known is None or known[0] != kinds:
            known = self._documents[group, version] = kinds, encode(_document(kinds))
        return known[1]


def _place(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _document(kinds: list[Kind]) -> Object:
    known = schemas.read_definitions()
    definitions: dict[str, Object] = {}
    paths: Object = {}
    for kind in kinds:
        name, schema = _definition(kind, known)
        definitions[name] = schema
        paths |= _paths(kind, name)
    todo = list(definitions.values())
    while todo:
        for name in set(_references(todo.pop())) - definitions.keys():
            definitions[name] = known[name]
            todo.append(known[name])
    info = {"title": "Kubernetes", "version": "v1.36.1"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": definitions}}


def _definition(kind: Kind, known: dict[str, Object]) -> tuple[str, Object]:
    named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    if not kind.custom:
        return next(
            (name, each) for name, each in known.items() if each.get("x-kubernetes-group-version-kind") == [named]
        )
    own = dict(kind.schema, **{"x-kubernetes-group-version-kind": [named]})
    own["properties"] = own["properties"] | {"metadata": {"allOf": [{"$ref": REFERENCE + OBJECT_META}]}}
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind]), own


def _references(node: Any) -> Iterator[str]:
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and isinstance(node.get("$ref"), str):
        yield node["$ref"].removeprefix(REFERENCE)
    for child in children:
        yield from _references(child)


def _paths(kind: Kind, definition: str) -> Object:
    """The collection and the object with what can be done to them: kubectl finds schemas and parameters by these."""
    prefix = f"/{_place(kind.group, kind.version)}"
    inside = f"{prefix}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    paths: Object = {}
    for place, methods in ((inside, ON_MANY), (inside + "/{name}", ON_ONE)):
        offered = {method: _operation(kind, verb, definition) for method, verb in methods.items() if verb in kind.verbs}
        if offered:
            paths[place] = offered
    return paths


def _operation(kind: Kind, verb: str, definition: str) -> Object:
    options = () if verb in ("get", "list") else (*WRITE_OPTIONS, *(("force",) if verb == "patch" else ()))
    content = {"application/json": {"schema": {"$ref": REFERENCE + definition}}} if verb != "list" else {}
    return {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in options],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    }
