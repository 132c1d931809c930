"""The buffer of recent lines: bounded, paged, and moved together with its readers' places."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from apps.streams import services
from apps.streams.domain.frames import Cursor, Kind
from apps.streams.services import buffer

SOURCE = services.Source(0, 1, "p")


@pytest.fixture
def topic() -> str:
    return f"job.{secrets.token_hex(6)}"


def frame(*texts: str) -> services.LogFrame:
    return services.LogFrame(SOURCE, [services.LogLine(1, "", 0, None, text) for text in texts])


def texts(page: dict[str, Any]) -> list[str]:
    return [line.text for part in page["frames"] for line in part["lines"]]


def test_it_holds_a_bounded_number_of_lines_and_bytes(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "LINES_KEPT", 1_000)
    for start in range(0, 10_000, 50):
        services.append(topic, frame(*[f"n{n}" for n in range(start, start + 50)]))
    kept = services.tail(topic, 10**6)
    assert 1_000 <= sum(entry.count for entry in kept) <= 1_100
    monkeypatch.setattr(buffer, "BYTES_KEPT", 20_000)
    for _ in range(50):
        services.append(topic, frame("x" * 1_000))
    assert sum(len(entry.body) for entry in services.tail(topic, 10**6)) < 25_000


def test_a_tail_is_cut_to_the_line(topic: str) -> None:
    services.append(topic, frame(*[f"n{n}" for n in range(10)]))
    services.append(topic, frame("last"))
    entries = services.tail(topic, 4)
    assert [entry.count for entry in entries] == [3, 1]
    assert b'"n7"' in entries[0].body
    assert b'"n6"' not in entries[0].body


@pytest.mark.django_db
def test_places_move_only_from_where_they_are_thought_to_be(topic: str) -> None:
    async def run() -> list[bool]:
        live = services.LiveBuffer()
        assert not await live.append(topic, [services.pack(frame("a"))], services.Move("s", "", "1")), (
            "a ring that nobody asked"
        )
        assert await live.place(topic, "s") == ""
        written = [
            await live.append(topic, [services.pack(frame("a"))], services.Move("s", "", "1")),
            await live.append(topic, [services.pack(frame("a"))], services.Move("s", "", "1")),
            await live.append(topic, [services.pack(frame("b"))], services.Move("s", "1", "2")),
            await live.append(topic, [services.pack(frame("c"))], services.Move("other", "", "9")),
            await live.append(topic, [], services.Move("s", "2", "3")),
        ]
        assert [await live.place(topic, name) for name in ("s", "other", "none")] == ["3", "9", ""]
        await live.close()
        return written

    assert asyncio.run(run()) == [True, False, True, True, True]
    assert texts(services.lines(topic, services.Question())) == ["a", "b", "c"]


def test_counts_stay_whole_under_many_writers(topic: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: services.append(topic, frame(*[str(n)] * 5)), range(200)))
    entries = [entry for entry in services.tail(topic, 10**6) if entry.kind is Kind.LOG]
    assert [entry.after.lines for entry in entries] == list(range(5, 1_001, 5))


@pytest.mark.parametrize(
    "text", ["", "x", "a.1-2", "a.1-2.x", "a.1-2.3.4", "../.1-2.3", "a.1-2.-3", "a.１-2.3", "a." + "9" * 30 + "-1.1"]
)
def test_what_is_no_cursor_starts_anew(text: str) -> None:
    assert Cursor.parse(text) is None


def test_a_cursor_survives_its_text() -> None:
    cursor = Cursor("ab12", (1_790_000_000_000, 3), 42)
    assert Cursor.parse(str(cursor)) == cursor
