"""Curves by REST and by command, and points that a job sends itself."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client

from apps.accounts import services as accounts
from apps.audit.models import Entry
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job
from apps.streams import services as streams
from apps.streams.domain.packed import NARROW
from apps.streams.models import Point
from tests import factories
from tests.factories import World
from tests.pages import browser

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)


@pytest.fixture
def job(world: World) -> Job:
    return factories.job(world.scientist, world.place, phase=Phase.RUNNING, attempt=2)


def record(job: Job, attempt: int, *values: float, series: str = "loss") -> None:
    streams.record_points(job.topic, attempt, [(series, step, value, NOW) for step, value in enumerate(values)])


def test_a_stretch_of_a_curve_in_columns(world: World, job: Job) -> None:
    record(job, 1, *([1.0] * 500), 9.0, *([1.0] * 499))
    client = browser(world.scientist)
    told = client.get(f"/api/v1/jobs/{job.pk}/points?from=100&to=899&width=8").json()["attempts"][0]
    assert dict(zip(told["steps"], told["values"], strict=True))[500] == 9.0
    assert (told["steps"][0], told["steps"][-1], told["total"]) == (100, 899, 1000)
    assert len(told["steps"]) <= 4 * 8
    for bad in ("from=-1", "to=x", "width=0", "width=10001", "from=9223372036854775808"):
        answer = client.get(f"/api/v1/jobs/{job.pk}/points?{bad}")
        assert (answer.status_code, list(answer.json()["errors"])) == (400, [bad.partition("=")[0]])


def test_a_script_takes_columns_as_bytes(world: World, job: Job) -> None:
    record(job, 1, 3.0, math.nan, 1.0, math.inf)
    answer = browser(world.scientist).get(
        f"/api/v1/jobs/{job.pk}/points?width=1", headers={"Accept": "application/octet-stream"}
    )
    length = int.from_bytes(answer.content[:4], "little")
    head = json.loads(answer.content[4 : 4 + length])
    assert head == {
        "start": 0,
        "stop": 3,
        "width": 1,
        "attempts": [{"attempt": 1, "total": 4, "columns": 1, "wide": False}],
    }
    (column,) = np.frombuffer(answer.content[4 + length :], dtype=NARROW)
    assert column["value"].tolist() == [3.0, 1.0, 3.0, math.inf]
    assert (int(column["first"]), column["after"].tolist(), float(column["mean"]), int(column["odd"])) == (
        0,
        [2, 0, 3],
        2.0,
        3,
    )


def test_every_point_as_a_table(world: World, job: Job) -> None:
    record(job, 1, 3.25, math.nan)
    record(job, 2, 1e-9, series="learning_rate")
    client = browser(world.scientist)
    answer = client.get(f"/api/v1/jobs/{job.pk}/points.csv")
    rows = list(csv.reader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert rows[1:] == [
        ["learning_rate", "2", "0", "1e-09", NOW.isoformat(), "log"],
        ["loss", "1", "0", "3.25", NOW.isoformat(), "log"],
        ["loss", "1", "1", "nan", NOW.isoformat(), "log"],
    ]
    one = client.get(f"/api/v1/jobs/{job.pk}/points.csv?series=loss&from=1&to=1")
    assert b"".join(one.streaming_content).count(b"\n") == 2
    known = client.get(f"/api/v1/jobs/{job.pk}/series").json()
    assert [(one["name"], one["title"], one["attempts"], one["points"]) for one in known] == [
        ("loss", "Loss", [1], 2), ("learning_rate", "Learning rate", [2], 1),
    ]  # fmt: skip


def test_the_command_says_the_same(world: World, job: Job) -> None:
    record(job, 1, 3.25, math.nan)

    def told(*options: str) -> str:
        out = io.StringIO()
        call_command("points", job.pk, "--as", world.scientist.sub, *options, stdout=out)
        return out.getvalue()

    assert told().splitlines()[2] == f"loss,1,1,nan,{NOW.isoformat()},log"
    by_rest = browser(world.scientist).get(f"/api/v1/jobs/{job.pk}/points?width=5").json()
    assert json.loads(told("--json", "--width", "5")) == by_rest
    assert told("--list") == "loss  2 points  attempts 1\n"


def push(client: Client, job: Job, body: dict[str, Any], **headers: str) -> Any:
    return client.post(f"/api/v1/jobs/{job.pk}/points", body, content_type="application/json", headers=headers)


def test_points_are_pushed_once_and_marked(world: World, job: Job, django_capture_on_commit_callbacks: Any) -> None:
    browser(world.scientist)  # a token counts only while its owner has signed in
    clear = accounts.create_token(world.scientist.actor(), name="train.py", days=1, read_only=False)
    bearer = {"Authorization": f"Bearer {clear}"}
    body = {"points": [{"step": 7, "values": {"loss": 2.5, "accuracy": "NaN"}}, {"step": 8, "values": {"loss": 2.25}}]}
    with django_capture_on_commit_callbacks(execute=True):
        assert push(Client(), job, body, **bearer).json() == {"stored": 3, "known": 0}
    assert push(Client(), job, body, **bearer).json() == {"stored": 0, "known": 3}
    assert set(Point.objects.values_list("attempt", "series", "step", "origin")) == {
        (2, "loss", 7, 1), (2, "accuracy", 7, 1), (2, "loss", 8, 1),
    }  # fmt: skip
    assert Entry.objects.filter(action="job.push-points").count() == 1
    record(job, 2, 2.5)
    known = {one["name"]: one for one in Client().get(f"/api/v1/jobs/{job.pk}/series", headers=bearer).json()}
    assert known["loss"]["origins"] == ["log", "pushed"]
    assert known["loss"]["source"] == "read from the log · sent by the job"
    assert known["accuracy"]["source"] == "sent by the job"
    (frame,) = [json.loads(entry.body) for entry in streams.tail(job.topic, 10) if entry.kind == "points"][-1:]
    assert ["loss", 8, 2.25] in [point[:3] for point in frame["points"]]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"points": []},
        {"points": [{"step": -1, "values": {"loss": 1}}]},
        {"points": [{"step": 1, "values": {}}]},
        {"points": [{"step": 1, "values": {"loss": "2.5"}}]},
        {"points": [{"step": 1, "values": {"loss": True}}]},
        {"points": [{"step": 1, "values": {"<b>": 1}}]},
        {"points": [{"step": 1, "values": {"loss": 1}}], "attempt": 3},
        {"points": [{"step": 1, "values": {"loss": 1}}] * 1001},
    ],
)
def test_points_that_make_no_sense_are_refused(world: World, job: Job, body: dict[str, Any]) -> None:
    assert push(browser(world.scientist), job, body).status_code == 400
    assert not Point.objects.exists()


def test_a_job_that_has_ended_takes_no_points(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.SUCCEEDED, ended_at=NOW)
    assert push(browser(world.scientist), job, {"points": [{"step": 1, "values": {"loss": 1}}]}).status_code == 409
