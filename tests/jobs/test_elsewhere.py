"""A job's lines in its cluster's Loki: those that the portal has not itself, from a Loki that speaks HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.http import QueryDict
from django.test import Client

from apps.accounts.domain import Role
from apps.clusters.models import ClusterSource
from apps.jobs.domain.elsewhere import Look, pod_name, pods_pattern, rank_of
from apps.jobs.models import Job
from apps.jobs.reconcile.elsewhere import look_elsewhere
from apps.jobs.services import elsewhere
from apps.streams import services as streams
from tests import factories
from tests.factories import World
from tests.loki import SmallLoki, loki
from tests.pages import browser

MS, SECOND = 1_000_000, 1_000_000_000


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """What the web asked workers for; the tests are the worker."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(elsewhere, "send", lambda *message: found.append(message))
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield found
    del connection.outside_calls_allowed  # type: ignore[attr-defined]
    cache.clear()


@pytest.fixture
def small() -> Iterator[SmallLoki]:
    with loki() as it:
        yield it


@pytest.fixture
def job(world: World, small: SmallLoki) -> Job:
    ClusterSource.objects.create(
        cluster=world.place.cluster, kind="loki", url=small.url, state=ClusterSource.State.READY
    )
    return factories.job(world.scientist, world.place)


def begin(job: Job) -> int:
    return int(job.created_at.timestamp()) * SECOND


def labels(job: Job, rank: int, **other: str) -> dict[str, str]:
    pod = {"namespace": job.placement.namespace, "pod": pod_name(job.pk, rank), "container": "main"}
    return {**pod, "stream": "stdout", **other}


def address(job: Job, **asked: Any) -> str:
    span = {"since": begin(job), "until": begin(job) + 3600 * SECOND} | asked
    return f"/jobs/{job.pk}/log/loki?" + "&".join(f"{name}={value}" for name, value in span.items())


def work(sent: list[tuple[Any, ...]]) -> None:
    while sent:
        task, *row = sent.pop(0)
        assert task == elsewhere.TASK
        look_elsewhere(*row)


def page(client: Client, sent: list[tuple[Any, ...]], url: str) -> str:
    assert "Asking Loki" in client.get(url).content.decode()
    work(sent)
    return client.get(f"{url}&part=lines").content.decode()


def test_names_of_pods_are_those_of_ranks() -> None:
    assert [rank_of("01AB", pod_name("01AB", rank)) for rank in (0, 1, 12)] == [0, 1, 12]
    assert [rank_of("01AB", pod) for pod in ("j-01ab-probe", "j-01ab-worker-x", "j-01abc-worker-1", "")] == [None] * 4
    assert pods_pattern("01AB", [3, 0]) == "j-01ab-master-0|j-01ab-worker-2"


def test_the_page_asks_a_worker_and_shows_what_the_portal_has_not(
    world: World, job: Job, small: SmallLoki, sent: list[tuple[Any, ...]]
) -> None:
    at = begin(job)
    pod = pod_name(job.pk, 0)
    line = streams.LogLine(at + 2 * SECOND, "INFO", 0, None, "kept by the portal")
    streams.append(job.topic, streams.LogFrame(streams.Source(0, 1, pod), [line]))
    small.put(labels(job, 0), (at + SECOND, "lost on its node"), (at + 2 * SECOND, "kept by the portal"))
    small.put(labels(job, 1), (at + 2 * SECOND, "of the same moment, of another rank"))
    small.put(labels(job, 0, namespace="other"), (at + SECOND, "another tenant's"))
    small.put(labels(job, 0, container="istio-proxy"), (at + SECOND, "another container's"))
    small.put(labels(job, 0, pod="j-other-master-0"), (at + SECOND, "another job's"))
    small.put(labels(job, 0, pod=f"{pod}0"), (at + SECOND, "a pod with a longer name"))
    shown = page(browser(world.scientist), sent, address(job))
    assert "lost on its node" in shown
    assert "of the same moment, of another rank" in shown
    for other in ("kept by the portal", "another tenant", "another container", "another job", "longer name"):
        assert f">{other}" not in shown
    assert "1 line is left out" in shown
    row = ClusterSource.objects.get()
    assert row.error == ""
    assert row.read_at is not None


def test_a_second_look_is_not_asked_again(
    world: World, job: Job, small: SmallLoki, sent: list[tuple[Any, ...]]
) -> None:
    client = browser(world.scientist)
    page(client, sent, address(job))
    client.get(address(job))
    assert (sent, len(small.queries)) == ([], 1)


def test_ranks_and_text_are_asked_for(world: World, job: Job, small: SmallLoki, sent: list[tuple[Any, ...]]) -> None:
    at, odd = begin(job) + SECOND, 'say "\\n" {x} | y'
    for rank in (0, 1, 2):
        small.put(labels(job, rank), (at + rank, f"rank {rank}: {odd}"), (at + 5 + rank, f"rank {rank}: other"))
    client = browser(world.scientist)
    url = f"/jobs/{job.pk}/log/loki"
    span = {"since": str(begin(job)), "until": str(at + SECOND), "rank": ["0", "2"], "q": odd}
    client.get(url, span)
    work(sent)
    shown = client.get(url, {**span, "part": "lines"}).content.decode()
    assert "rank 0: say" in shown
    assert "rank 2: say" in shown
    assert "rank 1" not in shown
    assert "other" not in shown


def test_pages_follow_each_other_to_the_end(
    world: World, job: Job, small: SmallLoki, sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "PAGE_LINES", 3)
    at = begin(job)
    small.put(labels(job, 0), *((at + n // 2 * MS, f"line {n}") for n in range(20)))
    client, path = browser(world.scientist), f"/api/v1/jobs/{job.pk}/log/loki"
    asked: dict[str, Any] = {"since": at, "until": at + SECOND}
    found: list[str] = []
    while True:
        answer = client.get(path, asked)
        if answer.status_code == 202:
            assert answer["Retry-After"] == "1"
            work(sent)
            continue
        found += [line["text"] for line in answer.json()["lines"]]
        if answer.json()["after"] is None:
            break
        asked["after"] = answer.json()["after"]
    assert sorted(found, key=lambda text: int(text.split()[1])) == [f"line {n}" for n in range(20)]
    monkeypatch.setattr(elsewhere, "send", lambda _task, *row: look_elsewhere(*row))
    for url in (f"{path}/text", f"/jobs/{job.pk}/log/loki/download"):
        body = b"".join(client.get(url, asked | {"after": ""}).streaming_content).decode()  # type: ignore[attr-defined]
        assert body.count("\n") == 20
        assert f"[{pod_name(job.pk, 0)}] [Rank-0] line 19" in body


def test_a_loki_that_is_down_is_said_and_a_download_is_none(
    world: World, job: Job, small: SmallLoki, sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ClusterSource.objects.update(url="http://127.0.0.1:1")
    client = browser(world.scientist)
    shown = page(client, sent, address(job))
    assert "Loki does not answer now." in shown
    assert ClusterSource.objects.get().error.startswith("Loki did not answer")
    monkeypatch.setattr(elsewhere, "send", lambda _task, *row: look_elsewhere(*row))
    span = {"since": begin(job), "until": begin(job) + SECOND}
    assert client.get(f"/jobs/{job.pk}/log/loki/download", span).status_code == 503
    assert client.get(f"/api/v1/jobs/{job.pk}/log/loki", span).status_code == 503
    assert client.get(f"/api/v1/jobs/{job.pk}/log/loki/text", span).status_code == 503


def test_what_loki_refuses_is_told(
    world: World, job: Job, small: SmallLoki, sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    small.wish = [(400, b"the query would read too many bytes <script>", {})]
    client = browser(world.scientist)
    shown = page(client, sent, address(job))
    assert "Loki does not let the portal read these lines." in shown
    assert "HTTP 400: the query would read too many bytes &lt;script&gt;" in shown
    span = {"since": begin(job), "until": begin(job) + 3600 * SECOND}
    assert client.get(f"/api/v1/jobs/{job.pk}/log/loki", span).status_code == 502


def test_a_download_that_nobody_answers_is_none(
    world: World, job: Job, sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "WAIT_SECONDS", 0.0)
    answer = browser(world.scientist).get(f"/jobs/{job.pk}/log/loki/download")
    assert (answer.status_code, len(sent)) == (503, 1)


def test_what_breaks_off_does_not_look_whole(
    job: Job, small: SmallLoki, sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "PAGE_LINES", 2)
    monkeypatch.setattr(elsewhere, "send", lambda _task, *row: look_elsewhere(*row))
    at = begin(job)
    small.put(labels(job, 0), *((at + n, f"line {n}") for n in range(9)))
    pieces = elsewhere.text(job, Look(at, at + SECOND))
    assert b"line 0" in next(pieces)
    small.wish = [(400, b"no more", {})]
    with pytest.raises(Exception, match="no more"):
        list(pieces)


def test_a_page_that_is_large_is_the_next_ones_too(
    job: Job, small: SmallLoki, sent: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.jobs.reconcile.elsewhere.MOST_CHARACTERS", 1000)
    monkeypatch.setattr(elsewhere, "send", lambda _task, *row: look_elsewhere(*row))
    at = begin(job)
    small.put(labels(job, 0), *((at + n, f"{n} {'x' * 300}") for n in range(9)))
    pieces = list(elsewhere.text(job, Look(at, at + SECOND)))
    assert len(pieces) == 3
    assert b"".join(pieces).count(b"\n") == 9


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"since": "soon"}, "since"), ({"until": "2026-13-01"}, "until"), ({"rank": "-1"}, "rank"), ({"rank": "x"}, "rank"),
        ({"rank": ",".join(map(str, range(51)))}, "rank"), ({"q": "x" * 1001}, "q"),
        ({"since": "2199-01-01T00:00:00Z"}, "until"), ({"until": "0001-01-01T00:00:00Z"}, "until"),
        ({"since": "2026-03-02T09:00Z", "until": "2026-03-02T08:00Z"}, "until"),
    ],
)  # fmt: skip
def test_bad_questions_ask_nobody_and_keep_what_was_typed(
    world: World, job: Job, sent: list[tuple[Any, ...]], asked: dict[str, str], field: str
) -> None:
    client = browser(world.scientist)
    answer = client.get(f"/jobs/{job.pk}/log/loki", asked)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert f'href="#look-{field}"' in text
    assert all(value in text for value in asked.values())
    assert client.get(f"/jobs/{job.pk}/log/loki/download", asked).status_code == 422
    rest = client.get(f"/api/v1/jobs/{job.pk}/log/loki", asked)
    assert (rest.status_code, list(rest.json()["errors"])) == (400, [field])
    assert sent == []


def test_no_time_but_the_jobs_own_is_asked_for(job: Job) -> None:
    from_params = elsewhere.look_of(job, _params(since="0001-01-01T00:00:00Z", until="9" * 19))
    assert from_params.since == elsewhere._ns(job.created_at - timedelta(minutes=10))
    assert from_params.until < 2**63


def _params(**given: str) -> Any:
    params = QueryDict(mutable=True)
    params.update(given)
    return params


def test_a_job_of_others_and_a_cluster_without_loki_have_no_such_page(
    world: World, job: Job, sent: list[tuple[Any, ...]]
) -> None:
    stranger = browser(world.stranger())
    urls = [f"/jobs/{job.pk}/log/loki", f"/jobs/{job.pk}/log/loki/download",
            f"/api/v1/jobs/{job.pk}/log/loki", f"/api/v1/jobs/{job.pk}/log/loki/text"]  # fmt: skip
    assert [stranger.get(url).status_code for url in urls] == [404] * 4
    mine = browser(world.people[Role.VIEWER])
    assert "log/loki" in mine.get(f"/jobs/{job.pk}/").content.decode()
    ClusterSource.objects.all().delete()
    assert [mine.get(url).status_code for url in urls] == [404] * 4
    assert "log/loki" not in mine.get(f"/jobs/{job.pk}/").content.decode()
    assert sent == []


def test_lines_are_cleaned_as_any_other(job: Job, small: SmallLoki, sent: list[tuple[Any, ...]]) -> None:
    at = begin(job)
    small.put(labels(job, 0), (at, "\x1b[31mred\x1b[0m \u202eturned"), (at + 1, "one\ntwo"), (at + 2, "[ERROR] bad"))
    look = Look(at, at + SECOND)
    elsewhere.look(job, look)
    work(sent)
    found = elsewhere.look(job, look).lines
    assert [line.text for line in found] == ["red ⟨U+202E⟩turned", "one", "two", "[ERROR] bad"]
    assert found[3].level == "ERROR"
