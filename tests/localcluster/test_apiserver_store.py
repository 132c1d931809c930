"""The store: a log that forgets without losing anything."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from apps.localcluster.apiserver import store as module
from apps.localcluster.apiserver.store import Event, Key, Moved, Store


def opened(path: Path) -> Store:
    store = Store(path, lambda resource, item: {})
    store.replay()
    return store


def state(store: Store, resource: str) -> dict[Key, tuple[int, bytes]]:
    return {record.key: (record.version, record.raw) for record in store.select(resource)}


def told(events: list[Event]) -> list[tuple[str, Key, int, int]]:
    return [(e.type, e.record.key, e.record.version, e.before.version if e.before else 0) for e in events]


@pytest.fixture
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HISTORY_EVENTS", 20)
    monkeypatch.setattr(module, "TRIM", 5)


@pytest.mark.parametrize("seed", range(10))
def test_reopened_store_is_the_same_with_its_history(tmp_path: Path, short_memory: None, seed: int) -> None:
    dice = random.Random(seed)
    store = opened(tmp_path / "state.db")
    for step in range(200):
        resource = dice.choice(("pods", "nodes"))
        key = ("", f"n{dice.randrange(6)}")
        current = store.get(resource, key)
        if current and dice.random() < 0.3:
            store.remove(resource, key, current.version)
        else:
            store.put(resource, key, {"metadata": {"name": key[1]}, "step": step}, current.version if current else 0)
    # Not closed: a second connection reads what a killed process has left.
    again = opened(tmp_path / "state.db")
    assert (again.version, again.oldest) == (store.version, store.oldest)
    for resource in ("pods", "nodes"):
        assert state(again, resource) == state(store, resource)
        assert told(again.events_after(store.oldest, resource)) == told(store.events_after(store.oldest, resource))
        # Replaying the history onto what was there before it gives what is there now.
        past = {record.key: record.raw for record in store.select_at(resource, "", store.oldest)}
        for event in store.events_after(store.oldest, resource):
            if event.type == "DELETED":
                del past[event.record.key]
            else:
                past[event.record.key] = event.record.raw
        assert past == {key: raw for key, (_, raw) in state(store, resource).items()}
    rows = sqlite3.connect(tmp_path / "state.db").execute("SELECT count(*) FROM log").fetchone()[0]
    assert rows <= 20 + 2 * 5 + 2 * 12  # events that are kept, and what they need from before


def test_writer_with_an_old_view_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path / "state.db")
    first = store.put("pods", ("", "a"), {"metadata": {"name": "a"}}, 0)
    store.put("pods", ("", "a"), {"metadata": {"name": "a"}}, first.version)
    with pytest.raises(Moved):
        store.put("pods", ("", "a"), {"metadata": {"name": "a"}}, first.version)
    with pytest.raises(Moved):
        store.remove("pods", ("", "a"), first.version)
    with pytest.raises(Moved):
        store.put("pods", ("", "a"), {"metadata": {"name": "a"}}, 0)


def test_version_never_goes_back_even_when_everything_was_deleted(tmp_path: Path, short_memory: None) -> None:
    store = opened(tmp_path / "state.db")
    for number in range(60):
        record = store.put("pods", ("", "a"), {"metadata": {"name": "a", "number": number}}, 0)
        store.remove("pods", ("", "a"), record.version)
    assert opened(tmp_path / "state.db").version == store.version
