"""Reading a page of a job's lines from its cluster's Loki, for somebody who waits for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import structlog
from redis.exceptions import RedisError

from apps.adapters.errors import OutsideError, Unavailable
from apps.clusters import services as clusters
from apps.clusters.services import logstore
from apps.clusters.services.logstore import Line, Page
from apps.jobs.domain.elsewhere import CONTAINER, Look, pods_pattern, rank_of
from apps.jobs.models import Job
from apps.jobs.services import elsewhere
from apps.jobs.services.elsewhere import Answer, Found
from apps.streams import services as streams

log = structlog.get_logger(__name__)

MOST_CHARACTERS = 4 << 20
"""Of a page; the rest is the next one's."""


def look_elsewhere(job_id: str, row: str) -> None:
    """Read a page and put it where whoever asked looks."""
    job = Job.objects.for_system().select_related("placement").filter(pk=job_id).first()
    if job is None:
        return
    try:
        answer = _read(job, Look.of_row(json.loads(row)))
    except OutsideError as error:
        log.info("loki_unread", job=job_id, error=error.text)
        answer = Answer("away" if isinstance(error, Unavailable) else "refused", text=error.text)
    elsewhere.tell(job_id, row, answer)


def _read(job: Job, asked: Look) -> Answer:
    equal = {"namespace": job.placement.namespace, "container": CONTAINER}
    asking = logstore.query(equal, fitting={"pod": pods_pattern(job.pk, asked.ranks)}, text=asked.text)
    span = asked.since, asked.until
    page = _fitted(logstore.page_of(job.placement.cluster_id, asking, span, elsewhere.PAGE_LINES))
    own, is_sure = _own(job, asked, page.lines)
    lines = [line for line in page.lines if _place(line) not in own]
    found = [one for line in lines for one in _found(job.pk, line)]
    return Answer("read", found, page.next, len(page.lines) - len(lines), not is_sure, page.is_cut)


def _fitted(page: Page) -> Page:
    """As much of a page as is kept at once; it ends where a nanosecond does."""
    size = 0
    for line in page.lines:
        size += len(line.text)
        if size > MOST_CHARACTERS and (before := [one for one in page.lines if one.at < line.at]):
            return Page(before, line.at)
    return page


def _place(line: Line) -> tuple[str, int]:
    return line.labels.get("pod", ""), line.at


def _own(job: Job, asked: Look, lines: Iterable[Line]) -> tuple[set[tuple[str, int]], bool]:
    """Pod and time of those lines that the portal has itself, and whether these are all."""
    places = {_place(line) for line in lines}
    if not places:
        return set(), True
    times = [at for _pod, at in places]
    span = streams.Filter(text=asked.text, since=min(times), until=max(times) + 1)
    try:
        return streams.known(job.topic, span, places)
    except (RedisError, OutsideError):
        return set(), False


def _found(job_id: str, line: Line) -> Iterator[Found]:
    """What a page shows of a line, read as any other line is; one may be several, where an agent joined them."""
    pod = line.labels.get("pod", "")
    for one in clusters.read_lines([line.text.encode(errors="replace") + b"\n"]):
        rank = rank_of(job_id, pod) if one.rank is None else one.rank
        yield Found(line.at, rank, pod, one.text, one.level, one.step)
