"""Custom resource definitions: those that a new cluster has, what is filled in and checked, and whose names hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver import cel, schemas
from apps.localcluster.apiserver.errors import Cause, invalid_value, not_implemented, required
from apps.localcluster.apiserver.meta import now

Object = dict[str, Any]

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects have gone."""
SHIPPED = ("volcano.yaml", "foreign.yaml")


def shipped() -> Iterator[Object]:
    """The definitions of a new cluster. Their files share parts, and types of Kubernetes itself, by `$ref`."""
    core = schemas.read_definitions()
    for name in SHIPPED:
        text = Path(__file__).with_name(name).read_text()
        shared, *definitions = yaml.load_all(text, Loader=yaml.CSafeLoader)
        for definition in definitions:
            yield _spelled_out(definition, shared["parts"], core)


def _spelled_out(node: Any, parts: Object, core: dict[str, Object]) -> Any:
    if isinstance(node, list):
        return [_spelled_out(each, parts, core) for each in node]
    if not isinstance(node, dict):
        return node
    own = {name: _spelled_out(each, parts, core) for name, each in node.items() if name != "$ref"}
    if (reference := node.get("$ref")) is None:
        return own
    known = reference in parts
    target = _spelled_out(parts[reference], parts, core) if known else schemas.embedded(reference, core)
    return target | own


def set_defaults(definition: Object) -> None:
    spec = definition["spec"]
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
    metadata = definition["metadata"]
    if "deletionTimestamp" not in metadata and CLEANUP not in (metadata.get("finalizers") or ()):
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), CLEANUP]
    status = definition.setdefault("status", {})
    status.setdefault("conditions", None)
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    status["storedVersions"] = status.get("storedVersions") or stored


def validate(definition: Object) -> list[Cause]:
    """Its name, and a structural schema for every version. Raises StatusError 501 for rules that cannot be held."""
    spec, name = definition["spec"], definition["metadata"]["name"]
    causes = []
    if name != f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}":
        causes.append(invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    for index, version in enumerate(spec.get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            causes.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
        else:
            causes += _structural(schema, "spec.validation.openAPIV3Schema")
    return causes


def _structural(schema: Object, path: str) -> list[Cause]:
    for each in schema.get("x-kubernetes-validations") or ():
        try:
            cel.parse(each["rule"])
        except cel.NotUnderstood as error:
            raise not_implemented(f"the rule {each['rule']!r} in CEL") from error
    free = schema.get(schemas.KEEP) or schema.get(schemas.EITHER)
    causes = []
    if not schema.get("type") and not free:
        where = "object fields" if path.endswith("]") else "object root" if path.count(".") == 2 else "array items"
        causes.append(required(f"{path}.type", f"must not be empty for specified {where}"))
    for name, child in (schema.get("properties") or {}).items():
        causes += _structural(child, f"{path}.properties[{name}]")
    for place in ("items", "additionalProperties"):
        if isinstance(schema.get(place), dict):
            causes += _structural(schema[place], f"{path}.{place}")
    return causes


def establish(definition: Object, clash: tuple[str, str] | None) -> bool:
    """Accept the names of a definition, or tell the clash (reason, message); False when that was done already."""
    status, names = definition["status"], definition["spec"]["names"]
    if status.get("conditions") and (status["acceptedNames"] == names) == (clash is None):
        return False
    if clash:
        accepted = condition("NamesAccepted", *clash, status="False")
        established = condition("Established", "NotAccepted", "not all names are accepted", status="False")
    else:
        status["acceptedNames"] = dict(names)
        accepted = condition("NamesAccepted", "NoConflicts", "no conflicts found")
        established = condition("Established", "InitialNamesAccepted", "the initial names have been accepted")
    status["conditions"] = [accepted, established]
    return True


def condition(type_: str, reason: str, message: str, status: str = "True") -> Object:
    """A condition since now."""
    return {"type": type_, "status": status, "lastTransitionTime": now(), "reason": reason, "message": message}
