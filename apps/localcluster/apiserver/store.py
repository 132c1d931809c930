"""Objects and their history: an append-only log in SQLite, and in memory what reads and watches need.

Every write is one row of the log and one step of the resourceVersion. Memory keeps the newest JSON of each object (the
text between the opening `{"kind":…,"apiVersion":…,` and the end) and the newest events; a row that neither shows any
more is deleted. One process, one thread, one writer.
"""

from __future__ import annotations

import asyncio
import sqlite3
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""

HISTORY_EVENTS = 10_000
HISTORY_BYTES = 12_000_000
TRIM = 500

SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    version INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    gone INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


@dataclass(slots=True, frozen=True)
class Record:
    """One object at one version. `raw` is its JSON without kind, apiVersion and the opening brace."""

    resource: str
    key: Key
    version: int
    raw: bytes
    uid: str
    labels: dict[str, str]
    fields: dict[str, str]
    owners: tuple[str, ...]
    deleting: bool

    def load(self) -> Object:
        """A fresh dict of the object, without kind and apiVersion."""
        loaded: Object = decode(b"{" + self.raw)
        return loaded


@dataclass(slots=True, frozen=True)
class Event:
    """`type` ADDED, MODIFIED or DELETED; `record` carries the event's version, `before` is what it replaced."""

    type: str
    record: Record
    before: Record | None


class Moved(Exception):
    """The object is not at the version that the writer has seen."""


@dataclass
class Collection:
    """All objects of one resource, their keys in order."""

    records: dict[Key, Record] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)

    def put(self, record: Record) -> None:
        if record.key not in self.records:
            insort(self.keys, record.key)
        self.records[record.key] = record

    def remove(self, key: Key) -> None:
        del self.records[key]
        del self.keys[bisect_left(self.keys, key)]

    def within(self, namespace: str) -> Iterator[Record]:
        """In order of namespace and name; an empty namespace means all."""
        first = bisect_left(self.keys, (namespace, "")) if namespace else 0
        last = bisect_left(self.keys, (namespace + "\0", "")) if namespace else len(self.keys)
        return map(self.records.__getitem__, self.keys[first:last])


class Store:
    """The state of the cluster under one file. `fields_of(resource, object)` gives the values of field selectors."""

    def __init__(self, path: Path, fields_of: Callable[[str, Object], dict[str, str]]) -> None:
        self._fields_of = fields_of
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-1000;" + SCHEMA)
        self._collections: dict[str, Collection] = {}
        self._history: list[Event] = []
        self._history_bytes = 0
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self.version = 0
        self.oldest = int(self.fact("oldest") or 0)
        """No event after this version is missing from the history."""

    # -- facts: small values of the server itself

    def fact(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def set_fact(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # -- opening and closing

    def replay(self) -> None:
        """Read the log into memory."""
        rows = self._db.execute("SELECT version, resource, namespace, name, gone, body FROM log ORDER BY version")
        for version, resource, namespace, name, is_gone, body in rows:
            record = self._record(resource, (namespace, name), version, decode(b"{" + body), body)
            self._remember(record, gone=bool(is_gone))
        self.version = max(self.version, int(self.fact("version") or 0))

    def close(self) -> None:
        self.set_fact("version", str(self.version))
        self._db.close()

    def forget(self) -> None:
        """Drop the whole history: no watch goes back before this version."""
        self._history, self._history_bytes = [], 0
        self.oldest = self.version
        self.set_fact("oldest", str(self.oldest))

    # -- reading

    def get(self, resource: str, key: Key) -> Record | None:
        collection = self._collections.get(resource)
        return collection.records.get(key) if collection else None

    def select(self, resource: str, namespace: str = "") -> list[Record]:
        """A whole collection, or what lies in one namespace, in order of keys."""
        collection = self._collections.get(resource)
        return list(collection.within(namespace)) if collection else []

    def select_at(self, resource: str, namespace: str, version: int) -> list[Record]:
        """The collection as it is, or was at a version within the history."""
        if version == self.version:
            return self.select(resource, namespace)
        state = {record.key: record for record in self.select(resource, namespace)}
        for event in reversed(self.events_after(version, resource)):
            if event.before is not None and namespace in ("", event.record.key[0]):
                state[event.record.key] = event.before
            else:
                state.pop(event.record.key, None)
        return [state[key] for key in sorted(state)]

    def resources(self) -> list[str]:
        return list(self._collections)

    def events_after(self, version: int, resource: str = "") -> list[Event]:
        """Events after a version, oldest first. The caller has compared the version with `oldest`."""
        first = bisect_right(self._history, version, key=lambda event: event.record.version)
        return [event for event in self._history[first:] if not resource or event.record.resource == resource]

    # -- writing

    def put(self, resource: str, key: Key, item: Object, seen: int) -> Record:
        """Write an object; `seen` is the version it is based on, 0 for "not there". Raises Moved."""
        self._check(resource, key, seen)
        return self._append(resource, key, item, gone=False)

    def remove(self, resource: str, key: Key, seen: int) -> Record:
        """Delete an object for good; returns its last state at the version of the deletion. Raises Moved."""
        before = self._check(resource, key, seen)
        if before is None:
            raise Moved
        return self._append(resource, key, before.load(), gone=True)

    def listen(self, resource: str) -> asyncio.Event:
        """An asyncio event that is set after every write to a resource ("" for any); give it back to `unlisten`."""
        bell = asyncio.Event()
        self._listeners.setdefault(resource, set()).add(bell)
        return bell

    def unlisten(self, resource: str, bell: asyncio.Event) -> None:
        self._listeners[resource].discard(bell)

    def ring(self, resource: str) -> None:
        """Wake every listener of a resource without a write."""
        for bell in self._listeners.get(resource, ()):
            bell.set()

    def _check(self, resource: str, key: Key, seen: int) -> Record | None:
        current = self.get(resource, key)
        if (current.version if current else 0) != seen:
            raise Moved
        return current

    def _record(self, resource: str, key: Key, version: int, item: Object, raw: bytes | None = None) -> Record:
        if raw is None:
            kept = {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
            raw = encode(kept)[1:]
        metadata = item["metadata"]
        owners = tuple(owner.get("uid", "") for owner in metadata.get("ownerReferences") or ())
        labels = metadata.get("labels") or {}
        deleting = "deletionTimestamp" in metadata
        fields = self._fields_of(resource, item)
        return Record(resource, key, version, raw, metadata.get("uid", ""), labels, fields, owners, deleting)

    def _append(self, resource: str, key: Key, item: Object, *, gone: bool) -> Record:
        item["metadata"]["resourceVersion"] = str(self.version + 1)
        record = self._record(resource, key, self.version + 1, item)
        row = (record.version, resource, *key, int(gone), record.raw)
        self._db.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", row)
        self._remember(record, gone=gone)
        self.ring(resource)
        self.ring("")
        if len(self._history) > HISTORY_EVENTS + TRIM or self._history_bytes > HISTORY_BYTES + 1_000_000:
            self._trim()
        return record

    def _remember(self, record: Record, *, gone: bool) -> None:
        collection = self._collections.setdefault(record.resource, Collection())
        before = collection.records.get(record.key)
        if gone and before is not None:
            collection.remove(record.key)
        elif not gone:
            collection.put(record)
        self.version = record.version
        if record.version > self.oldest:
            kind = "DELETED" if gone else "MODIFIED" if before else "ADDED"
            self._history.append(Event(kind, record, before))
            self._history_bytes += len(before.raw) if before else 0

    def _trim(self) -> None:
        """Forget the oldest events and delete the rows that only they needed."""
        count = max(TRIM, len(self._history) - HISTORY_EVENTS)
        dropped, self._history = self._history[:count], self._history[count:]
        self.oldest = dropped[-1].record.version
        rows = [event.before.version for event in dropped if event.before]
        rows += [event.record.version for event in dropped if event.type == "DELETED"]
        self._history_bytes -= sum(len(event.before.raw) for event in dropped if event.before)
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany("DELETE FROM log WHERE version = ?", [(row,) for row in rows])
            self.set_fact("oldest", str(self.oldest))
            self.set_fact("version", str(self.version))
