"""Container logs: what the writer makes of raw output, and what readers get, also while files are rotated."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apps.localcluster.nodeagent import logreader
from apps.localcluster.nodeagent.crilog import CHUNK, CriWriter, generations, parse, stamp
from apps.localcluster.nodeagent.logreader import LogOptions, read
from apps.localcluster.nodeagent.logserver import Refusal, parse_options
from tests.localcluster.contract.cases import load
from tests.localcluster.contract.rows import APPENDED, recorded_log


def entry(second: int, text: str, tag: str = "F") -> str:
    return f"2026-01-01T00:00:{second:02d}.500000000Z stdout {tag} {text}\n"


async def collect(path: Path, **options: object) -> bytes:
    return b"".join([data async for data in read(path, LogOptions(**options), lambda: True)])  # type: ignore[arg-type]


def test_a_line_waits_for_its_end_and_streams_do_not_mix(tmp_path: Path) -> None:
    writer = CriWriter(tmp_path / "log", 1 << 20, 3)
    writer.write("stdout", b"ha")
    writer.write("stderr", b"err\n")
    writer.write("stdout", b"lf\nrest")
    writer.close()
    entries = [parse(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert [(e.stream, e.full, e.text) for e in entries if e] == [
        (b"stderr", True, b"err"),
        (b"stdout", True, b"half"),
        (b"stdout", True, b"rest"),
    ]


@pytest.mark.parametrize("step", [7, 1000, CHUNK, 10**6])
async def test_long_lines_are_cut_and_come_back_whole(tmp_path: Path, step: int) -> None:
    raw = b"".join(
        bytes([65 + i % 26]) * n + b"\n" for i, n in enumerate([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
    )
    writer = CriWriter(tmp_path / "log", 1 << 30, 3)
    for at in range(0, len(raw), step):
        writer.write("stdout", raw[at : at + step])
    writer.close()
    assert max(map(len, (tmp_path / "log").read_bytes().splitlines())) <= CHUNK + 50
    assert await collect(tmp_path / "log") == raw
    first = await collect(tmp_path / "log", timestamps=True)
    assert first.count(b"Z ") == 6  # once a line, not once a part


def test_rotation_keeps_so_many_files_and_loses_nothing_in_them(tmp_path: Path) -> None:
    writer = CriWriter(tmp_path / "log", 400, 3)
    for number in range(100):
        writer.write("stdout", b"line %d\n" % number)
    writer.close()
    files = generations(tmp_path / "log")
    assert [path.name for path in files] == ["log.2", "log.1", "log"]
    lines = [int(line.split()[-1]) for path in files for line in path.read_text().splitlines()]
    assert lines == list(range(lines[0], 100))
    assert len(lines) > 15


@pytest.mark.parametrize(("tail", "first"), [(0, None), (1, 99), (5, 95), (17, 83), (100, 0), (1000, 0)])
async def test_tail_counts_over_all_files(tmp_path: Path, tail: int, first: int | None) -> None:
    for name, numbers in (("log.2", range(40)), ("log.1", range(40, 90)), ("log", range(90, 100))):
        (tmp_path / name).write_text("".join(entry(0, str(n)) for n in numbers))
    lines = (await collect(tmp_path / "log", tail=tail)).split()
    assert [int(line) for line in lines] == ([] if first is None else list(range(first, 100)))


async def test_since_is_by_whole_seconds_as_in_the_api(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(entry(n, str(n)) for n in range(5)))
    now = datetime(2026, 1, 1, 0, 0, 4, 900_000, UTC)
    for query in (
        {"sinceTime": "2026-01-01T00:00:03.9Z"},
        {"sinceSeconds": "1"},
        {"sinceTime": "2026-01-01T08:00:03+08:00"},
    ):
        options = parse_options(query, now)
        data = b"".join([data async for data in read(tmp_path / "log", options, lambda: True)])
        assert data == b"3\n4\n", query
    with pytest.raises(Refusal):
        parse_options({"sinceTime": "yesterday"}, now)


async def test_limit_cuts_inside_a_line_and_torn_entries_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(entry(0, "abcdef") + "2026-01-01T00:00:0\n" + entry(1, "ghi"))
    assert await collect(tmp_path / "log", limit=9) == b"abcdef\ngh"
    assert await collect(tmp_path / "log") == b"abcdef\nghi\n"


async def test_following_loses_no_line_over_rotations(tmp_path: Path) -> None:
    writer, done = CriWriter(tmp_path / "log", 2000, 5), False
    found = bytearray()

    async def follow() -> None:
        async for data in read(tmp_path / "log", LogOptions(follow=True), lambda: done):
            found.extend(data)

    task = asyncio.ensure_future(follow())
    for number in range(600):
        writer.write("stdout", b"line %d\n" % number)
        if number % 60 == 0:
            await asyncio.sleep(0.25)
    writer.write("stdout", b"the end, without a newline")
    writer.close()
    done = True
    await asyncio.wait_for(task, 5)
    lines = found.decode().splitlines()
    assert lines == [f"line {n}" for n in range(600)] + ["the end, without a newline"]


@pytest.mark.parametrize("opened", range(4))
async def test_a_file_that_is_rotated_between_the_look_and_the_opening_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: int
) -> None:
    """Names move on: what was the oldest, or the next, is another file a moment later."""
    writer, real, calls = CriWriter(tmp_path / "log", 1, 50), logreader.generations, 0

    def generations_then_rotated(path: Path) -> list[Path]:
        nonlocal calls
        files, calls = real(path), calls + 1
        if calls == opened + 1:
            writer.write("stdout", b"more\n")
        return files

    for number in range(3):
        writer.write("stdout", b"line %d\n" % number)
    monkeypatch.setattr(logreader, "generations", generations_then_rotated)
    found = (await collect(tmp_path / "log")).split(b"\n")
    assert found[:3] == [b"line 0", b"line 1", b"line 2"]


async def test_following_waits_for_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    async def write() -> None:
        await asyncio.sleep(0.3)
        (tmp_path / "log").write_text(entry(0, "late"))

    task = asyncio.ensure_future(write())
    reader = read(tmp_path / "log", LogOptions(follow=True), lambda: False)
    assert await asyncio.wait_for(anext(reader), 3) == b"late\n"
    await reader.aclose()
    await task


RECORDED = {
    name: case for name, case in load().items() if name.startswith("06-log-") and case["response"]["status"] == 200
}


@pytest.mark.parametrize("name", RECORDED)
async def test_the_recorded_log_is_read_as_a_real_node_read_it(tmp_path: Path, name: str) -> None:
    """Times are as recorded here; a log that is written while the test runs has others."""
    (tmp_path / "log").write_text("".join(recorded_log()))
    wanted, query = RECORDED[name]["response"], RECORDED[name]["request"].get("query", {})
    options = parse_options(query, datetime.now(UTC))
    reader = read(tmp_path / "log", options, lambda: False)
    if "lines" not in wanted:
        text = b"".join([data async for data in reader]).decode()
        expected = wanted.get("body_text", "")
        assert (text[: len(expected)] if wanted.get("body_is") else text) == expected
        return
    assert await anext(reader) == wanted["lines"][0]["text"].encode() + b"\n"
    with (tmp_path / "log").open("a") as log:
        log.write(APPENDED)
    assert await anext(reader) == wanted["lines"][1]["text"].encode() + b"\n"
    await reader.aclose()


def test_stamps_compare_as_text() -> None:
    assert stamp(1_767_225_600_000_000_001) == "2026-01-01T00:00:00.000000001Z"
