"""Pages of jobs: who sees what, what is kept, what is asked of the services."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.domain import Role
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobPhase, JobRank
from apps.streams import services as streams
from tests import factories
from tests.factories import World
from tests.pages import browser


def text(response: object) -> str:
    return response.content.decode()  # type: ignore[attr-defined]


def running(world: World, **values: object) -> Job:
    now = timezone.now()
    job = factories.job(
        world.scientist, world.place, phase=Phase.RUNNING, running_at=now - timedelta(minutes=5), **values
    )
    for minutes, phase in ((9, Phase.SUBMITTED), (8, Phase.WAITING), (6, Phase.STARTING), (5, Phase.RUNNING)):
        JobPhase.objects.create(job=job, phase=phase, at=now - timedelta(minutes=minutes))
    readings = [("loss", step, 3 - step / 40, now - timedelta(seconds=60 - step)) for step in range(1, 21)]
    streams.record_points(job.topic, 1, readings)
    for rank in range(2):
        JobRank.objects.create(
            job=job, pod_uid=str(uuid.uuid4()), pod_name=f"j-x-worker-{rank}", attempt=1, rank=rank,
            node=f"gpu-000{rank + 1}", phase="Running", started_at=now - timedelta(minutes=5),
        )  # fmt: skip
    return job


def test_the_list_shows_a_row_for_each_job_in_five_queries(world: World) -> None:
    for number in range(12):
        running(world, document={"name": f"run {number}"})
    client = browser(world.people[Role.VIEWER])
    client.get(reverse("jobs:list"))
    with CaptureQueriesContext(
        connection,
    ) as few:
        page = client.get(reverse("jobs:list"))
    assert text(page).count('<tr id="job-') == 12
    assert "20 of 40" in text(page)
    about_jobs = [q["sql"] for q in few.captured_queries if "jobs_job" in q["sql"] or "streams_point" in q["sql"]]
    assert len(about_jobs) == 2, about_jobs
    assert len(few) <= 6, [q["sql"][:90] for q in few.captured_queries]
