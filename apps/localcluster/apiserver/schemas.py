"""Structural schemas, of built-in and custom kinds alike: which fields there are, their types, and their defaults.

Those of the built-in kinds are a real server's OpenAPI definitions (`openapi.json`). There a default of `{}` says that
Go writes the part out even when it is empty, which also means that nobody comes to own it by creating it
(`x-present`). What Go leaves out when there is nothing in it is marked `x-omitted`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver import quantities
from apps.localcluster.apiserver.store import decode as decode_json

Object = dict[str, Any]

KEEP = "x-kubernetes-preserve-unknown-fields"
EITHER = "x-kubernetes-int-or-string"
QUANTITY: Object = {
    EITHER: True,
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
}
COPIED = (
    *("type", "format", "required"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
)
PLAIN = ("string", "integer", "number", "boolean", "array")
STRUCTS = ("date-time", "quantity", "int-or-string")  # texts and numbers in JSON, structs in Go
INNER_METADATA = ("name", "namespace", "labels", "annotations", "finalizers")
GO_TYPES = {
    "string": "string",
    "integer": "int32",
    "boolean": "bool",
    "object": "map[string]interface {}",
    "array": "[]",
}


def read_definitions() -> dict[str, Object]:
    """The definitions as they are served, by their full names."""
    found: dict[str, Object] = decode_json(Path(__file__).with_name("openapi.json").read_bytes())
    return found


def _linked() -> dict[str, Object]:
    """The definitions with every reference in place of its target. They may lie within themselves."""
    definitions = read_definitions()
    for name, schema in definitions.items():
        schema["x-go"] = ".".join(name.split(".")[-2:])
        if name.endswith(".Quantity"):
            schema |= {"format": "quantity"}
        elif name.endswith(".IntOrString"):
            schema |= {EITHER: True}
        elif schema.get("type") == "object" and "properties" not in schema:
            schema |= {KEEP: True}
    for schema in definitions.values():
        _link(schema, definitions)
    extra = yaml.load(Path(__file__).with_name("defaults.yaml").read_text(), Loader=yaml.CSafeLoader)
    short = {".".join(name.split(".")[-3:]): schema for name, schema in definitions.items()}
    for name, values in extra.items():
        for field, value in values.items():
            short[name]["properties"][field]["default"] = value
    zeros = yaml.load(Path(__file__).with_name("zeros.yaml").read_text(), Loader=yaml.CSafeLoader)
    for name, schema in short.items():
        _mark_omitted(schema, zeros.get(name, ()))
    return definitions


def _mark_omitted(schema: Object, kept: Sequence[str]) -> None:
    for name, field in (schema.get("properties") or {}).items():
        plain = field.get("type") in PLAIN or "additionalProperties" in field
        if plain and not {name} & {*schema.get("required", ()), *kept} and field.get("format") not in STRUCTS:
            field["x-omitted"] = True


def _link(node: Object, definitions: dict[str, Object]) -> None:
    for name, child in (node.get("properties") or {}).items():
        target = _target(child, definitions)
        if name in node.get("required", ()) and child.get("type") == "array":
            target = target | {"x-present": True}
        node["properties"][name] = target
    for place in ("items", "additionalProperties"):
        if isinstance(node.get(place), dict):
            node[place] = _target(node[place], definitions)
            node[place].pop("default", None)


def _target(child: Object, definitions: dict[str, Object]) -> Object:
    """What a field refers to. The copy shares the inner parts, which are linked in their turn."""
    reference = _reference(child)
    if reference is None:
        _link(child, definitions)
        return child
    target = dict(definitions[reference.rpartition("/")[2]])
    target.pop("default", None)
    own = {name: value for name, value in child.items() if name not in ("$ref", "allOf", "description")}
    return target | own | ({"x-present": True} if child.get("default") == {} else {})


def _reference(node: Object) -> str | None:
    found: str | None = node.get("$ref") or (node.get("allOf") or [{}])[0].get("$ref")
    return found


DEFINITIONS = _linked()
METADATA = DEFINITIONS["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]
CUSTOM_PROPERTIES: Object = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": METADATA}


def embedded(name: str, definitions: dict[str, Object]) -> Object:
    """A type of Kubernetes itself (`core.v1.PodTemplateSpec`) as custom resource definitions spell it out."""
    full = next(each for each in definitions if each.endswith(f".{name}"))
    return _spelled_out({"$ref": full}, definitions)


def _spelled_out(node: Object, definitions: dict[str, Object]) -> Object:
    """References are followed; of the defaults only those of optional fields stay."""
    name = (_reference(node) or "").rpartition("/")[2]
    if name.endswith(".Quantity"):
        return QUANTITY
    if name.endswith(".IntOrString"):
        return {EITHER: True}
    source = definitions[name] if name else node
    copy = {each: source[each] for each in COPIED if each in source}
    for field, child in (source.get("properties") or {}).items():
        if name.endswith(".ObjectMeta") and field not in INNER_METADATA:
            continue
        part = _spelled_out(child, definitions)
        if field not in source.get("required", ()) and child.get("default") not in (None, {}):
            part = part | {"default": child["default"]}
        copy.setdefault("properties", {})[field] = part
    for place in ("items", "additionalProperties"):
        if isinstance(source.get(place), dict):
            copy[place] = _spelled_out(source[place], definitions)
    if copy.get("type") == "object" and not copy.keys() & {"properties", "additionalProperties"}:
        copy[KEEP] = True
    return copy


def of_kind(group: str, version: str, kind: str) -> Object:
    """The schema of a built-in kind."""
    wanted = {"group": group, "version": version, "kind": kind}
    return next(each for each in DEFINITIONS.values() if each.get("x-kubernetes-group-version-kind") == [wanted])


def of_custom(schema: Object) -> Object:
    """The schema of a custom kind with what every object has. Equal parts are one: pod templates repeat themselves."""
    schema = _shared(schema, {})
    return schema | {"properties": (schema.get("properties") or {}) | CUSTOM_PROPERTIES}


def _shared(node: Any, known: dict[Any, Any]) -> Any:
    if isinstance(node, dict):
        node = {name: _shared(each, known) for name, each in node.items()}
    elif isinstance(node, list):
        node = [_shared(each, known) for each in node]
    else:
        return node
    inner = node.items() if isinstance(node, dict) else enumerate(node)
    key = tuple((name, id(each) if isinstance(each, dict | list) else (type(each), each)) for name, each in inner)
    return known.setdefault((type(node), key), node)


def subschema(schema: Object, name: str) -> Object:
    """The schema of a field; empty when nothing is known of it."""
    found = (schema.get("properties") or {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def prune(schema: Object, value: Any, path: str = "") -> list[str]:
    """Drop what the schema does not know, and nulls it does not allow; the paths of unknown fields."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [each for index, child in enumerate(value) for each in prune(items, child, f"{path[:-1]}[{index}].")]
    if not isinstance(value, dict) or EITHER in schema or "format" in schema:
        return []
    unknown: list[str] = []
    known, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    free = schema.get(KEEP) or not ("type" in schema or known)
    for name, child in list(value.items()):
        if name in known or extra:
            field = subschema(schema, name)
            if child is None and name in known and not field.get("nullable"):
                del value[name]
            elif child is None and name not in known and field.get("type") == "string":
                value[name] = ""
            elif field and isinstance(child, dict | list):
                unknown += prune(field, child, f"{path}{name}.")
        elif not free:
            del value[name]
            unknown.append(path + name)
    return unknown


def set_defaults(schema: Object, value: Any) -> None:
    """Fill in defaults, from the outside in."""
    if isinstance(value, list):
        for each in value:
            set_defaults(schema.get("items") or {}, each)
    elif isinstance(value, dict):
        for name, field in (schema.get("properties") or {}).items():
            if "default" in field and name not in value:
                value[name] = deepcopy(field["default"])
        for name, each in value.items():
            if isinstance(each, dict | list) and (field := subschema(schema, name)):
                set_defaults(field, each)


def omit_empty(schema: Object, value: Any) -> None:
    """Drop what Go leaves out when there is nothing in it."""
    for each in value if isinstance(value, list) else ():
        omit_empty(schema.get("items") or {}, each)
    for name, each in list(value.items()) if isinstance(value, dict) else ():
        field = subschema(schema, name)
        if isinstance(each, dict | list) and field:
            omit_empty(field, each)
        if not each and "x-omitted" in field:
            del value[name]


def decode(schema: Object, value: Any, path: str = "", struct: str = "") -> str:
    """Bring quantities into canonical form; a text when a value has the wrong type."""
    if schema.get("format") == "quantity" or EITHER in schema:
        return ""
    if value is not None and (fault := _scalar(schema, value, f"{struct}{path}")):
        return fault
    struct = schema.get("x-go", struct).rpartition(".")[2]
    if isinstance(value, list):
        items = schema.get("items") or {}
        return next((fault for each in value if (fault := decode(items, each, path, struct))), "")
    known = schema.get("properties") or {}
    for name, each in value.items() if isinstance(value, dict) else ():
        field = subschema(schema, name)
        if field.get("format") == "quantity" and each is not None:
            try:
                value[name] = quantities.canonical(each)
            except quantities.BadQuantity as error:
                return str(error)
        elif field and (fault := decode(field, each, f"{path}.{name}" if name in known else path, struct)):
            return fault
    return ""


def _scalar(schema: Object, value: Any, path: str) -> str:
    wanted, sent = schema.get("type"), json_type(value)
    if wanted not in (None, sent) and not (wanted == "number" and sent == "integer"):
        sent = {"integer": "number", "boolean": "bool"}.get(sent, sent)
        go_type = _go_type(schema)
        return f"json: cannot unmarshal {sent} into Go struct field {path} of type {go_type}"
    if schema.get("format") == "int32" and not -(2**31) <= value < 2**31:
        return f"json: cannot unmarshal number {value} into Go struct field {path} of type int32"
    if schema.get("format") == "byte":
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            return "illegal base64 data at input byte 0"
    return ""


def _go_type(schema: Object) -> str:
    """The type of a value as Go names it."""
    name = str(schema.get("x-go") or schema.get("type"))
    if name == "array":
        return "[]" + _go_type(schema.get("items") or {})
    if name == "object" and "additionalProperties" in schema:
        return "map[string]" + _go_type(schema["additionalProperties"])
    return schema["format"] if name == "integer" and "format" in schema else GO_TYPES.get(name, name)


def json_type(value: Any) -> str:
    """The schema type of a value."""
    if isinstance(value, bool):
        return "boolean"
    names: dict[type, str] = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")
