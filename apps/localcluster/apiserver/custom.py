"""Custom kinds: defaults from their schema, and what their definition must look like."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from apps.localcluster.apiserver.errors import Cause
from apps.localcluster.apiserver.kinds import Kind

Object = dict[str, Any]


def set_defaults(schema: Object, value: Any) -> None:
    """Fill in the defaults of a structural schema, from the outside in."""
    if isinstance(value, list):
        for each in value:
            set_defaults(schema.get("items") or {}, each)
        return
    if not isinstance(value, dict):
        return
    for name, child in (schema.get("properties") or {}).items():
        if name not in value and "default" in child:
            value[name] = deepcopy(child["default"])
        if name in value:
            set_defaults(child, value[name])
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for name in value.keys() - (schema.get("properties") or {}).keys():
            set_defaults(extra, value[name])


def validate(kind: Kind, item: Object) -> list[Cause]:
    """Nothing yet: schemas are used for defaults and list types only."""
    del kind, item
    return []
