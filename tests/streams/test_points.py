"""Curves: stored once, thinned without losing what matters."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.streams import services
from apps.streams.domain.downsample import ODD_LIMIT, thin
from apps.streams.models import Point

NOW = datetime(2026, 11, 29, tzinfo=UTC)
TOPIC = "job.01TEST"


def record(attempt: int, *values: tuple[int, float], name: str = "loss", topic: str = TOPIC) -> None:
    services.record_points(topic, attempt, [(name, step, value, NOW) for step, value in values])


@pytest.mark.django_db
def test_a_step_told_twice_keeps_its_first_value() -> None:
    record(1, (1, 2.5), (2, 2.0), (1, 9.0))
    record(1, (2, 9.0), (3, 1.5))
    record(2, (2, 1.9))
    assert services.series(TOPIC, "loss") == [
        {"attempt": 1, "steps": [1, 2, 3], "values": [2.5, 2.0, 1.5], "total": 3},
        {"attempt": 2, "steps": [2], "values": [1.9], "total": 1},
    ]
    assert services.series(TOPIC, "nothing") == []
    assert services.series_names(TOPIC) == ["loss"]


@pytest.mark.django_db
def test_values_that_are_no_numbers_reach_the_page() -> None:
    record(1, (1, 1.0), (2, math.nan), (3, math.inf), (4, -math.inf), (2**63 - 1, 0.5))
    record(1, (-1, 0.0), (2**63, 0.0))  # no step
    (curve,) = services.series(TOPIC, "loss")
    assert curve["values"] == [1.0, "NaN", "Infinity", "-Infinity", 0.5]
    assert json.loads(json.dumps(curve, allow_nan=False)) == curve


@pytest.mark.django_db
def test_the_newest_point_of_many_topics_is_one_query(django_assert_num_queries: object) -> None:
    record(1, (10, 3.0), (20, 2.0))
    record(2, (15, 1.0))
    record(1, (7, 7.0), topic="job.02TEST")
    record(1, (99, 0.1), name="lr", topic="job.03TEST")
    with django_assert_num_queries(1):  # type: ignore[operator]
        latest = services.latest([TOPIC, "job.02TEST", "job.03TEST", "job.none"], "loss")
    assert {topic: (p.attempt, p.step, p.value) for topic, p in latest.items()} == {
        TOPIC: (2, 15, 1.0), "job.02TEST": (1, 7, 7.0),
    }  # fmt: skip


@pytest.mark.django_db
def test_a_long_curve_keeps_its_spikes_and_its_ends() -> None:
    values = [math.sin(step / 50) for step in range(20_000)]
    values[7_777], values[12_345] = 99.0, math.nan
    Point.objects.bulk_create(
        Point(topic=TOPIC, series="loss", attempt=1, step=s, value=v, at=NOW) for s, v in enumerate(values)
    )
    (curve,) = services.series(TOPIC, "loss", width=500)
    assert len(curve["steps"]) <= 501
    assert curve["total"] == 20_000
    kept = dict(zip(curve["steps"], curve["values"], strict=True))
    assert kept[7_777] == 99.0
    assert kept[12_345] == "NaN"
    assert {0, 19_999} <= kept.keys()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=0, max_size=4000),
    st.integers(min_value=3, max_value=300),
)
def test_thinning_never_invents_and_keeps_extremes(values: list[float], width: int) -> None:
    steps, readings = np.arange(len(values), dtype=np.int64), np.array(values, dtype=np.float64)
    kept = thin(steps, readings, width)
    assert list(kept) == sorted(set(kept.tolist()))
    finite = np.isfinite(readings)
    chosen = readings[kept]
    assert np.isfinite(chosen).sum() <= max(width, 0) or finite.sum() <= width
    assert (~np.isfinite(chosen)).sum() == min((~finite).sum(), ODD_LIMIT)
    if finite.any() and width >= 10:
        assert kept[np.isfinite(chosen)][0] == np.flatnonzero(finite)[0]
        assert kept[np.isfinite(chosen)][-1] == np.flatnonzero(finite)[-1]
    assert np.array_equal(kept, thin(steps, readings, width))
