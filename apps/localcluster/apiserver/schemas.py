"""Structural schemas, of built-in and custom kinds alike: types, defaults, and how parts of an object are merged."""

from __future__ import annotations

import base64
import binascii
from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver import quantities

Object = dict[str, Any]

METADATA: Object = {
    "properties": {
        "labels": {"additionalProperties": {"type": "string"}},
        "annotations": {"additionalProperties": {"type": "string"}},
        "finalizers": {"x-kubernetes-list-type": "set"},
        "ownerReferences": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
    },
    "x-present": True,
}
GO_TYPES = {
    "string": "string",
    "integer": "int32",
    "boolean": "bool",
    "object": "map[string]interface {}",
    "array": "[]",
}


def subschema(schema: Object, name: str) -> Object:
    """The schema of a field; empty when nothing is known of it."""
    found = (schema.get("properties") or {}).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def set_defaults(schema: Object, value: Any) -> None:
    """Fill in defaults, from the outside in."""
    if isinstance(value, list):
        for each in value:
            set_defaults(schema.get("items") or {}, each)
    elif isinstance(value, dict):
        for name, field in (schema.get("properties") or {}).items():
            if name not in value and "default" in field:
                value[name] = deepcopy(field["default"])
        for name, each in value.items():
            if isinstance(each, dict | list) and (field := subschema(schema, name)):
                set_defaults(field, each)


def decode(schema: Object, value: Any, path: str) -> str:
    """Bring an object of a built-in kind into stored form; a text when a value in it has the wrong type.

    Quantities become canonical. A null field is one that was not sent; in a map of texts it is the empty text.
    """
    if isinstance(value, list):
        items = schema.get("items") or {}
        return next((fault for each in value if (fault := _scalar(items, each, path) or decode(items, each, path))), "")
    if not isinstance(value, dict):
        return ""
    for name, each in list(value.items()):
        field = METADATA if not path and name == "metadata" else subschema(schema, name)
        here = f"{path}.{name}"
        if each is None:
            if "additionalProperties" in schema and field.get("type") == "string":
                value[name] = ""
            elif not here.startswith(".status"):
                del value[name]
        elif field.get("format") == "quantity":
            try:
                value[name] = quantities.canonical(each)
            except quantities.BadQuantity as error:
                return str(error)
        elif fault := _scalar(field, each, here) or (
            decode(field, each, here) if isinstance(each, dict | list) else ""
        ):
            return fault
    return ""


def _scalar(schema: Object, value: Any, path: str) -> str:
    wanted = schema.get("type")
    if wanted is not None and json_type(value) != wanted:
        sent = {"integer": "number", "boolean": "bool"}.get(json_type(value), json_type(value))
        return f"json: cannot unmarshal {sent} into Go struct field {path.lstrip('.')} of type {GO_TYPES[wanted]}"
    if schema.get("format") == "byte":
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            return "illegal base64 data at input byte 0"
    return ""


def json_type(value: Any) -> str:
    """The schema type of a value."""
    if isinstance(value, bool):
        return "boolean"
    names: dict[type, str] = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")
