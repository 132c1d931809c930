"""managedFields: ownership kept through updates, and server-side apply with its conflicts."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.fields import (
    SERVER_FIELDS,
    UNOWNED,
    Fields,
    Path,
    below,
    compare,
    fields_of,
    from_fields_v1,
    parts,
    shown,
    to_fields_v1,
    whole,
)

Object = dict[str, Any]


@dataclass(frozen=True)
class Manager:
    """Who owns: `operation` Apply or Update, `subresource` empty for the object itself."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """An applier is the same one whatever version it applies."""
        version = "" if self.operation == "Apply" else self.api_version
        return (self.name, self.operation, version, self.subresource)

    def told(self) -> str:
        """As a conflict names it."""
        text = f'conflict with "{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return text + (f" using {self.api_version}" if self.operation == "Update" else "")


@dataclass
class Owned:
    manager: Manager
    fields: Fields
    time: str = ""


Owners = dict[tuple[str, ...], Owned]


def read(item: Object) -> Owners:
    """The owners that an object's managedFields list; none for an object that is not there."""
    owners: Owners = {}
    for entry in item.get("metadata", {}).get("managedFields") or ():
        names = (("manager", ""), ("operation", "Update"), ("apiVersion", ""), ("subresource", ""))
        manager = Manager(*(entry.get(name, default) for name, default in names))
        owners[manager.identity] = Owned(manager, from_fields_v1(entry.get("fieldsV1") or {}), entry.get("time", ""))
    return owners


def write(item: Object, owners: Owners) -> None:
    """Put the owners into an object's managedFields: appliers first, then by time and name."""
    entries = []
    order = sorted(owners.values(), key=lambda o: (o.manager.operation, o.time, o.manager.name, o.manager.subresource))
    for owned in order:
        manager = owned.manager
        entry: Object = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": owned.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(owned.fields),
            "subresource": manager.subresource,
        }
        if owned.fields:
            entries.append({name: value for name, value in entry.items() if value != "" or name == "manager"})
    item["metadata"].pop("managedFields", None)
    if entries:
        item["metadata"]["managedFields"] = entries


def after_update(schema: Object, old: Object, new: Object, manager: Manager, now: str) -> None:
    """Set managedFields of `new`, an update of `old` (an empty object for a create) by `manager`."""
    owners = read(old)
    difference = compare(schema, _bare(old), _bare(new))
    changed = difference.changed - UNOWNED
    if not manager.subresource:
        changed = {path for path in changed if path[0] != "f:status"}
    unowned = old and not owners  # then nobody owns anything of it before somebody applies
    if (changed or difference.removed) and not unowned:
        for owned in owners.values():
            owned.fields -= difference.removed
            if owned.manager.identity != manager.identity:
                owned.fields -= changed
        mine = owners.setdefault(manager.identity, Owned(manager, set()))
        mine.manager, mine.time = manager, now
        mine.fields |= changed
    write(new, owners)


def _bare(item: Object) -> Object:
    """An object without what nobody can own."""
    bare = {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
    metadata = item.get("metadata", {})
    return bare | {"metadata": {name: value for name, value in metadata.items() if name not in SERVER_FIELDS}}


def apply(
    schema: Object, live: Object, applied: Object, manager: Manager, now: str, *, force: bool
) -> tuple[Object, Owners]:
    """Merge an applied configuration into the live object (empty for a new one).

    Gives the merged object and its new owners; the time of who applies is new if that changes anything. Raises
    StatusError 409 on conflicts.
    """
    owners = read(live)
    if live and not owners:
        first = Manager("before-first-apply", "Update", manager.api_version)
        owners[first.identity] = Owned(first, compare(schema, {}, _bare(live)).changed - UNOWNED, now)
    mine = owners.pop(manager.identity, Owned(manager, set()))
    claimed = fields_of(schema, _bare(applied)) - UNOWNED
    merged = _merged(schema, live, applied)
    difference = compare(schema, _bare(live), _bare(merged))
    fights = [
        (owned.manager.told(), sorted(owned.fields & difference.changed, key=_leaves_first))
        for owned in owners.values()
    ]
    fights = sorted((told, paths) for told, paths in fights if paths)
    if fights and not force:
        raise _conflict(fights)
    kept = set(claimed)
    for owned in owners.values():
        owned.fields -= difference.changed | difference.removed
        kept |= owned.fields
    # From the outside in: an item of a list is found by fields of its own. What only this manager had goes as a whole,
    # with what nobody owns of it; an item also with those of its fields that somebody else owns.
    for path in sorted(_with_fields_around(mine.fields) - _with_fields_around(kept) - UNOWNED, key=len):
        merged = _without(schema, merged, path, kept)
    if claimed:
        same = live and _bare(live) == _bare(merged)
        owners[manager.identity] = Owned(manager, claimed, mine.time if same else now)
    return merged, owners


def _with_fields_around(fields: Fields) -> Fields:
    around = {path[:length] for path in fields for length in range(1, len(path))}
    return fields | {path for path in around if path[-1].startswith("f:")}


def _leaves_first(path: Path) -> tuple[tuple[bool, str], ...]:
    """Key of the order that a set of fields is told in: of each part its leaves, then what is deeper."""
    return tuple((place < len(path), element) for place, element in enumerate(path, 1))


def _conflict(fights: list[tuple[str, list[Path]]]) -> StatusError:
    causes = [
        {"reason": "FieldManagerConflict", "message": told, "field": shown(path)}
        for told, paths in fights
        for path in paths
    ]
    lines = []
    for told, paths in fights:
        if len(causes) == 1:
            lines.append(f"{told}: {shown(paths[0])}")
        else:
            lines += [told.replace("conflict", "conflicts", 1) + ":", *(f"- {shown(path)}" for path in paths)]
    number = "1 conflict" if len(causes) == 1 else f"{len(causes)} conflicts"
    return StatusError(409, "Conflict", f"Apply failed with {number}: " + "\n".join(lines), {"causes": causes})


def _merged(node: Object, live: Any, applied: Any) -> Any:
    """`live` with everything `applied` says."""
    old, new = parts(node, live), parts(node, applied)
    if old is None or new is None or type(live) is not type(applied):
        return deepcopy(applied)
    order = _interleaved(list(old), list(new)) if isinstance(live, list) else list(old | new)
    merged = {}
    for element in order:
        both = element in old and element in new
        value = new.get(element, old.get(element))
        merged[element] = _merged(below(node, element), old[element], value) if both else deepcopy(value)
    return whole(live, merged)


def _interleaved(old: list[str], new: list[str]) -> list[str]:
    """Keys of both lists in the new one's order; what only the old one has keeps its place before what follows it."""
    order: list[str] = []
    left = list(old)
    for key in new:
        if key in left:
            before, left = left[: left.index(key)], left[left.index(key) + 1 :]
            order += [each for each in before if each not in new]
        elif not any(each in new for each in left):
            order, left = order + left, []
        order.append(key)
    return order + left


def _without(node: Object, value: Any, path: Path, kept: Fields, depth: int = 0) -> Any:
    """A value without what is at a path below `depth`, and without fields that are empty after it and not kept."""
    found, element, last = parts(node, value), path[depth], depth + 1 == len(path)
    if found is None or element not in found:
        return value
    inner = None if last else _without(below(node, element), found[element], path, kept, depth + 1)
    empty = element.startswith("f:") and inner in ({}, []) and path[: depth + 1] not in kept
    if inner is None or empty:
        del found[element]
    else:
        found[element] = inner
    return whole(value, found)
