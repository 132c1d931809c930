"""Looking for a job's lines in its cluster's Loki: some, none, one that is down, a bad question, a gap."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.core.cache import cache
from django.http import QueryDict
from django.utils import timezone

from apps.accounts.models import User
from apps.clusters.models import ClusterSource
from apps.jobs.domain.elsewhere import pod_name
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job
from apps.jobs.services import elsewhere
from apps.jobs.services.elsewhere import Answer, Found
from apps.streams import services as streams
from tests import factories

WHO = "data-scientist"
PAGES = {
    "loki-lines": (WHO, "/jobs/{elsewhere}/log/loki"),
    "loki-none": (WHO, "/jobs/{elsewhere}/log/loki?q=nothing+like+it"),
    "loki-down": (WHO, "/jobs/{elsewhere}/log/loki?rank=0"),
    "loki-wrong": (WHO, "/jobs/{elsewhere}/log/loki?since=soon&rank=x&q=kept"),
    "loki-gap": (WHO, "/jobs/{elsewhere}/#log"),
}
EXPECTED_ERRORS = {"loki-wrong": 422}


def seed(world: factories.World, me: User) -> dict[str, Any]:
    job = factories.job(
        me, world.place, document={"name": "lines elsewhere"}, phase=Phase.SUCCEEDED, ended_at=timezone.now()
    )
    job.refresh_from_db()
    ClusterSource.objects.create(
        cluster=world.place.cluster, kind="loki", url="https://loki.example", state=ClusterSource.State.READY
    )
    at, pod = int(job.created_at.timestamp() * 1e9), pod_name(job.pk, 1)
    lines = [Found(at + n * 10**7, n % 2, pod_name(job.pk, n % 2), f"step {n} of what was lost") for n in range(60)]
    lines.append(Found(at + 10**9, 1, pod, "NCCL " + "very-long-word-without-a-break" * 20, "ERROR"))
    _told(job, {}, Answer("read", lines, next=at + 10**9 + 1, own=3, unsure=True, is_cut=True))
    rest = Found(at + 2 * 10**9, 1, pod, "the last one")
    _told(job, {"after": str(at + 10**9 + 1)}, Answer("read", [rest]))
    _told(job, {"q": "nothing like it"}, Answer("read"))
    _told(job, {"rank": "0"}, Answer("away", text="Loki did not answer (ConnectTimeout): timed out"))
    source, line = streams.Source(1, 1, pod), streams.LogLine
    streams.append(job.topic, streams.LogFrame(source, [line(at, "INFO", 1, None, "before what was rotated away")]))
    gap, after = streams.Gap(at, at + 10**9), [line(at + 10**9, "INFO", 1, None, "after it")]
    streams.append(job.topic, streams.LogFrame(source, after, gap=gap))
    return {"elsewhere": job.pk}


def _told(job: Job, given: dict[str, str], answer: Answer) -> None:
    """Kept for as long as the pages are looked at: no worker is there to read it again."""
    params = QueryDict(mutable=True)
    params.update(given)
    row = json.dumps(elsewhere.look_of(job, params).to_row())
    elsewhere.tell(job.pk, row, answer)
    cache.touch(elsewhere._key(job.pk, row), timedelta(days=1).total_seconds())
