"""Who owns which field: sets of paths as managedFields keep them, and how lists are merged.

A path is a tuple of elements in the notation of FieldsV1: `f:NAME`, `k:{"KEY":VALUE}` for an item of a list with keys,
`v:VALUE` for an item of a set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.schemas import subschema

Object = dict[str, Any]
Path = tuple[str, ...]
Fields = set[Path]

ATOMIC, GRANULAR, SET, MAP = "atomic", "granular", "set", "map"

UNOWNED: Fields = {
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "resourceVersion",
            "managedFields",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        )
    ),
}


@dataclass(frozen=True)
class Shape:
    """How one value is merged: `type` of the four above; `keys` of a MAP list and what they are when left out."""

    type: str
    keys: tuple[str, ...] = ()
    defaults: Object = field(default_factory=dict)


class Schema:
    """Answers how the value at a path is merged, for one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def declared(self, path: Path) -> bool:
        """Whether the last element is a field of a known structure rather than a key of a free map."""
        return path[-1][2:] in (self.node(path[:-1]).get("properties") or {})

    def present(self, path: Path) -> bool:
        """Whether an empty object has this part already, so that creating it adds nothing there."""
        if self.kind.custom:
            return False
        node = self.kind.schema
        for element in path:
            node = subschema(node, element[2:]) if element.startswith("f:") else {}
            if "x-present" not in node:
                return False
        return True

    def shape(self, path: Path, value: object) -> Shape:
        if isinstance(value, list):
            node = self.node(path)
            keys = tuple(node.get("x-kubernetes-list-map-keys") or ())
            properties = (node.get("items") or {}).get("properties") or {}
            defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
            return Shape(node.get("x-kubernetes-list-type", ATOMIC), keys, defaults)
        if isinstance(value, dict) and self.node(path).get("x-kubernetes-map-type") != ATOMIC:
            return Shape(GRANULAR)
        return Shape(ATOMIC)

    def node(self, path: Path) -> Object:
        """The schema at a path; empty when nothing is known of it."""
        node = self.kind.schema
        for element in path:
            node = subschema(node, element[2:]) if element.startswith("f:") else node.get("items") or {}
        return node


def item_element(shape: Shape, item: object) -> str:
    """The path element of an item in a MAP or SET list. Raises KeyError when a key is missing."""
    if shape.type == SET:
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    assert isinstance(item, dict)
    keys = {key: item[key] if key in item or key not in shape.defaults else shape.defaults[key] for key in shape.keys}
    return "k:" + json.dumps(dict(sorted(keys.items())), separators=(",", ":"), ensure_ascii=False)


def children(schema: Schema, path: Path, value: object) -> Iterator[tuple[Path, Any]]:
    """The parts of a value that can be owned one by one; none for a value that is owned as a whole."""
    shape = schema.shape(path, value)
    if isinstance(value, dict) and shape.type == GRANULAR:
        for name, child in value.items():
            yield (*path, f"f:{name}"), child
    elif isinstance(value, list) and shape.type in (SET, MAP):
        for item in value:
            yield (*path, item_element(shape, item)), item


def is_granular(schema: Schema, path: Path, value: object) -> bool:
    return isinstance(value, dict | list) and schema.shape(path, value).type != ATOMIC


def fields_of(schema: Schema, value: object, path: Path = ()) -> Fields:
    """What an applied configuration claims: its leaves, list items and keys of free maps."""
    if not is_granular(schema, path, value):
        return {path}
    found: Fields = set()
    for child_path, child in children(schema, path, value):
        found |= fields_of(schema, child, child_path)
        item = child_path[-1][:2] in ("k:", "v:")
        if item or child is None or child == {} or not schema.declared(child_path):
            found.add(child_path)
    return found


def everything_in(schema: Schema, value: object, path: Path) -> Fields:
    """All paths of a value that was added or removed, its inner nodes included."""
    found: Fields = set() if schema.present(path) else {path}
    for child_path, child in children(schema, path, value):
        found |= everything_in(schema, child, child_path)
    return found


def doubled(schema: Schema, value: object, path: Path = ()) -> str:
    """What is wrong with a list that has a key twice; empty when none has."""
    seen: Fields = set()
    for child_path, child in children(schema, path, value):
        if child_path in seen:
            return f"{shown(path)}: duplicate entries for key {shown(child_path[-1:])}"
        seen.add(child_path)
        if fault := doubled(schema, child, child_path):
            return fault
    return ""


@dataclass
class Difference:
    """`changed`: paths added or modified; `removed`: paths that are no more."""

    changed: Fields
    removed: Fields


def compare(schema: Schema, old: object, new: object, path: Path = ()) -> Difference:
    """What a write changes."""
    if not (is_granular(schema, path, old) and is_granular(schema, path, new)) or type(old) is not type(new):
        if old == new:
            return Difference(set(), set())
        lost = everything_in(schema, old, path) if is_granular(schema, path, old) else set()
        return Difference(everything_in(schema, new, path), lost - {path})
    before, after = dict(children(schema, path, old)), dict(children(schema, path, new))
    difference = Difference(set(), set())
    for child_path, child in after.items():
        if child_path not in before:
            difference.changed |= everything_in(schema, child, child_path)
        elif before[child_path] != child:
            inner = compare(schema, before[child_path], child, child_path)
            difference.changed |= inner.changed
            difference.removed |= inner.removed
    for child_path, child in before.items():
        if child_path not in after:
            difference.removed |= everything_in(schema, child, child_path) | {child_path}
    return difference


def to_fields_v1(fields: Fields) -> Object:
    """The nested form that managedFields keep."""
    root: Object = {}
    inner = {path[:length] for path in fields for length in range(1, len(path))}
    for path in sorted(fields):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        if path in inner:
            node.setdefault(".", {})
    return root


def from_fields_v1(node: Object, path: Path = ()) -> Fields:
    """The paths of a fieldsV1 value."""
    found: Fields = set()
    for element, child in node.items():
        if element == ".":
            found.add(path)
            continue
        here = (*path, element)
        if child:
            found |= from_fields_v1(child, here)
        else:
            found.add(here)
    return found


def shown(path: Path) -> str:
    """A path as messages write it: `.spec.containers[name="main"].image`."""
    text = ""
    for element in path:
        if element.startswith("f:"):
            text += f".{element[2:]}"
        elif element.startswith("k:"):
            keys = json.loads(element[2:])
            inner = ",".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in keys.items())
            text += f"[{inner}]"
        else:
            text += f"[={element[2:]}]"
    return text
