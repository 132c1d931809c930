"""managedFields: ownership kept through updates, and server-side apply with its conflicts."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.fields import (
    MAP,
    SET,
    UNOWNED,
    Fields,
    Path,
    Schema,
    compare,
    fields_of,
    from_fields_v1,
    item_element,
    shown,
    to_fields_v1,
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
    """The owners that an object's managedFields list."""
    owners: Owners = {}
    for entry in item.get("metadata", {}).get("managedFields") or ():
        manager = Manager(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        owners[manager.identity] = Owned(manager, from_fields_v1(entry.get("fieldsV1") or {}), entry.get("time", ""))
    return owners


def write(item: Object, owners: Owners) -> None:
    """Put the owners into an object's managedFields: appliers first, then by time and name."""
    entries = []
    order = sorted(owners.values(), key=lambda o: (o.manager.operation, o.time, o.manager.name, o.manager.subresource))
    for owned in order:
        if not owned.fields:
            continue
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
        entries.append({name: value for name, value in entry.items() if value != "" or name == "manager"})
    item["metadata"].pop("managedFields", None)
    if entries:
        item["metadata"]["managedFields"] = entries


def after_update(schema: Schema, old: Object, new: Object, manager: Manager, now: str) -> None:
    """Set managedFields of `new`, an update of `old` (an empty object for a create) by `manager`."""
    owners = read(old)
    _settle(schema, old, new, owners, manager, now)
    write(new, owners)


def _settle(schema: Schema, old: Object, new: Object, owners: Owners, manager: Manager, now: str) -> None:
    difference = compare(schema, _bare(old), _bare(new))
    changed = {path for path in difference.changed if path not in UNOWNED and path}
    if not changed and not difference.removed:
        return
    for owned in owners.values():
        owned.fields -= difference.removed
        if owned.manager.identity != manager.identity:
            owned.fields -= changed
    mine = owners.setdefault(manager.identity, Owned(manager, set()))
    mine.manager, mine.time = manager, now
    mine.fields |= changed


def _bare(item: Object) -> Object:
    """An object without what nobody can own."""
    bare = {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
    skipped = {path[1][2:] for path in UNOWNED if len(path) == 2}
    bare["metadata"] = {name: value for name, value in item.get("metadata", {}).items() if name not in skipped}
    return bare


def apply(schema: Schema, live: Object, applied: Object, manager: Manager, *, force: bool) -> tuple[Object, Owners]:
    """Merge an applied configuration into the live object (without metadata for a new one).

    Gives the merged object and its new owners, times unset where they change. Raises StatusError 409 on conflicts.
    """
    owners = read(live)
    mine = owners.get(manager.identity)
    before = mine.fields if mine else set()
    claimed = fields_of(schema, _bare(applied)) - UNOWNED - {()}
    merged = _merge(schema, live, applied)
    difference = compare(schema, _bare(live), _bare(merged))
    changed = difference.changed - UNOWNED
    others = [owned for owned in owners.values() if owned.manager.identity != manager.identity]
    fights = [(owned, sorted(owned.fields & changed)) for owned in others]
    fights = [(owned, paths) for owned, paths in fights if paths]
    if fights and not force:
        raise _conflict(fights)
    for owned, paths in fights:
        owned.fields -= set(paths)
    for owned in others:
        owned.fields -= difference.removed
    kept: Fields = set().union(*(owned.fields for owned in others)) if others else set()
    # From the outside in: an item of a list is found by fields of its own.
    for path in sorted(before - claimed, key=len):
        if not any(other[: len(path)] == path for other in kept | claimed):
            _remove(schema, merged, path)
    owners.pop(manager.identity, None)
    if claimed:
        time = mine.time if mine else ""
        owners[manager.identity] = Owned(manager, claimed, time)
    return merged, owners


def stamp(owners: Owners, before: Owners, now: str, *, changed: bool) -> None:
    """Give a time to owners whose fields differ from before; an apply that changes no value leaves times alone."""
    for identity, owned in owners.items():
        was = before.get(identity)
        if changed and (was is None or was.fields != owned.fields or not owned.time):
            owned.time = now


def _conflict(fights: list[tuple[Owned, list[Path]]]) -> StatusError:
    fights = sorted(fights, key=lambda fight: fight[0].manager.told())
    causes = [
        {"reason": "FieldManagerConflict", "message": owned.manager.told(), "field": shown(path)}
        for owned, paths in fights
        for path in paths
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        parts = []
        for owned, paths in fights:
            told = owned.manager.told()
            if len(paths) > 1:
                lines = "".join(f"\n- {shown(path)}" for path in paths)
                parts.append("conflicts" + told.removeprefix("conflict") + ":" + lines)
            else:
                parts.append(f"{told}: {shown(paths[0])}")
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(parts)
    return StatusError(409, "Conflict", message, {"causes": causes})


def _merge(schema: Schema, live: Any, applied: Any, path: Path = ()) -> Any:
    """`live` with everything `applied` says."""
    if isinstance(live, dict) and isinstance(applied, dict) and schema.shape(path, applied).type != "atomic":
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = _merge(schema, live[name], value, (*path, f"f:{name}")) if name in live else deepcopy(value)
        return merged
    shape = schema.shape(path, applied)
    if not (isinstance(live, list) and isinstance(applied, list) and shape.type in (SET, MAP)):
        return deepcopy(applied)
    old = {item_element(shape, item): item for item in live}
    new = {item_element(shape, item): item for item in applied}
    order = _interleaved(list(old), list(new))
    both = old.keys() & new.keys()
    return [
        _merge(schema, old[key], new[key], (*path, key)) if key in both else deepcopy(new.get(key, old.get(key)))
        for key in order
    ]


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


def _remove(schema: Schema, item: Any, path: Path, at: int = 0) -> None:
    """Take the value at a path away, and containers that are empty after it."""
    element = path[at]
    if element.startswith("f:"):
        name = element[2:]
        if not isinstance(item, dict) or name not in item:
            return
        if at == len(path) - 1:
            del item[name]
            return
        _remove(schema, item[name], path, at + 1)
        if item[name] in ({}, []):
            del item[name]
        return
    if not isinstance(item, list):
        return
    shape = schema.shape(path[:at], item)
    for index, each in enumerate(item):
        if item_element(shape, each) == element:
            if at == len(path) - 1:
                del item[index]
            else:
                _remove(schema, each, path, at + 1)
            return
