"""Who owns which field: sets of paths as managedFields keep them, and how values are taken apart.

A path is a tuple of elements in the notation of FieldsV1: `f:NAME`, `k:{"KEY":VALUE}` for an item of a list with keys,
`v:VALUE` for an item of a set. A node is the schema of a value, empty when nothing is known of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.apiserver.schemas import subschema

Object = dict[str, Any]
Path = tuple[str, ...]
Fields = set[Path]

SET, MAP = "set", "map"
SERVER_FIELDS = (
    *("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "resourceVersion", "managedFields"),
)
UNOWNED: Fields = {
    *((), ("f:apiVersion",), ("f:kind",), ("f:metadata",)),
    *(("f:metadata", f"f:{name}") for name in SERVER_FIELDS),
}


def list_type(node: Object) -> str:
    """How lists are merged: `set`, `map`, or `atomic`, as a whole."""
    found: str = node.get("x-kubernetes-list-type", "atomic")
    return found


def list_keys(node: Object) -> list[str]:
    """What tells the items of a `map` apart."""
    found: list[str] = node.get("x-kubernetes-list-map-keys") or []
    return found


def below(node: Object, element: str) -> Object:
    """The node of a part."""
    return subschema(node, element[2:]) if element.startswith("f:") else node.get("items") or {}


def element_of(node: Object, item: Any) -> str:
    """The path element of an item in a list. Raises KeyError when it has not all keys."""
    if list_type(node) == SET:
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    properties = (node.get("items") or {}).get("properties") or {}
    keys = {key: item[key] if key in item else properties[key]["default"] for key in sorted(list_keys(node))}
    return "k:" + json.dumps(keys, separators=(",", ":"), ensure_ascii=False)


def parts(node: Object, value: Any) -> dict[str, Any] | None:
    """The parts of a value that can be owned one by one; None for a value that is owned as a whole."""
    if isinstance(value, dict) and node.get("x-kubernetes-map-type") != "atomic":
        return {f"f:{name}": child for name, child in value.items()}
    if isinstance(value, list) and list_type(node) in (SET, MAP):
        return {element_of(node, item): item for item in value}
    return None


def whole(like: Any, found: dict[str, Any]) -> Any:
    """Parts put together again, to a value of the same type as another."""
    if isinstance(like, dict):
        return {element[2:]: child for element, child in found.items()}
    return list(found.values())


def _inside(node: Object, value: Any, path: Path) -> Iterator[tuple[Object, Any, Path]]:
    """Node, value and path of every part."""
    for element, child in (parts(node, value) or {}).items():
        yield below(node, element), child, (*path, element)


def fields_of(node: Object, value: Any, path: Path = ()) -> Fields:
    """What an applied configuration claims: its leaves, list items and keys of free maps."""
    if parts(node, value) is None:
        return {path}
    found: Fields = set()
    for child_node, child, child_path in _inside(node, value, path):
        found |= fields_of(child_node, child, child_path)
        declared = child_path[-1][2:] in (node.get("properties") or {}) and isinstance(value, dict)
        if not declared or child in (None, {}):
            found.add(child_path)
    return found


def doubled(node: Object, value: Any, path: Path = ()) -> str:
    """What is wrong with a list that has a key twice; empty when none has."""
    found = parts(node, value)
    if found is not None and len(found) != len(value):
        elements = [element_of(node, item) for item in value]
        twice = next(element for element in elements if elements.count(element) > 1)
        return f"{shown(path)}: duplicate entries for key {shown((twice,))}"
    faults = (doubled(*inside) for inside in _inside(node, value, path))
    return next((fault for fault in faults if fault), "")


@dataclass
class Difference:
    """`changed`: paths added or modified; `removed`: paths that are no more."""

    changed: Fields = field(default_factory=set)
    removed: Fields = field(default_factory=set)


def compare(node: Object, old: Any, new: Any, path: Path = (), *, present: bool = True) -> Difference:
    """What a write changes. `present`: an empty object has this part already, so that nobody adds it."""
    before, after = parts(node, old), parts(node, new)
    if before is None or after is None or type(old) is not type(new):
        lost = _everything(node, old, path, present=present) if before is not None else set()
        added = _everything(node, new, path, present=present)
        return Difference() if old == new else Difference(added, lost - {path})
    difference = Difference()
    for element in before.keys() | after.keys():
        child, here = below(node, element), (*path, element)
        known = present and _is_present(child, element)
        if element not in after:
            difference.removed |= _everything(child, before[element], here, present=known) | {here}
        elif element not in before:
            difference.changed |= _everything(child, after[element], here, present=known)
        elif before[element] != after[element]:
            inner = compare(child, before[element], after[element], here, present=known)
            difference.changed |= inner.changed
            difference.removed |= inner.removed
    return difference


def _is_present(node: Object, element: str) -> bool:
    return element.startswith("f:") and "x-present" in node


def _everything(node: Object, value: Any, path: Path, *, present: bool) -> Fields:
    """All paths of a value that was added or removed, its inner nodes included."""
    found: Fields = set() if present else {path}
    for child_node, child, child_path in _inside(node, value, path):
        known = present and _is_present(child_node, child_path[-1])
        found |= _everything(child_node, child, child_path, present=known)
    return found


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
        here = path if element == "." else (*path, element)
        found |= from_fields_v1(child, here) if child else {here}
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
