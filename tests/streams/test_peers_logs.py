"""Logs that other platforms were reported to lose, to choke on or to hand out badly."""

from __future__ import annotations

import tracemalloc

import pytest
from django.utils import timezone

from apps.clusters import services as clusters
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job
from apps.streams import services
from apps.streams.services import archive, buffer
from tests import factories
from tests.factories import World
from tests.pages import browser
from tests.streams.test_archive import folder, keep_all, place  # noqa: F401 (a fixture)
from tests.streams.test_lines import SECOND, ask, numbers

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = 3600 * SECOND


@pytest.fixture
def job(world: World) -> Job:
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING)
    place(job.topic)  # as a follower begins: from here on its lines wait to be kept
    return job


def write(job: Job, at: int, *texts: str) -> None:
    lines = [services.LogLine(at + index, "INFO", 0, None, text) for index, text in enumerate(texts)]
    services.append(job.topic, services.LogFrame(services.Source(0, 1, "p"), lines))


def test_a_large_log_is_read_in_as_little_memory_as_a_small_one(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """pai#374, kubernetes-retired/dashboard#1834, #654: a large log was read whole, and the server died of it."""
    monkeypatch.setattr(archive, "SEGMENT_LINES", 2000)

    def peak() -> int:
        archive._frames.cache_clear()
        tracemalloc.start()
        size = sum(map(len, services.text(job.topic, services.Range())))
        ask(job.topic, "q=nowhere+to+be+found")
        _now, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        sizes.append(size)
        return most

    sizes: list[int] = []
    peaks = []
    for part in range(2):
        place(job.topic)
        for block in range(10 if part == 0 else 50):
            write(job, (part * 50 + block) * SECOND, *(f"line of a long log {'x' * 400}" for _ in range(500)))
            if block % 4 == 3:
                keep_all(job.topic)
        keep_all(job.topic)
        buffer.forget(job.topic)
        peaks.append(peak())
    assert sizes[1] > 5 * sizes[0]
    assert peaks[1] < 1.5 * peaks[0]
    page = ask(job.topic, "limit=5")
    assert (page["last"], len(page["frames"][-1]["lines"])) == (30_000, 5)
    assert ask(job.topic, "line=17&limit=1")["at"] == 17


def test_a_log_with_hours_between_its_lines_is_whole_and_every_jump_lands(job: Job) -> None:
    """dstack#2501: a reader that asked by stretches of time took an empty one for the end."""
    for n in range(1, 9):
        write(job, n * 5 * HOUR, f"line {n}")
        if n == 4:
            keep_all(job.topic)
    page = ask(job.topic, "limit=3")
    back = numbers(page)
    while page["older"]:
        page = ask(job.topic, f"limit=3&before={page['before']}")
        back = numbers(page) + back
    assert back == list(range(1, 9))
    assert ask(job.topic, f"at={12 * HOUR}&limit=1")["at"] == 3
    assert numbers(ask(job.topic, f"since={11 * HOUR}&until={21 * HOUR}")) == [3, 4]
    nothing = ask(job.topic, f"since={11 * HOUR}&until={14 * HOUR}")
    assert (numbers(nothing), nothing["searched"]["complete"]) == ([], True)


def test_the_log_of_a_finished_job_stays_when_its_ring_is_gone(world: World, job: Job) -> None:
    """dstack#4176: after a run had ended there was nothing to read any more."""
    write(job, SECOND, "line 1", "line 2", "line 3")
    Job.objects.for_system().filter(pk=job.pk).update(phase=Phase.SUCCEEDED, ended_at=timezone.now())
    keep_all(job.topic)
    buffer.forget(job.topic)
    client = browser(world.scientist)
    for path in (f"/jobs/{job.pk}/log/lines", f"/api/v1/jobs/{job.pk}/log"):
        page = client.get(path).json()
        assert [line[4] for frame in page["frames"] for line in frame["lines"]] == ["line 1", "line 2", "line 3"]
    assert client.get(f"/jobs/{job.pk}/").status_code == 200


def test_a_job_that_never_wrote_answers_with_an_empty_page(world: World, job: Job) -> None:
    """dstack#2896: asking for the log of a run without one was an error of the server."""
    client = browser(world.scientist)
    for query in ("", "?before=1", "?after=0", "?line=9", "?at=0", "?step=3", "?q=x", "?since=0&until=9"):
        answer = client.get(f"/api/v1/jobs/{job.pk}/log{query}")
        assert (answer.status_code, answer.json()["frames"], answer.json()["total"]) == (200, [], 0), query
    text = client.get(f"/api/v1/jobs/{job.pk}/log/text")
    assert (text.status_code, b"".join(text.streaming_content)) == (200, b"")  # type: ignore[arg-type]


def test_lines_of_one_second_are_all_kept_in_their_order(job: Job) -> None:
    """determined#8815: times cut to the second made lines of one second equal, and all but one were lost."""
    moment = 1_700_000_000 * SECOND
    for n in range(1, 201, 10):
        write(job, moment + n, *(f"line {m}" for m in range(n, n + 10)))
    assert numbers(ask(job.topic)) == list(range(1, 201))
    assert numbers(ask(job.topic, f"since={moment + 50}&until={moment + 60}")) == list(range(50, 60))
    assert ask(job.topic, f"at={moment + 120}&limit=1")["at"] == 120


def test_a_line_whose_writer_died_in_it_is_a_line() -> None:
    """determined#8803: the shipper waited for the newline that a killed process never wrote."""
    assert [line.text for line in clusters.read_lines([b"whole\nhalf a li"])] == ["whole", "half a li"]


@pytest.mark.parametrize("cut", range(1, 9))
def test_bytes_of_other_encodings_and_glyphs_cut_between_chunks_lose_no_line(cut: int) -> None:
    """dstack#3918, rancher#13402: text that is no UTF-8 stopped the view."""
    glyphs, gbk = "损失 🙂".encode(), "损失 2.5".encode("gbk")
    chunks = [b"before\n" + glyphs[:cut], glyphs[cut:] + b"\n" + gbk + b"\n" + glyphs[:cut], b"\nafter\n"]
    found = [line.text for line in clusters.read_lines(chunks)]
    assert (found[0], found[1], found[-1], len(found)) == ("before", "损失 🙂", "after", 5)
    assert "�" in found[2]
    assert found[2].endswith("2.5")


def test_a_download_is_a_text_file_in_utf8_and_no_page(world: World, job: Job) -> None:
    """pai#5243: the log opened in the tab, in the browser's own encoding, under a name without an ending."""
    write(job, SECOND, "损失 <script>alert(1)</script>")
    for path in (f"/jobs/{job.pk}/log/download", f"/api/v1/jobs/{job.pk}/log/text"):
        answer = browser(world.scientist).get(path)
        assert answer["Content-Type"] == "text/plain; charset=utf-8"
        assert answer["Content-Disposition"] == f'attachment; filename="{job.pk}.log"'
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert "损失 <script>" in b"".join(answer.streaming_content).decode()  # type: ignore[arg-type]
