"""Looking for a job's lines in its cluster's own log store, its Loki, where the portal has not read them itself.

The web process asks for a page and a worker, which alone has the token, reads it; the answer lies in the cache for a
while. Nothing is kept: whoever looks again asks again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.cache import cache
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.adapters.broker import send
from apps.adapters.errors import OutsideError, Refused, Unavailable
from apps.clusters.services import sources
from apps.jobs.domain.elsewhere import MOST_RANKS, Look
from apps.jobs.models import Job
from apps.streams import services as streams

TASK = "jobs.look_elsewhere"
PAGE_LINES = 1000
PATIENCE, LONGEST = timedelta(minutes=10), timedelta(days=5 * 365)
"""How far the clocks of its nodes may be off, and for how long a job may have written."""
ASKED_SECONDS, KEPT_SECONDS, FAILED_SECONDS = 120, 120, 5
"""How long a question counts as asked, a page as read, and a failure as one."""
WAIT_SECONDS, POLL_SECONDS = 45.0, 0.1
"""How long a download waits for a page."""


@dataclass(frozen=True)
class Found:
    """A line, read as one of the portal's own log: `at` in nanoseconds since 1970, `rank` None where nobody knows."""

    at: int
    rank: int | None
    pod: str
    text: str
    level: str = ""
    step: int | None = None

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.at // 1_000_000_000, UTC)

    @property
    def millisecond(self) -> str:
        return f"{self.at // 1_000_000 % 1000:03}"


@dataclass(frozen=True)
class Answer:
    """A page. `next` is from when (ns) the next one goes on, None at the end; `own` counts lines left out because the
    portal has them itself; `unsure` says that some such may be among these; `is_cut` that Loki did not give all lines
    of the last one's time. `state` is "asked" until it was read, "away" or "refused" with its `text`, or "read"."""

    state: str = "asked"
    lines: list[Found] = field(default_factory=list)
    next: int | None = None
    own: int = 0
    unsure: bool = False
    is_cut: bool = False
    text: str = ""


def has_store(job: Job) -> bool:
    """Whether the job's cluster has a Loki that may be asked."""
    return sources.in_use(job.placement.cluster_id, sources.Kind.LOKI) is not None


def look_of(job: Job, params: QueryDict) -> Look:
    """What is asked for as of a kept log: `rank`, `since`, `until`, `q`; all of the job's time by default and no time
    but its own; from `after` (ns) on for a next page. Raises BadQuestion."""
    wanted = streams.text_range(params).wanted
    if len(wanted.ranks) > MOST_RANKS:
        raise streams.BadQuestion({"rank": [_("At most {maximum} ranks, or all.").format(maximum=MOST_RANKS)]})
    earliest, latest = _ns(job.created_at - PATIENCE), _ns((job.ended_at or job.created_at + LONGEST) + PATIENCE)
    since = max(wanted.since or 0, earliest)
    until = min(wanted.until or (latest if job.ended_at else _ns(timezone.now())), latest)
    if until <= since:
        raise streams.BadQuestion({"until": [_("Choose a time after the beginning.")]})
    after = params.get("after") or ""
    if after.isascii() and after.isdigit() and len(after) <= 19:
        since = min(max(since, int(after)), until)
    return Look(since, until, tuple(sorted(wanted.ranks)), wanted.text)


def look(job: Job, asked: Look) -> Answer:
    """The page, as far as it was read: it is asked for where nobody has."""
    row = json.dumps(asked.to_row())
    known = cache.get(_key(job.pk, row))
    if known is None:
        cache.set(_key(job.pk, row), Answer(), ASKED_SECONDS)
        send(TASK, job.pk, row)
        return Answer()
    return known  # type: ignore[no-any-return]


def tell(job_id: str, row: str, answer: Answer) -> None:
    """Put a page where whoever asked for it looks."""
    cache.set(_key(job_id, row), answer, KEPT_SECONDS if answer.state == "read" else FAILED_SECONDS)


def _key(job_id: str, row: str) -> str:
    return f"elsewhere:{job_id}:{hashlib.sha256(row.encode()).hexdigest()}"


def text(job: Job, asked: Look) -> Iterator[bytes]:
    """All lines as a text, in pieces; the first page is read before this returns. Raises Unavailable, Refused; while it
    is read too, so that what is broken off does not look whole."""
    return _text(job, asked, _waited(job, asked))


def _text(job: Job, asked: Look, answer: Answer) -> Iterator[bytes]:
    while True:
        yield "".join(map(_line_text, answer.lines)).encode()
        if answer.next is None:
            return
        asked = Look(answer.next, asked.until, asked.ranks, asked.text)
        answer = _waited(job, asked)


def _waited(job: Job, asked: Look) -> Answer:
    end = time.monotonic() + WAIT_SECONDS
    while (answer := look(job, asked)).state == "asked":
        if time.monotonic() > end:
            raise Unavailable(_("Nobody has looked for the lines yet."))
        time.sleep(POLL_SECONDS)
    if error := failure(answer):
        raise error
    return answer


def failure(answer: Answer) -> OutsideError | None:
    """Why there are no lines, if that is so."""
    match answer.state:
        case "away":
            return Unavailable(answer.text)
        case "refused":
            return Refused(answer.text)
    return None


def _line_text(line: Found) -> str:
    parts = [f"{line.moment:%Y-%m-%d %H:%M:%S}.{line.millisecond}", line.level, line.pod]
    parts += ["" if line.rank is None else f"Rank-{line.rank}", "" if line.step is None else f"Step-{line.step}"]
    return f"{' '.join(f'[{part}]' for part in parts if part)} {line.text}\n"


def to_json(answer: Answer) -> dict[str, Any]:
    """As REST tells it."""
    lines = [asdict(line) for line in answer.lines]
    after = None if answer.next is None else str(answer.next)
    told = {"state": answer.state, "store": "loki", "lines": lines, "after": after}
    return told | {"own": answer.own, "unsure": answer.unsure, "cut": answer.is_cut}


def _ns(moment: datetime) -> int:
    return int(moment.timestamp() * 1e6) * 1000
