"""Figures of logs that other platforms were reported to read wrong: as numbers, as JSON, as a curve."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from django.urls import reverse

from apps.clusters.domain.lineformat import read
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.traininglog import LogReader
from apps.jobs.domain.traininglog.readers import read_pattern
from apps.jobs.models import Job
from apps.jobs.reconcile.losswatch import watch_loss
from apps.streams import services as streams
from apps.streams.domain.columns import columns
from tests import factories
from tests.factories import World
from tests.pages import browser

NOW = datetime(2026, 11, 30, 8, tzinfo=UTC)


def values(line: str) -> dict[str, float]:
    return dict(LogReader().read(read(line)).values)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("-7.539e-05", -7.539e-05),
        ("1.2e+32", 1.2e32),
        ("1.5E-1", 0.15),
        (".98", 0.98),
        ("3.", 3.0),
        ("1,234.5", 1234.5),
    ],
)
def test_figures_are_read_as_people_write_them(written: str, value: float) -> None:
    """katib#1702, #1086: figures with an exponent were cut at the e, or not found."""
    assert values(f"step: 7  loss: {written}  lr: 1e-4") == {"loss": value, "learning_rate": 1e-4}
    assert values(f'{{"step": 7, "loss": "{written}"}}').get("loss", value) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [("nan", math.nan), ("NaN", math.nan), ("NAN", math.nan), ("-nan", math.nan), ("1.#QNAN0", math.nan), ("inf", math.inf),
     ("-inf", -math.inf), ("Infinity", math.inf), ("1.#INF", math.inf), ("-1.#INF00", -math.inf)],
)  # fmt: skip
def test_what_is_no_number_is_a_value_by_all_its_names(written: str, value: float) -> None:
    """katib#2723, #1227: a loss of nan was kept as an empty text, and the step was lost."""
    found = LogReader().read(read(f"step: 7  loss: {written}"))
    assert found.step == 7
    assert found.values["loss"] == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    "line", ["step: 7  loss: ", "step: 7  loss=", "step: 7 | loss: none", "step: 7  loss: 1.#JOKE"]
)
def test_a_name_without_a_figure_is_no_point(line: str) -> None:
    """katib#1227: an empty value ended the collector."""
    assert "loss" not in values(line)


def test_every_frameworks_words_for_a_loss_are_read_and_ones_own_by_a_reader() -> None:
    """katib#1416: people print what they like, and expected their val_loss to be seen."""
    reader = LogReader()
    lines = {
        "{'loss': 2.4, 'step': 3, 'epoch': 0.1}": 2.4,
        " iteration        3/     100 | consumed samples:  10 | lm loss: 2.4E+00 | grad norm: 0.231 |": 2.4,
        "[2026-03-02 08:00:00.125] [INFO] [job] [Rank-0] [Step-1000] [Loss: 2.456, LR: 1.5e-4]": 2.456,
        "step: 10  loss = 2.4": 2.4,
    }
    for line, loss in lines.items():
        assert reader.read(read(line)).values.get("loss") == loss, line
    own = "epoch 3 it 1200 val_loss: 0.89"
    assert not reader.read(read(own)).values
    mine = LogReader(lambda: [read_pattern(r"epoch \d+ it (?P<step>\d+) val_loss: (?P<eval_loss>\S+)")])
    found = mine.read(read(own))
    assert (found.step, dict(found.values)) == (1200, {"eval_loss": 0.89})


@pytest.mark.django_db
def test_no_answer_holds_a_bare_nan(world: World) -> None:
    """determined#9440, nni#2278, fasttrackml#435: JSON with a bare NaN or Infinity in it, and pages stayed blank."""
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING)
    figures = [("loss", n, value, NOW) for n, value in enumerate((2.0, math.nan, math.inf, -math.inf))]
    streams.record_points(job.topic, 1, [*figures, ("grad_norm", 0, math.nan, NOW)])
    watch_loss(job.pk)
    client = browser(world.scientist)

    def strict(path: str) -> Any:
        answer = client.get(path)
        assert answer.status_code == 200, path
        return json.loads(answer.content, parse_constant=pytest.fail)

    told = strict(f"/api/v1/jobs/{job.pk}/points?series=loss")["attempts"][0]
    assert told["values"] == [2.0, "NaN", "Infinity", "-Infinity"]
    for path in ("", "/series", "/watch", "/points?series=grad_norm"):
        strict(f"/api/v1/jobs/{job.pk}{path}")
    strict("/api/v1/jobs")
    for tab in ("watch", "incidents"):
        page = client.get(reverse("jobs:detail", args=[job.pk]), {"tab": tab}).content.decode()
        assert "NaN" in page


def test_two_million_points_are_a_picture_of_some_hundred_columns_with_every_spike() -> None:
    """mlflow#5779, #773, #11444, #11660: 100,000 points froze the page; sampling them hid the spikes."""
    steps = np.arange(2_000_000, dtype=np.int64)
    losses = 2.0 + np.random.default_rng(3).normal(0, 0.01, len(steps))
    spikes = [1, 777_777, 1_999_998]
    losses[spikes] = (900.0, -900.0, 901.0)
    cut = columns(steps, losses, 0, len(steps) - 1, 700)
    assert len(cut.number) <= 700
    drawn = {*cut.first.tolist(), *cut.low.tolist(), *cut.high.tolist(), *cut.last.tolist()}
    assert {*spikes, 0, len(steps) - 1} <= drawn


@pytest.mark.django_db
def test_a_step_made_again_stands_in_both_attempts_and_the_newest_counts(world: World) -> None:
    """A run that goes on from a checkpoint makes 900 to 1000 twice; neither attempt may hide the other's figures."""
    job: Job = factories.job(world.scientist, world.place, phase=Phase.RUNNING, attempt=2)
    streams.record_points(job.topic, 1, [("loss", step, 3.0, NOW) for step in range(1001)])
    streams.record_points(job.topic, 2, [("loss", step, 2.0, NOW) for step in range(900, 1001)])
    told = browser(world.scientist).get(f"/api/v1/jobs/{job.pk}/points?series=loss&from=900&to=1000").json()
    assert [(one["attempt"], set(one["values"])) for one in told["attempts"]] == [(1, {3.0}), (2, {2.0})]
    assert streams.latest([job.topic], "loss")[job.topic].value == 2.0
