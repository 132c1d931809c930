"""Curves: stored once, drawn without losing what matters."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest

from apps.streams import services
from apps.streams.models import Curve, Point
from apps.streams.services import Origin, Stretch, curves

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
    """determined#9440, nni#2278."""
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
    """mlflow#11444, #11660."""
    values = [math.sin(step / 50) for step in range(20_000)]
    values[7_777], values[12_345] = 99.0, math.nan
    record(1, *enumerate(values))
    (curve,) = services.series(TOPIC, "loss", Stretch(width=500))
    assert len(curve["steps"]) <= 4 * 500 + 1
    assert curve["total"] == 20_000
    kept = dict(zip(curve["steps"], curve["values"], strict=True))
    assert kept[7_777] == 99.0
    assert kept[12_345] == "NaN"
    assert {0, 19_999} <= kept.keys()
    (part,) = services.series(TOPIC, "loss", Stretch(7_700, 7_799, 500))
    assert part["steps"] == list(range(7_700, 7_800))
    assert part["values"][77] == 99.0


@pytest.mark.django_db
def test_a_curve_that_is_kept_in_memory_is_as_the_database_has_it_now() -> None:
    def seen() -> dict[int, list[float]]:
        return {curve["attempt"]: curve["values"] for curve in services.series(TOPIC, "loss")}

    record(1, (1, 1.0), (2, 2.0))
    assert seen() == {1: [1.0, 2.0]}
    record(1, (3, 3.0))
    assert seen() == {1: [1.0, 2.0, 3.0]}
    record(1, (0, 0.5), (4, 4.0))  # one of them late
    assert seen() == {1: [0.5, 1.0, 2.0, 3.0, 4.0]}
    record(2, (1, 9.0))
    record(1, *((step, 1.0) for step in range(5, 600)))
    assert {attempt: len(values) for attempt, values in seen().items()} == {1: 600, 2: 1}
    Point.objects.all().delete()
    Curve.objects.all().delete()
    record(1, (1, 7.0), (2, 8.0))
    assert seen() == {1: [7.0, 8.0]}


@pytest.mark.django_db
def test_what_was_read_from_a_log_takes_the_place_of_what_was_pushed() -> None:
    services.record_points(TOPIC, 1, [("loss", 1, 0.1, NOW), ("loss", 2, 0.2, NOW)], origin=Origin.PUSHED)
    assert services.series(TOPIC, "loss")[0]["values"] == [0.1, 0.2]
    record(1, (2, math.nan), (3, 3.0))
    services.record_points(TOPIC, 1, [("loss", 2, 0.2, NOW), ("loss", 3, 0.3, NOW)], origin=Origin.PUSHED)
    assert services.series(TOPIC, "loss")[0]["values"] == [0.1, "NaN", 3.0]
    assert list(Point.objects.filter(origin=Origin.PUSHED).values_list("step", flat=True)) == [1]


@pytest.mark.django_db
@pytest.mark.parametrize("count", [0, 9, 10, 11, 20])
def test_a_long_curve_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(curves, "CHUNK", 10)
    record(1, (2**40, -math.inf), *((3 * step, step / 7) for step in range(count)))
    seen = curves.curves_of(TOPIC, "loss")[1]
    assert seen.steps.tolist() == [*range(0, 3 * count, 3), 2**40]
    assert seen.values.tolist() == [*(step / 7 for step in range(count)), -math.inf]


@pytest.mark.django_db
def test_a_picture_of_a_growing_curve_is_as_one_drawn_anew() -> None:
    def drawn(stretch: Stretch) -> bytes:
        kept = services.packed(TOPIC, "loss", stretch)
        assert services.packed(TOPIC, "loss", stretch) == kept
        curves._kept.clear()
        assert services.packed(TOPIC, "loss", stretch) == kept
        return kept

    stretches = [Stretch(), Stretch(width=7), Stretch(5, 4000, 50), Stretch(900, 5000, 3), Stretch(0, 6000, 6001)]
    record(1, *((step, float(step % 13)) for step in range(1000)))
    seen = {stretch: drawn(stretch) for stretch in stretches}
    for more in ([1000], [1001, 1500], [1502, 3999], [1501], range(4000, 4300)):  # one of them late
        for stretch in stretches:
            services.packed(TOPIC, "loss", stretch)
        record(1, *((step, math.nan if step % 5 == 1 else float(step % 17)) for step in more))
        again = {stretch: services.packed(TOPIC, "loss", stretch) for stretch in stretches}
        assert again == {stretch: drawn(stretch) for stretch in stretches}
        assert again != seen
        seen = again


@pytest.mark.django_db
def test_what_is_kept_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "KEPT_BYTES", 5000)
    for number in range(8):
        record(1, *((step, 1.0) for step in range(100)), topic=f"job.{number}")
        services.series(f"job.{number}", "loss")
    assert sum(kept.nbytes for kept in curves._kept.values()) <= 5000
    assert len(services.series("job.0", "loss")[0]["steps"]) == 100
