"""TensorBoard event files: read as TensorBoard reads them, however they are cut."""

from __future__ import annotations

import itertools
import json
import math
import os
import struct
import tempfile
from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from hypothesis import given
from hypothesis import strategies as st

from apps.audit.models import Entry
from apps.jobs.domain import eventfiles
from apps.jobs.domain.eventfiles import NoEventFile
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job
from apps.jobs.services.curves import series_of
from apps.streams import services as streams
from tests import factories
from tests.factories import Role, World
from tests.pages import browser

CASES = Path(settings.BASE_DIR) / "tests" / "cases" / "events"
FILES = {name: (CASES / f"{name}.tfevents").read_bytes() for name in ("tensorboard", "tensorboardx")}


@pytest.mark.parametrize("name", sorted(FILES))
def test_scalars_are_those_that_tensorboard_reads(name: str) -> None:
    """The expected ones were written down by TensorBoard's own reader."""
    found = eventfiles.read(FILES[name])
    told = [[one.tag, one.step, repr(one.value), one.at] for one in found.scalars]
    assert told == json.loads((CASES / f"{name}.expected.json").read_text())
    assert (found.cut, found.left_out) == (False, 0)


@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_file_that_is_cut_tells_what_was_whole(name: str, data: st.DataObject) -> None:
    whole = FILES[name]
    end = data.draw(st.integers(0, len(whole)))
    all_of = [repr(one) for one in eventfiles.read(whole).scalars]
    try:
        found = eventfiles.read(whole[:end])
    except NoEventFile:
        assert end < 100  # not even its first record
        return
    assert [repr(one) for one in found.scalars] == all_of[: len(found.scalars)]
    assert found.cut or end == len(whole) or eventfiles.read(whole[:end] + whole[end : end + 1]).cut


@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_file_that_grows_is_read_on_where_it_was_left(name: str, data: st.DataObject) -> None:
    """However it grows, and however little is read in one go, every scalar comes once."""
    whole, found, place = FILES[name], [], 0
    ends = [*sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6))), len(whole)]
    most = data.draw(st.integers(1, 50))
    with tempfile.TemporaryFile() as file:
        for begin, end in itertools.pairwise([0, *ends]):
            file.seek(0, os.SEEK_END)
            file.write(whole[begin:end])
            file.flush()
            while True:
                piece = eventfiles.read_on(file, place, most_scalars=most, most_bytes=10**6)  # type: ignore[arg-type]
                found += piece.scalars
                if piece.next == place:
                    break
                assert (piece.begun is not None) == (place == 0)
                place = piece.next
            assert piece.waits == (place < end)
    assert place == len(whole)
    assert [repr(one) for one in found] == [repr(one) for one in eventfiles.read(whole).scalars]


def test_what_is_no_event_file_is_said_at_its_first_bytes_and_not_before(tmp_path: Path) -> None:
    for content in (b"", b"short", FILES["tensorboard"][:15]):
        (tmp_path / "a").write_bytes(content)
        with (tmp_path / "a").open("rb") as file:
            assert eventfiles.read_on(file, 0, most_scalars=9, most_bytes=9).next == 0
    for content in (b"a text that is no event file", record(b"\x0a\x01x"), record(b"no message")):
        (tmp_path / "a").write_bytes(content)
        with (tmp_path / "a").open("rb") as file, pytest.raises(NoEventFile):
            eventfiles.read_on(file, 0, most_scalars=9, most_bytes=9)


def test_a_record_that_is_no_event_does_not_end_a_file_that_is_read_on(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(scalar("a", 1, 2.0) + record(b"\xff") + scalar("a", 2, 1.0))
    with (tmp_path / "a").open("rb") as file:
        piece = eventfiles.read_on(file, 0, most_scalars=9, most_bytes=10**6)
    assert [one.step for one in piece.scalars] == [1, 2]
    assert not piece.waits


@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_damaged_byte_is_found(name: str, data: st.DataObject) -> None:
    whole = FILES[name]
    at = data.draw(st.integers(0, len(whole) - 1))
    bad = bytes([whole[at] ^ data.draw(st.integers(1, 255))])
    all_of = [repr(one) for one in eventfiles.read(whole).scalars]
    try:
        found = eventfiles.read(whole[:at] + bad + whole[at + 1 :])
    except NoEventFile:
        return
    told = [repr(one) for one in found.scalars]
    assert told == all_of[: len(told)]
    assert found.cut


def record(body: bytes) -> bytes:
    head = struct.pack("<Q", len(body))
    crc = [struct.pack("<I", eventfiles._masked(part)) for part in (head, body)]
    return head + crc[0] + body + crc[1]


@given(st.lists(st.binary(max_size=80), max_size=6))
def test_any_bytes_in_whole_records_are_read_or_refused(bodies: list[bytes]) -> None:
    try:
        found = eventfiles.read(b"".join(map(record, bodies)))
    except NoEventFile:
        return
    assert all(isinstance(one.value, float) for one in found.scalars)


@given(st.binary(max_size=300))
def test_any_other_bytes_are_no_event_file(data: bytes) -> None:
    with pytest.raises(NoEventFile):
        eventfiles.read(data)


def scalar(tag: str, step: int, value: float) -> bytes:
    name = tag.encode()
    inner = b"\x0a" + bytes([len(name)]) + name + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    return record(
        b"\x09" + struct.pack("<d", 1.0) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    )


def test_what_is_long_is_passed_over_and_series_are_bounded() -> None:
    picture = record(b"\x09" + struct.pack("<d", 1.0) + b"\x1a\xff\xff\x7f" + b"x" * (2**21 - 1))
    found = eventfiles.read(scalar("a", 1, 2.0) + picture + scalar("a", 2, 1.0))
    assert [(one.step, one.value) for one in found.scalars] == [(1, 2.0), (2, 1.0)]
    many = eventfiles.read(b"".join(scalar(f"tag{n}", 1, 1.0) for n in range(130)))
    assert (len(many.scalars), many.left_out) == (100, 30)


@pytest.mark.parametrize(
    ("tag", "series"),
    [
        ("train/loss", "loss"), ("Loss/val", "eval_loss"), ("lr", "learning_rate"), ("epoch_accuracy", "epoch_accuracy"),
        ("a very odd tag: 100 %", "a_very_odd_tag_100_"), ("x" * 60, "x" * 40), ("0", ""), ("损失", ""), ("gpu:use", "gpu_use"),
    ],
)  # fmt: skip
def test_tags_become_names_of_curves(tag: str, series: str) -> None:
    assert eventfiles.series_of(tag) == series


@pytest.fixture
def job(world: World) -> Job:
    return factories.job(world.scientist, world.place, phase=Phase.SUCCEEDED)


def send(world: World, job: Job, data: bytes, query: str = "", role: Role = Role.SCIENTIST) -> object:
    path = f"/api/v1/jobs/{job.pk}/events{query}"
    return browser(world.people[role]).post(path, data, content_type="application/octet-stream")


def test_by_rest_also_when_the_job_has_ended(world: World, job: Job) -> None:
    half = FILES["tensorboardx"][:2500]
    first, again = send(world, job, half).json(), send(world, job, FILES["tensorboardx"]).json()  # type: ignore[attr-defined]
    assert first["cut"]
    assert not again["cut"]
    assert again["known"] == first["stored"]
    assert again["stored"] + again["known"] == 61
    assert again["series"] == ["loss", "learning_rate", "n_code_tag_"]
    assert Entry.objects.filter(action="job.read-events").count() == 2
    known = {one.name: one.source for one in series_of(job)}
    assert known["loss"] == "read from TensorBoard's event files"
    values = {one.step: one.value for one in streams.told(job.topic, ["loss"])}
    assert len(values) == 30
    assert math.isnan(values[30])
    # No verdict is built on them, and what the log says goes before.
    assert streams.logged(job.topic, ("loss",), limit=10) == []
    streams.record_points(job.topic, 1, [("loss", 30, 2.5, job.created_at)])
    assert [one.value for one in streams.logged(job.topic, ("loss",), limit=10)] == [2.5]


def test_what_is_none_is_refused(world: World, job: Job) -> None:
    assert send(world, job, b"no event file").status_code == 400  # type: ignore[attr-defined]
    assert send(world, job, FILES["tensorboard"], "?attempt=2").status_code == 400  # type: ignore[attr-defined]
    assert send(world, job, FILES["tensorboard"], "?attempt=x").status_code == 400  # type: ignore[attr-defined]
    assert send(world, job, b"x" * (eventfiles.MOST_BYTES + 1)).status_code == 413  # type: ignore[attr-defined]
    assert send(world, job, FILES["tensorboard"], role=Role.VIEWER).status_code == 403  # type: ignore[attr-defined]
    assert series_of(job) == []


def test_by_the_page(world: World, job: Job) -> None:
    client, path = browser(world.scientist), f"/jobs/{job.pk}/events"
    answer = client.post(path, {"file": SimpleUploadedFile("a.tfevents", FILES["tensorboard"])}, follow=True)
    assert "20 new points were read." in answer.content.decode()
    answer = client.post(path, {"file": SimpleUploadedFile("a.txt", b"text")}, follow=True)
    assert "This is no TensorBoard event file." in answer.content.decode()
    assert "at most 16 MiB" in client.post(path, {}, follow=True).content.decode()
