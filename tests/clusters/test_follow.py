"""Every line of a container's log once, whatever the connection does."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.db import OperationalError

from apps.adapters.kubernetes import Endpoint, objects
from apps.adapters.kubernetes.stream import StreamReader
from apps.clusters.services.registry import WorkloadKind
from apps.clusters.watch import follow, keep, recording
from apps.clusters.watch.database import Writer, in_thread
from apps.clusters.watch.follow import Follower, Run, Target
from apps.jobs.domain.traininglog import LogReader
from apps.streams import services as streams
from apps.streams.domain.frames import Kind
from apps.streams.models import Point
from apps.streams.services import archive, buffer
from tests.clusters.logserver import SECOND, START, Log, LogServer

CUTS = int(os.environ.get("MAAS_CUTS", "250"))

KIND = WorkloadKind("maas.portal/job", "jobs.reconcile_job", lambda row: f"job.{row}", LogReader)


@asynccontextmanager
async def following(
    server: LogServer,
    topic: str,
    run: Run,
    told: Callable[[], None] = lambda: None,
    kept: Callable[[str], streams.Kept] | None = None,
    write: Writer | None = None,
) -> AsyncIterator[tuple[Follower, asyncio.Task[None]]]:
    reader = StreamReader(Endpoint(f"http://127.0.0.1:{server.port}", None, lambda fresh=False: "t"))
    buffer = streams.LiveBuffer(kept)
    target = Target(objects.path(objects.POD, "ns", "p"), "main", "uid", topic, KIND, streams.Source(0, 1, "p"), told)
    follower = Follower(target, reader, buffer, run, write)
    task = asyncio.create_task(follower.run())
    try:
        yield follower, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await buffer.close()
        await reader.close()


def texts(topic: str) -> list[str]:
    entries = streams.tail(topic, 10**6)
    frames = [msgspec.json.decode(entry.body) for entry in entries if entry.kind is Kind.LOG]
    return [line[4] for frame in frames for line in frame["lines"]]


def gaps(topic: str) -> int:
    return sum(b'"gap"' in entry.body for entry in streams.tail(topic, 10**6))


@pytest.fixture
def topic() -> str:
    return f"job.{secrets.token_hex(6)}"


@pytest.mark.parametrize("seed", range(4))
async def test_cuts_lose_and_double_no_line(topic: str, seed: int) -> None:
    """kubernetes/kubernetes#77856, determined#8815: resumes are whole seconds; here they hold hundreds of lines, some of
    equal times."""
    dice = random.Random(seed)
    async with (
        LogServer(dice=dice, cut_chance=0.04, trimmed=seed == 3) as server,
        following(server, topic, Run(0, False)) as (follower, task),
    ):
        at = START
        for number in range(20_000):
            at += dice.choice((0, 1_000, 2_000_000, 4_000_000))
            # Two pipes are stamped apart, so a line may stand behind a later one; some lines are alike.
            text = b"same" if number % 7 == 0 else b"n%d" % number
            server.runs[-1].write(at - dice.choice((0, 0, 0, 3_000_000)), text)
            if number % 500 == 0:
                await asyncio.sleep(0.003)
        server.runs[-1].ended = True
        follower.update(Run(0, True))
        await asyncio.wait_for(task, 60)
    assert server.cuts > 5
    expected, found = [text.decode() for _, text in server.runs[-1].lines], texts(topic)
    differs = next((at for at, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]), None)
    assert (len(found), differs) == (len(expected), None)
    assert gaps(topic) == 0


@pytest.mark.parametrize("taken", [0, 3])
async def test_a_pod_made_anew_under_its_name_is_not_taken_for_it(topic: str, taken: int) -> None:
    """Volcano restarts a gang under the same pod names, and a log is asked for by name: the line of the new pod is
    neither the old one's nor a sign that lines of the old one are missing."""
    async with LogServer() as server:
        for number in range(taken):
            server.runs[-1].write(START + number, b"old %d" % number)
        if taken:
            async with following(server, topic, Run(0, False)):
                await until(lambda: len(texts(topic)) == taken)
        server.uid, server.born = "another", START + 5 * SECOND
        server.runs[-1] = Log([(START + 6 * SECOND, b"new")], ended=True)
        async with following(server, topic, Run(0, True)) as (_, task):
            await asyncio.wait_for(task, 10)
    assert texts(topic) == [f"old {number}" for number in range(taken)]
    assert gaps(topic) == 0


async def test_the_log_of_a_pod_that_was_replaced_while_it_was_read_is_kept(topic: str) -> None:
    async with LogServer() as server:
        server.uid, server.born = "another", START + 5 * SECOND
        server.runs[-1] = Log([(START, b"old"), (START + 6 * SECOND, b"new")], ended=True)
        async with following(server, topic, Run(0, True)) as (_, task):
            await asyncio.wait_for(task, 10)
    assert texts(topic) == ["old"]


async def test_a_killed_watch_goes_on_where_it_was(topic: str) -> None:
    """determined#8803: the frame and the place after it are written as one: followers stopped at any moment leave no
    seam."""
    dice = random.Random(7)
    async with LogServer(dice=dice) as server:
        for number in range(6_000):
            server.runs[-1].write(START + number * 100_000, b"n%d" % number)
        for _ in range(25):
            async with following(server, topic, Run(0, False)):
                await asyncio.sleep(dice.uniform(0.005, 0.06))
        server.runs[-1].ended = True
        async with following(server, topic, Run(0, True)) as (_, task):
            await asyncio.wait_for(task, 30)
    assert texts(topic) == [f"n{number}" for number in range(6_000)]


async def test_two_followers_write_each_line_once(topic: str) -> None:
    """A stopped process that wakes up beside its successor must not write again (a lease alone cannot prevent that)."""
    async with LogServer(dice=random.Random(1), cut_chance=0.02) as server:
        run = Run(0, False)
        async with following(server, topic, run) as (a, first), following(server, topic, run) as (b, second):
            for number in range(3_000):
                server.runs[-1].write(START + number * 100_000, b"n%d" % number)
                if number % 50 == 0:
                    await asyncio.sleep(0.003)
            server.runs[-1].ended = True
            a.update(Run(0, True))
            b.update(Run(0, True))
            await asyncio.wait_for(asyncio.gather(first, second), 60)
    assert texts(topic) == [f"n{number}" for number in range(3_000)]


@pytest.mark.prove
@pytest.mark.timeout(900)
async def test_reconnects_under_a_flood_hide_and_double_nothing(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At about 10,000 lines a second, the file being rotated away and the container restarted meanwhile. MAAS_CUTS=1000
    makes it as long as promised."""
    monkeypatch.setattr(follow, "FIRST_PAUSE", 0.002)
    monkeypatch.setattr(buffer, "LINES_KEPT", 10**8)
    monkeypatch.setattr(buffer, "BYTES_KEPT", 10**12)
    number, at = 0, START
    async with (
        LogServer(dice=random.Random(11), cut_chance=0.3) as server,
        following(server, topic, Run(0, False)) as (follower, task),
    ):
        while server.cuts < CUTS:
            for _ in range(20):
                server.runs[-1].write(at, b"n%d" % number)
                number, at = number + 1, at + 100_000
            await asyncio.sleep(0.002)
            if number % 10_000 == 0:
                server.runs[-1].trimmed = max(server.runs[-1].trimmed, len(server.runs[-1].lines) - 100)
            if number % 25_000 == 0:
                server.runs[-1].ended = True
                server.runs.append(Log())
                follower.update(Run(len(server.runs) - 1, False))
        server.runs[-1].ended, server.cut_chance = True, 0.0
        follower.update(Run(len(server.runs) - 1, True))
        await asyncio.wait_for(task, 120)
    last, said = -1, False
    for entry in (one for one in streams.tail(topic, 10**8) if one.kind is Kind.LOG):
        frame = msgspec.json.decode(entry.body)
        said = said or "gap" in frame
        for line in frame["lines"]:
            found = int(line[4][1:])
            assert found == last + 1 or (said and found > last), f"{found} after {last}"
            last, said = found, False
    assert (last == number - 1 or said, server.cuts >= CUTS) == (True, True)


@pytest.mark.django_db(transaction=True)
async def test_a_lost_redis_costs_and_doubles_no_line(topic: str, settings: Any, tmp_path: Path) -> None:
    """Lines that were kept are read from there, and the container's log goes on behind them."""
    settings.STORAGE_DIR = str(tmp_path)

    def keep_some() -> None:
        if found := archive.gather(topic, now=True):
            row = archive.reserve(found)
            archive.store(found)
            archive.settle(row)
            archive.tell_ring(found)

    async with LogServer(dice=random.Random(3), cut_chance=0.02) as server:
        async with following(server, topic, Run(0, False), kept=keep.known) as (follower, task):
            for number in range(6_000):
                server.runs[-1].write(START + number * 100_000, b"n%d" % number)
                if number % 100 == 0:
                    await asyncio.sleep(0.005)
                if number % 700 == 600:
                    await in_thread(keep_some)
                if number % 1_500 == 1_400:
                    await asyncio.to_thread(streams.forget, topic)
            server.runs[-1].ended = True
            follower.update(Run(0, True))
            await asyncio.wait_for(task, 60)
        page = await in_thread(streams.lines, topic, streams.Question(limit=10_000))
    texts = [line.text for frame in page["frames"] for line in frame["lines"]]
    assert texts == [f"n{number}" for number in range(6_000)]
    assert (page["first"], page["last"]) == (1, 6_000)
    assert not [frame for frame in page["frames"] if "missing" in frame or "gap" in frame]


async def test_rotation_is_said_never_hidden(topic: str) -> None:
    """kubernetes/kubernetes#115701: after a rotation the server shows the new file only."""
    async with LogServer() as server:
        log = server.runs[-1]
        for number in range(100):
            log.write(START + number, b"n%d" % number)
        async with following(server, topic, Run(0, False)):
            await until(lambda: len(texts(topic)) == 100)
        for number in range(100, 300):
            log.write(START + number * SECOND, b"n%d" % number)
        log.trimmed, log.ended = 200, True
        async with following(server, topic, Run(0, True)) as (_, task):
            await asyncio.wait_for(task, 10)
    assert texts(topic) == [f"n{n}" for n in (*range(100), *range(200, 300))]
    assert gaps(topic) == 1


async def test_a_restarted_container_gives_its_last_words_first(topic: str) -> None:
    async with LogServer() as server, following(server, topic, Run(0, False)) as (follower, task):
        server.runs[-1].write(START, b"first run")
        await until(lambda: texts(topic) == ["first run"])
        server.silent = True
        server.runs[-1].write(START + 5, b"last words")
        server.runs[-1].ended = True
        server.runs.append(Log([(START + SECOND, b"second run")], ended=True))
        server.silent = False
        follower.update(Run(1, True))
        await asyncio.wait_for(task, 10)
    assert texts(topic) == ["first run", "last words", "second run"]


@pytest.mark.parametrize("told", [False, True])
async def test_a_restart_that_the_cluster_tells_late_doubles_and_loses_no_line(topic: str, told: bool) -> None:
    """A node shows the new run's log at once, its status follows: the new lines are no end of the old run."""
    async with LogServer() as server:
        server.runs[-1].write(START, b"first")
        async with following(server, topic, Run(0, False)):
            await until(lambda: texts(topic) == ["first"])
        server.runs[-1].write(START + 1, b"last words")
        server.runs[-1].ended = True
        server.runs.append(Log([(START + SECOND, b"second run")]))
        async with following(server, topic, Run(0, told)) as (follower, task):
            await until(lambda: "second run" in texts(topic))
            server.runs[-1].write(START + 2 * SECOND, b"its end")
            server.runs[-1].ended = True
            follower.update(Run(1, True))
            await asyncio.wait_for(task, 10)
    assert texts(topic) == ["first", "last words", "second run", "its end"]
    assert gaps(topic) == 0


async def test_lines_of_a_run_that_was_taken_for_another_come_once(topic: str) -> None:
    """Two restarts within a moment: what is missing is said, what came is not repeated."""
    async with LogServer() as server:
        server.runs[-1].write(START, b"first")
        async with following(server, topic, Run(0, False)):
            await until(lambda: texts(topic) == ["first"])
        server.runs += [Log([(START + SECOND, b"nobody saw")], ended=True), Log([(START + 2 * SECOND, b"third run")])]
        async with following(server, topic, Run(0, False)) as (follower, task):
            await until(lambda: "third run" in texts(topic))
            server.runs[-1].ended = True
            follower.update(Run(2, True))
            await asyncio.wait_for(task, 10)
    assert texts(topic) == ["first", "third run"]
    assert gaps(topic) >= 1


@pytest.mark.parametrize("begun", [False, True])
async def test_a_node_that_dies_while_its_last_lines_are_read_loses_none(topic: str, begun: bool) -> None:
    """An API server ends its answer well though the node went away in the middle of it: that is not the log's end."""
    async with LogServer() as server:
        for number in range(1_000):
            server.runs[-1].write(START + number * 1_000_000, b"n%d" % number)
            if begun and number == 400:
                async with following(server, topic, Run(0, False)):
                    await until(lambda: len(texts(topic)) == 401)
        server.deaths, server.unknown, server.runs[-1].ended = [0.0, 0.7, 0.6], 2, True
        async with following(server, topic, Run(0, True)) as (_, task):
            await asyncio.wait_for(task, 10)
    assert texts(topic) == [f"n{number}" for number in range(1_000)]
    assert gaps(topic) == 0


async def test_a_stream_that_stays_open_after_the_end_is_not_waited_for(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LOOK_SECONDS", 0.2)
    async with LogServer() as server, following(server, topic, Run(0, False)) as (follower, task):
        server.runs[-1].write(START, b"first")
        await until(lambda: texts(topic) == ["first"])
        server.silent = True
        server.runs[-1].write(START + 1, b"last words")
        server.runs[-1].ended = True
        follower.update(Run(0, True))
        await asyncio.wait_for(task, 10)
    assert texts(topic) == ["first", "last words"]


async def test_a_line_is_not_lost_when_its_pod_cannot_be_asked_for(topic: str) -> None:
    async with LogServer(pod_outages=2) as server:
        for number in range(3):
            server.runs[-1].write(START + number, b"n%d" % number)
        server.runs[-1].ended = True
        async with following(server, topic, Run(0, True)) as (_, task):
            await asyncio.wait_for(task, 10)
    assert texts(topic) == ["n0", "n1", "n2"]


async def test_lines_that_are_no_text_do_no_harm(topic: str) -> None:
    """kubernetes-client/python#2087, #983, aiohttp#4453: broken UTF-8, split glyphs, a bare number, a line of 1 MB."""
    async with LogServer(dice=random.Random(3)) as server:
        log = server.runs[-1]
        lines = [
            b"\xff\xfe broken",
            "损失 ▁▂▃ 下降".encode() * 50,
            b"42",
            b"x" * 1_000_000,
            b"",
            b"10%|#\r20%|##\r",
            b"end",
        ]
        for number, text in enumerate(lines):
            log.write(START + number, text)
        log.ended = True
        async with following(server, topic, Run(0, True)) as (_, task):
            await asyncio.wait_for(task, 10)
    broken, glyphs, number, long, empty, bar, end = texts(topic)
    assert (broken, glyphs) == ("\ufffd\ufffd broken", "损失 ▁▂▃ 下降" * 50)
    assert (number, empty, bar, end) == ("42", "", "20%|##", "end")
    assert long == "x" * 1_000_000


async def test_a_line_without_end_costs_no_memory(topic: str) -> None:
    from apps.clusters.domain.loglines import Splitter

    splitter = Splitter()
    for _ in range(1_600):
        assert splitter.feed(b"x" * 65536) == []
    ((text, cut),) = splitter.feed(b"\n")
    assert len(text) + cut == 1_600 * 65536
    assert len(text) < (1 << 20) + 100


@pytest.mark.django_db(transaction=True)
async def test_figures_become_points_once(topic: str) -> None:
    line = "[2026-11-29 20:00:00] [INFO] [j] [Rank-0] [Step-{}] [Loss: {}]"
    async with LogServer() as server:
        for step, loss in enumerate(("2.5", "nan", "inf", "1.25")):
            server.runs[-1].write(START + step, line.format(step, loss).encode())
        server.runs[-1].ended = True
        for _ in range(2):
            async with following(server, topic, Run(0, True)) as (_, task):
                await asyncio.wait_for(task, 10)
            await asyncio.to_thread(streams.forget, topic)  # as if Redis had been lost: all is read again
    points = await in_thread(lambda: [(p.step, str(p.value)) for p in Point.objects.order_by("step")])
    assert points == [(0, "2.5"), (1, "nan"), (2, "inf"), (3, "1.25")]


@pytest.mark.django_db(transaction=True)
async def test_whoever_judges_figures_is_told_when_they_are_there_and_hears_of_checkpoints(topic: str) -> None:
    line = "[2026-11-29 20:00:00] [INFO] [j] [Rank-0] [Step-20] [{}]"
    seen: list[int] = []
    async with LogServer() as server:
        server.runs[-1].write(START, b"nothing of interest")
        async with following(server, topic, Run(0, False), lambda: seen.append(1)):
            await until(lambda: texts(topic))
            assert seen == []
            server.runs[-1].write(START + 1, line.format("Loss: 2.5").encode())
            server.runs[-1].write(START + 2, line.format("Checkpoint saved: step 20, 0.4 MiB, 0.01 s").encode())
            await until(lambda: len(texts(topic)) == 3 and seen and not streams.owed.of(topic))
    kept = await in_thread(lambda: list(Point.objects.order_by("series").values_list("series", "step", "value")))
    assert kept == [("checkpoint", 20, 1.0), ("loss", 20, 2.5)]


class _Away(Writer):
    """A database that cannot be asked."""

    async def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise OperationalError("gone")


@pytest.mark.django_db(transaction=True)
async def test_lines_wait_for_no_database_and_a_killed_watchs_points_are_stored_by_the_next(topic: str) -> None:
    line = "[2026-11-29 20:00:00] [INFO] [j] [Rank-0] [Step-{}] [Loss: {}]"
    async with LogServer() as server:
        async with following(server, topic, Run(0, False), write=_Away()):
            for step, loss in enumerate(("2.5", "nan")):
                server.runs[-1].write(START + step, line.format(step, loss).encode())
                await until(lambda step=step: len(texts(topic)) == step + 1)
        assert not await in_thread(Point.objects.exists)
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            keeping = group.create_task(keep.keep_logs(streams.LiveBuffer(), Writer()))
            while await asyncio.to_thread(streams.owed.topics):
                await asyncio.sleep(0.02)
            keeping.cancel()
        server.runs[-1].ended = True
        async with following(server, topic, Run(0, True)) as (_, task):
            await asyncio.wait_for(task, 10)
    assert len(texts(topic)) == 2
    points = await in_thread(lambda: [(p.step, str(p.value)) for p in Point.objects.order_by("step")])
    assert points == [(0, "2.5"), (1, "nan")]


@pytest.mark.django_db(transaction=True)
async def test_no_line_is_kept_for_good_before_its_points_are_stored(topic: str, settings: Any, tmp_path: Path) -> None:
    settings.STORAGE_DIR = str(tmp_path)
    buffer, points = streams.LiveBuffer(), [("loss", 1, 2.5, datetime.now(UTC))]
    frame = streams.LogFrame(streams.Source(0, 1, "p"), [streams.LogLine(1, "INFO", 0, 1, "Loss: 2.5")] * 10_000)
    assert await buffer.place(topic, "s") == ""
    assert await buffer.append(topic, [streams.pack(frame)], streams.Move("s", "", "1", streams.owed.packed(1, points)))
    kept = asyncio.create_task(keep.keep_logs(buffer, Writer()))
    async with asyncio.timeout(10):
        while (await in_thread(archive.kept, topic)).last < 10_000:
            await asyncio.sleep(0.02)
    kept.cancel()
    await buffer.close()
    assert await in_thread(lambda: [(p.step, p.value) for p in Point.objects.all()]) == [(1, 2.5)]
    assert streams.owed.of(topic) is None


@pytest.mark.django_db(transaction=True)
async def test_lines_wait_where_too_many_points_wait(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held in memory while the database is away is bounded."""
    monkeypatch.setattr(recording, "WAITING_LIMIT", 5)
    monkeypatch.setattr(recording, "FIRST_PAUSE", 0.01)
    away = asyncio.Event()
    away.set()

    class Sometimes(Writer):
        async def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return await (_Away() if away.is_set() else Writer())(*args, **kwargs)

    async with LogServer() as server, following(server, topic, Run(0, False), write=Sometimes()):
        for step in range(20):
            server.runs[-1].write(START + step, b"[2026-11-29 20:00:00] [INFO] [j] [Rank-0] [Step-%d] [Loss: 2]" % step)
            await asyncio.sleep(0.01)
        assert 5 <= len(texts(topic)) < 20
        away.clear()
        await until(lambda: len(texts(topic)) == 20)
        async with asyncio.timeout(10):
            while await in_thread(Point.objects.count) < 20:
                await asyncio.sleep(0.02)


async def until(condition: object, seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.02)
