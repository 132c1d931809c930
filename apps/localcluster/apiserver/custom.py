"""Objects of custom kinds against the structural schema of their definition."""

from __future__ import annotations

import re
from typing import Any

from apps.localcluster.apiserver import cel
from apps.localcluster.apiserver.errors import Cause, invalid_value, not_supported, required
from apps.localcluster.apiserver.schemas import json_type, subschema

Object = dict[str, Any]

OWN = ("apiVersion", "kind", "metadata")


def validate(schema: Object, item: Object, old: Object | None = None) -> list[Cause]:
    """Everything that is wrong with an object, which was `old` before."""
    return _validate(schema, {name: value for name, value in item.items() if name not in OWN}, old, "")


def _validate(schema: Object, value: Any, old: Any, path: str) -> list[Cause]:
    if value is None and schema.get("nullable"):
        return []
    if fault := _type(schema, value, path):
        return [fault]
    causes = _value(schema, value, path)
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        causes += [required(prefix + name) for name in schema.get("required") or () if name not in value]
        for name, child in value.items():
            if field := subschema(schema, name):
                causes += _validate(field, child, old.get(name) if isinstance(old, dict) else None, prefix + name)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            causes += _validate(schema.get("items") or {}, child, None, f"{path}[{index}]")
    return causes or [
        fault for rule in schema.get("x-kubernetes-validations") or () if (fault := _rule(rule, value, old, path))
    ]


def _rule(rule: Object, value: Any, old: Any, path: str) -> Cause | None:
    parsed = cel.parse(rule["rule"])
    try:
        if (old is None and parsed.about_old) or parsed.holds(value, old):
            return None
        told = rule.get("message") or f"failed rule: {rule['rule']}"
    except KeyError as error:
        told = f"rule evaluation error: no such key: {error.args[0]}"
    return Cause("FieldValueInvalid", f"Invalid value: {told}", path)


def _type(schema: Object, value: Any, path: str) -> Cause | None:
    wanted, sent = schema.get("type"), json_type(value)
    if schema.get("x-kubernetes-int-or-string"):
        return None if sent in ("integer", "string") else _mistyped(path, "integer,string", sent)
    whole = sent == "number" and float(value).is_integer()
    if wanted in (None, sent) or (wanted == "number" and sent == "integer") or (wanted == "integer" and whole):
        return None
    return _mistyped(path, str(wanted), sent)


def _mistyped(path: str, wanted: str, sent: str) -> Cause:
    text = f'Invalid value: "{sent}": {path} in body must be of type {wanted}: "{sent}"'
    return Cause("FieldValueTypeInvalid", text, path)


def _value(schema: Object, value: Any, path: str) -> list[Cause]:
    """Bounds of a single value."""
    causes = []
    if "enum" in schema and value not in schema["enum"]:
        causes.append(not_supported(path, str(value), [str(each) for each in schema["enum"]]))
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < (least := schema.get("minimum", value)):
            causes.append(invalid_value(path, value, f"{path} in body should be greater than or equal to {least}"))
        if value > (most := schema.get("maximum", value)):
            causes.append(invalid_value(path, value, f"{path} in body should be less than or equal to {most}"))
    if isinstance(value, str):
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            text = f"Too long: may not be more than {schema['maxLength']} bytes"
            causes.append(Cause("FieldValueTooLong", text, path))
        if len(value) < schema.get("minLength", 0):
            text = f"{path} in body should be at least {schema['minLength']} chars long"
            causes.append(invalid_value(path, value, text))
        if "pattern" in schema and not re.search(schema["pattern"], value):
            causes.append(invalid_value(path, value, f"{path} in body should match '{schema['pattern']}'"))
    if isinstance(value, list):
        if "maxItems" in schema and len(value) > schema["maxItems"]:
            text = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
            causes.append(Cause("FieldValueTooMany", text, path))
        if len(value) < schema.get("minItems", 0):
            text = f"{path} in body should have at least {schema['minItems']} items"
            causes.append(Cause("FieldValueInvalid", f"Invalid value: {len(value)}: {text}", path))
    return causes
