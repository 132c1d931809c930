"""The log that is kept for good: one log with the ring, whatever is lost of either."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

from apps.adapters.errors import Unavailable
from apps.adapters.storage import Folder
from apps.audit.models import Entry
from apps.clusters.watch import keep
from apps.clusters.watch.database import Writer, in_thread
from apps.streams import services
from apps.streams.models import Segment
from apps.streams.services import archive, buffer, retention
from tests import factories
from tests.factories import World
from tests.streams.test_lines import SECOND, ask, numbers

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.STORAGE_DIR = str(tmp_path)
    archive._frames.cache_clear()
    return tmp_path


@pytest.fixture
def topic(world: World) -> str:
    return str(factories.job(world.scientist, world.place).topic)


def write(topic: str, first: int, count: int, *, source: str = "s", attempt: int = 1, level: str = "INFO") -> None:
    """Lines as a follower writes them; the place after them is the number of the last."""

    async def run() -> None:
        live = services.LiveBuffer(keep.known)
        place = await live.place(topic, source)
        lines = [services.LogLine(n * SECOND, level, 0, n, f"line {n}") for n in range(first, first + count)]
        frame = services.LogFrame(services.Source(0, attempt, "p"), lines)
        assert await live.append(topic, [services.pack(frame)], services.Move(source, place, str(first + count - 1)))
        await live.close()

    asyncio.run(run())


def place(topic: str, source: str = "s") -> str:
    async def run() -> str:
        live = services.LiveBuffer(keep.known)
        found = await live.place(topic, source)
        await live.close()
        return found

    return asyncio.run(run())


def keep_all(topic: str) -> None:
    while (found := archive.gather(topic, now=True)) is not None:
        row = archive.reserve(found)
        archive.store(found)
        archive.settle(row)
        archive.tell_ring(found)


def everything(topic: str, limit: int = 70) -> list[int]:
    """Every line, page by page back, which must be the same on."""
    back: list[int] = []
    page = ask(topic, f"limit={limit}")
    back = numbers(page)
    while page["older"]:
        page = ask(topic, f"limit={limit}&before={page['before']}")
        back = numbers(page) + back
    on: list[int] = []
    page = {"newer": True}
    while page["newer"]:
        page = ask(topic, f"limit={limit}&after={on[-1] if on else 0}")
        on += numbers(page)
    assert on == back
    return back


def test_archive_and_ring_are_one_log(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "LINES_KEPT", 100)
    monkeypatch.setattr(archive, "SEGMENT_LINES", 60)
    for first in range(1, 501, 20):
        write(topic, first, 20)
        if first % 100 == 1:
            keep_all(topic)
    assert everything(topic) == list(range(1, 501))
    assert sum(entry.count for entry in buffer.tail(topic, 10**6)) < 200
    for query in ("line=130", f"at={130 * SECOND}", "step=130"):
        page = ask(topic, f"limit=20&{query}")
        assert (page["at"], numbers(page)) == (130, list(range(120, 140))), query
    assert numbers(ask(topic, "q=^line+.*77$&regex=1")) == [77, 177, 277, 377, 477]
    text = b"".join(services.text(topic, services.Range(90, 340))).decode().splitlines()
    assert [int(line.rpartition(" ")[2]) for line in text] == list(range(90, 341))


def test_the_log_goes_on_behind_what_is_kept_when_redis_is_lost(topic: str) -> None:
    write(topic, 1, 30, source="a")
    write(topic, 31, 10, source="b")
    keep_all(topic)
    write(topic, 41, 5, source="a")
    buffer.forget(topic)
    assert everything(topic) == list(range(1, 41)), "the archive alone"
    assert (place(topic, "a"), place(topic, "b"), place(topic, "c")) == ("30", "40", "")
    write(topic, 41, 5, source="a")
    assert everything(topic) == list(range(1, 46))
    keep_all(topic)
    buffer.forget(topic)
    assert (place(topic, "a"), place(topic, "b")) == ("45", "40"), "places outlive the segment they came with"
    assert everything(topic) == list(range(1, 46))


def test_a_ring_of_an_earlier_time_is_not_gone_on_with(topic: str) -> None:
    """Redis comes back with what it had saved a while ago: numbers that are taken would be given again."""
    keys = buffer.Keys.of(topic)
    write(topic, 1, 10, source="a")
    keep_all(topic)
    saved = {key: buffer.redis().dump(key) for key in (keys.stream, keys.meta, keys.places)}
    write(topic, 11, 20, source="b")
    keep_all(topic)

    async def run() -> None:
        live = services.LiveBuffer(keep.known)
        before = await live.place(topic, "a")
        for key, dumped in saved.items():
            await asyncio.to_thread(buffer.redis().restore, key, 0, dumped, replace=True)
        frame = services.LogFrame(services.Source(0, 1, "p"), [services.LogLine(SECOND, "", 0, None, "line 31")])
        move = services.Move("a", before, "31")
        assert not await live.append(topic, [services.pack(frame)], move), "though the source stands where it stood"
        assert (await live.place(topic, "a"), await live.place(topic, "b")) == ("10", "30")
        assert await live.append(topic, [services.pack(frame)], move)
        await live.close()

    asyncio.run(run())
    assert everything(topic) == list(range(1, 32))


def test_a_ring_begun_anew_is_not_told_of_the_lines_of_the_one_before(topic: str) -> None:
    write(topic, 1, 10)
    found = archive.gather(topic, now=True)
    assert found is not None
    buffer.forget(topic)
    archive.tell_ring(found)
    assert place(topic) == ""
    write(topic, 1, 10)
    assert everything(topic) == list(range(1, 11))


def test_nothing_is_trimmed_before_it_is_kept_up_to_twice_the_ring(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "LINES_KEPT", 100)
    write(topic, 1, 190)
    assert everything(topic) == list(range(1, 191))
    for first in range(191, 401, 10):
        write(topic, first, 10)
    page = ask(topic, "after=0")
    assert page["first"] > 190
    keep_all(topic)
    lost = Segment.objects.get(topic=topic).first
    assert (page["first"], page["kept_since"]) == (lost, lost), "what was lost is said"


def test_a_hole_is_declared_by_number(topic: str) -> None:
    write(topic, 1, 10)
    keep_all(topic)
    write(topic, 11, 10)
    keep_all(topic)
    write(topic, 21, 10)
    keep_all(topic)
    buffer.forget(topic)
    Segment.objects.filter(first=11).delete()
    page = ask(topic)
    assert [frame.get("missing") for frame in page["frames"]] == [None, 10]
    assert numbers(page) == [*range(1, 11), *range(21, 31)]


def test_a_stop_at_any_moment_loses_and_doubles_nothing(topic: str) -> None:
    write(topic, 1, 30)
    found = archive.gather(topic, now=True)
    assert found is not None
    for steps in range(4):
        row = archive.reserve(found) if steps > 0 else 0
        if steps > 1:
            archive.store(found)
        if steps > 2:
            archive.settle(row)
        assert everything(topic) == list(range(1, 31))
    with pytest.raises(IntegrityError):
        archive.settle(archive.reserve(found))
    assert archive.gather(topic, now=True) is None
    write(topic, 31, 10)
    keep_all(topic)
    assert list(Segment.objects.filter(stored=True).order_by("first").values_list("first", "last")) == [
        (1, 30),
        (31, 40),
    ]


def test_the_watch_keeps_what_is_full_or_waits(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "SEGMENT_LINES", 50)
    monkeypatch.setattr(keep, "LOOK_SECONDS", 0.01)
    for first in range(1, 131, 10):
        write(topic, first, 10)
    buffer.append("job.plain", services.LogFrame(services.Source(0, 1, "p"), []))

    async def until(count: int) -> None:
        live = services.LiveBuffer(keep.known)
        task = asyncio.create_task(keep.keep_logs(live, Writer()))
        async with asyncio.timeout(20):
            while await in_thread(Segment.objects.filter(topic=topic, stored=True).count) < count:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await live.close()

    asyncio.run(until(2))
    assert list(Segment.objects.filter(topic=topic, stored=True).values_list("first", "last")) == [(1, 50), (51, 100)]
    monkeypatch.setattr(archive, "QUIET_SECONDS", 0)
    asyncio.run(until(3))
    assert everything(topic) == list(range(1, 131))


def test_without_storage_the_ring_holds_on(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_args: object) -> None:
        raise Unavailable("The portal's storage cannot be used", system="storage")

    write(topic, 1, 30)
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "put", refuses)
        with pytest.raises(Unavailable):
            keep_all(topic)
    assert everything(topic) == list(range(1, 31))
    keep_all(topic)
    assert Segment.objects.filter(topic=topic, stored=True).count() == 1


def test_segments_in_which_nothing_can_be_are_not_read(topic: str, folder: Path) -> None:
    for number, (attempt, level) in enumerate(((1, "INFO"), (2, "ERROR"), (3, "INFO"))):
        write(topic, number * 10 + 1, 10, attempt=attempt, level=level)
        keep_all(topic)
    buffer.forget(topic)
    read = archive._frames.cache_info
    assert numbers(ask(topic, "attempt=2")) == list(range(11, 21))
    assert numbers(ask(topic, "level=error")) == list(range(11, 21))
    assert numbers(ask(topic, "rank=7")) == []
    assert numbers(ask(topic, "since=1970-01-01T00:00:11Z&until=1970-01-01T00:00:21Z")) == list(range(11, 21))
    assert ask(topic, "step=15&limit=2")["at"] == 15
    assert read().currsize == 1


def test_old_logs_go_and_that_is_recorded(topic: str, settings: Any, folder: Path) -> None:
    write(topic, 1, 10)
    keep_all(topic)
    write(topic, 11, 10)
    keep_all(topic)
    young = int(timezone.now().timestamp()) * SECOND
    Segment.objects.filter(first=11).update(ends=young)
    buffer.forget(topic)
    settings.LOG_KEPT_DAYS = 30
    for pk in services.due_segments():
        services.remove_segment(pk)
    assert [segment.first for segment in Segment.objects.all()] == [11]
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 1
    page = ask(topic)
    assert (page["kept_since"], numbers(page)) == (11, list(range(11, 21)))
    assert "11" in page["notice"]
    entry = Entry.objects.get(action="log.expired")
    assert (entry.target, entry.params["first"], entry.params["last"]) == (topic.replace(".", ":"), 1, 10)
    assert entry.tenant_id == Segment.objects.get().tenant_id


def test_a_tenants_oldest_lines_make_room_for_its_newest(topic: str, settings: Any) -> None:
    for first in range(1, 41, 10):
        write(topic, first, 10)
        keep_all(topic)
    sizes = list(Segment.objects.order_by("first").values_list("size", flat=True))
    settings.LOG_KEPT_BYTES = sum(sizes) + 10
    write(topic, 41, 10)
    keep_all(topic)
    buffer.forget(topic)
    assert everything(topic) == list(range(11, 51))


def test_bytes_of_nobody_are_swept_and_a_log_that_is_over_goes(topic: str, folder: Path, settings: Any) -> None:
    write(topic, 1, 10)
    found = archive.gather(topic, now=True)
    assert found is not None
    row = archive.reserve(found)
    archive.store(found)
    assert services.due_segments() == []
    Segment.objects.filter(pk=row).update(created_at=timezone.now() - retention.UNSTORED - timedelta(minutes=1))
    keep_all(topic)
    settings.LOG_KEPT_DAYS = 1
    buffer.forget(topic)
    due = services.due_segments()
    assert len(due) == 2
    for pk in due:
        services.remove_segment(pk)
    assert not Segment.objects.exists()
    assert not [path for path in folder.rglob("*") if path.is_file()]
    assert ask(topic)["frames"] == []
