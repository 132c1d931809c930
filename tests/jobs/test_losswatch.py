"""The loss watch's judgement: plain figures in, a finding out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.clusters import services as clusters
from apps.jobs.domain.losswatch import PRESETS, Memory, Point, Rules, Snapshot, State, follow, look, needs_all
from apps.jobs.domain.traininglog import LogReader

NAN, INF = math.nan, math.inf
WATCHDOG, SPIKE, THREEFOLD = PRESETS["watchdog"], PRESETS["spike"], PRESETS["threefold"]


def judged(rules: Rules, losses: Sequence[float], **series: Sequence[float]) -> Memory:
    """The losses of steps 0, 1, 2, …, and other series beside them."""
    columns = {"loss": losses, **series}
    steps = [(step, {name: values[step] for name, values in columns.items()}) for step in range(len(losses))]
    return look(rules, Memory(), steps)


def found(memory: Memory) -> tuple[str, int, int, int | None]:
    """Rule, step, first abnormal step, last good one."""
    assert memory.verdict is not None
    return memory.verdict.rule, memory.verdict.step, memory.verdict.since, memory.verdict.good


# --- divergence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize(("value", "rule"), [(NAN, "nan"), (INF, "infinite"), (-INF, "infinite")])
def test_a_loss_that_is_no_number_trips_at_once_though_every_comparison_with_it_fails(
    rules: Rules, value: float, rule: str
) -> None:
    assert found(judged(rules, [2.0, 1.9, value])) == (rule, 2, 2, 1)
    assert found(judged(rules, [value])) == (rule, 0, 0, None)


def test_the_curves_of_the_design_normal_and_divergent() -> None:
    """12.5, 8.3, 5.1, 3.2, 2.1, 1.5 learns; 125 after 5.1 is 24.5 times as much, not 25."""
    assert judged(WATCHDOG, [12.5, 8.3, 5.1, 3.2, 2.1, 1.5]).state is State.OK
    assert found(judged(WATCHDOG, [12.5, 8.3, 5.1, 125.0, INF, NAN])) == ("limit", 3, 3, 2)
    assert found(judged(SPIKE, [12.5, 8.3, 5.1, 125.0])) == ("leap", 3, 3, 2)
    assert judged(THREEFOLD, [12.5, 8.3, 5.1, 125.0]).state is State.SUSPECT
    assert found(judged(THREEFOLD, [12.5, 8.3, 5.1, 125.0, INF])) == ("infinite", 4, 3, 2)


def test_three_tenfold_losses_are_held_against_the_last_good_ones_and_not_against_each_other() -> None:
    """Each over ten times the one before would mean a thousandfold, long after any sensible limit."""
    assert found(judged(THREEFOLD, [2.0] * 20 + [25.0, 26.0, 27.0])) == ("leap", 22, 20, 19)


def test_abnormal_losses_do_not_become_what_later_ones_are_held_against() -> None:
    calm = [2.0 + 0.01 * (step % 3) for step in range(150)]
    assert found(judged(WATCHDOG, [*calm, 2.8, 2.8, 2.8])) == ("sigma", 152, 150, 149)
    assert judged(WATCHDOG, [*calm, 2.8, 2.8, 2.0, 2.8, 2.8, 2.0]).state is State.OK


def test_mean_and_deviation_take_a_hundred_losses_and_a_tiny_deviation_alarms_nobody() -> None:
    assert judged(WATCHDOG, [2.0] * 97 + [2.8] * 3).state is State.OK
    assert judged(WATCHDOG, [2.0 + 1e-9 * (step % 2) for step in range(150)] + [2.05] * 20).state is State.OK


def test_a_loss_of_another_scale_is_not_held_against_the_limit_before_it_was_below_it() -> None:
    assert judged(WATCHDOG, [5000.0, 4000.0, 3500.0, 3400.0]).state is State.OK
    assert found(judged(WATCHDOG, [5000.0, 900.0, 80.0, 101.0])) == ("limit", 3, 3, 2)


def test_a_gradient_that_is_no_number_is_borne_once_and_not_three_times() -> None:
    """With a dynamic loss scale one such step is skipped and all goes well."""
    norms = [1.0, 1.0, NAN, 1.0, INF, 1.0, NAN, NAN, NAN]
    assert judged(WATCHDOG, [2.0] * 8, grad_norm=norms[:8]).state is State.SUSPECT
    assert found(judged(WATCHDOG, [2.0] * 9, grad_norm=norms)) == ("gradient", 8, 6, 5)


def test_a_loss_of_exactly_zero_beside_a_gradient_that_is_no_number_trips_at_once() -> None:
    assert found(judged(THREEFOLD, [2.0, 1.9, 0.0], grad_norm=[1.0, 1.0, NAN])) == ("zero-nan", 2, 2, 1)
    assert judged(THREEFOLD, [2.0, 1.9, 0.0], grad_norm=[1.0, 1.0, 1.0]).state is State.OK


def test_losses_below_zero_leap_by_no_factor() -> None:
    assert judged(SPIKE, [-2.0, -1.0, -0.001, 5.0]).state is State.OK


def test_losses_of_any_finite_size_are_borne() -> None:
    assert judged(WATCHDOG, [1.7e308] * 99 + [1.7e308, 1.6e308, 1.0]).verdict is None


# --- alerts: told, but no divergence ----------------------------------------------------------------------------------


def alerts(memory: Memory) -> list[tuple[str, int]]:
    assert memory.verdict is None
    return [(alert.rule, alert.since) for alert in memory.alerts]


def test_a_dead_flat_loss_is_told_after_a_hundred_equal_ones_and_over_with_the_next() -> None:
    assert alerts(judged(WATCHDOG, [3.0, *[2.5] * 99])) == []
    flat = judged(WATCHDOG, [3.0, *[2.5] * 100])
    assert alerts(flat) == [("flat", 1)]
    assert flat.state is State.SUSPECT
    assert judged(WATCHDOG, [3.0, *[2.5] * 100, 2.4]).state is State.OK


def test_a_throughput_that_collapses_is_held_against_what_its_first_steps_predict() -> None:
    pace = [1000.0] * 25 + [240.0] * 3
    losses = [2.0 - step / 1000 for step in range(40)]
    assert alerts(judged(WATCHDOG, losses[:27], tokens_per_second=pace[:27])) == []
    slow = judged(WATCHDOG, losses[:28], tokens_per_second=pace)
    assert alerts(slow) == [("slow", 25)]
    assert slow.alerts[0].against == 1000
    assert alerts(judged(WATCHDOG, losses[:29], tokens_per_second=[*pace, 900.0])) == []


def test_a_throughput_is_held_against_what_jobs_alike_predict_though_it_never_was_better() -> None:
    losses, rules = [2.0 - step / 1000 for step in range(30)], replace(WATCHDOG, pace=1000.0)
    assert alerts(judged(rules, losses[:22], tokens_per_second=[240.0] * 22)) == []
    behind = judged(rules, losses[:23], tokens_per_second=[240.0] * 23)
    assert alerts(behind) == [("behind", 20)]
    assert behind.alerts[0].against == 1000
    assert alerts(judged(rules, losses, tokens_per_second=[260.0] * 30)) == []


def test_iterations_that_megatron_skips_for_their_nan_are_abnormal_though_it_prints_no_loss_of_them() -> None:
    reader, line = LogReader(), " iteration {n}/ 100 | {loss}loss scale: 1.0 | number of nan iterations: {bad} |"
    memory = Memory()
    for n, bad in enumerate((0, 0, 1, 0, 1, 2, 1)):
        told = reader.read(
            next(clusters.read_lines([line.format(n=n, loss="" if bad else "lm loss: 2.5E+00 | ", bad=bad).encode()]))
        )
        memory = look(WATCHDOG, memory, [(n, {**told.values, **told.marks})])
    assert found(memory) == ("nan-iterations", 6, 4, 3)


def test_an_overflow_storm_is_told_and_the_falls_of_a_scale_that_settles_are_not() -> None:
    """Megatron's begins at 2^32 and falls step by step at first; bf16 prints 1.0 for ever."""
    settling = [2.0**32 / 2**step for step in range(16)]
    losses = [2.0 - step / 1000 for step in range(200)]
    settled = settling + [65536.0] * 100
    assert alerts(judged(WATCHDOG, losses[:116], loss_scale=settled)) == []
    storm = settled + [65536.0 / 2**step for step in range(1, 6)]
    assert alerts(judged(WATCHDOG, losses[: len(storm)], loss_scale=storm)) == [("overflow", 116)]
    assert alerts(judged(WATCHDOG, losses, loss_scale=[1.0] * 200)) == []


def test_a_run_that_skips_every_other_step_is_an_overflow_storm() -> None:
    """DeepSpeed prints how many steps it has skipped so far."""
    reader = LogReader()
    points = []
    for number in range(7):
        step = 10 * (number + 1)
        line = f"[2026-04-28 06:51:46,878] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped={8 * number},"
        told = reader.read(next(iter(clusters.read_lines([f"{line} lr=[9.65e-06], mom=[(0.9, 0.95)]\n".encode()]))))
        assert told.step == step
        points += [Point(1, step, name, value) for name, value in {**told.values, **told.marks}.items()]
    memory, _snapshot = follow(WATCHDOG, Snapshot(), points)
    assert alerts(memory) == [("overflow", 20)]


def test_iterations_that_megatron_skips_are_an_overflow_storm() -> None:
    """It tells those since the line before, not all so far."""

    def told(*skips: int) -> Memory:
        reader, points = LogReader(), list[Point]()
        for number, skipped in enumerate(skips, start=1):
            text = (
                f" iteration {10 * number}/ 25000 | lm loss: 2.{number} | number of skipped iterations: {skipped:3} |\n"
            )
            found = reader.read(next(iter(clusters.read_lines([text.encode()]))))
            points += [Point(1, found.step or 0, *pair) for pair in {**found.values, **found.marks}.items()]
        return follow(WATCHDOG, Snapshot(), points)[0]

    assert alerts(told(*[0] * 3, *[8] * 5)) == [("overflow", 40)]
    assert alerts(told(*[1] * 30)) == []


# --- what must change nothing -----------------------------------------------------------------------------------------

losses = st.one_of(
    st.floats(0.5, 3), st.floats(0.5, 3), st.floats(0.5, 3), st.sampled_from([0.0, 40.0, 1e5, NAN, INF, -INF])
)
figures = st.tuples(losses, st.sampled_from([1.0, 1.0, 1.0, NAN]))
runs = st.lists(figures, min_size=1, max_size=150)


def points_of(run: Sequence[tuple[float, float]], attempt: int = 1, first: int = 0) -> list[Point]:
    """Two points for each step: loss and norm of the gradient."""
    return [
        Point(attempt, step, series, value)
        for step, (loss, norm) in enumerate(run[first:], start=first)
        for series, value in (("loss", loss), ("grad_norm", norm))
    ]


def whole(rules: Rules, run: Sequence[tuple[float, float]]) -> str:
    return told(look(rules, Memory(), [(n, {"loss": one[0], "grad_norm": one[1]}) for n, one in enumerate(run)]))


def told(memory: Memory) -> str:
    """All that is remembered, as it is stored: what is no number equals itself there."""
    return json.dumps(memory.dump(), sort_keys=True)


@given(runs, st.sampled_from(sorted(PRESETS)), st.randoms(use_true_random=False))
def test_the_order_in_which_points_arrive_changes_nothing(run, preset, random) -> None:  # type: ignore[no-untyped-def]
    points = points_of(run)
    random.shuffle(points)
    memory, _snapshot = follow(PRESETS[preset], Snapshot(), points)
    assert told(memory) == whole(PRESETS[preset], run)


@given(runs, st.sampled_from(sorted(PRESETS)), st.lists(st.integers(1, 40), max_size=12))
def test_judged_in_pieces_as_judged_at_once(run, preset, sizes) -> None:  # type: ignore[no-untyped-def]
    """With what is stored between the pieces read back."""
    points, snapshot, memory, known = points_of(run), Snapshot(), Memory(), 0
    for size in [*sizes, len(points)]:
        known += size
        news = [point for point in points[:known] if point.step > snapshot.step]
        memory, snapshot = follow(PRESETS[preset], snapshot, news)
        snapshot = Snapshot(
            snapshot.attempt, snapshot.step, Memory.load(json.loads(json.dumps(snapshot.memory.dump())))
        )
    assert told(memory) == whole(PRESETS[preset], run)


@given(
    runs, st.sampled_from(sorted(PRESETS)), st.lists(st.tuples(st.integers(0, 149), st.integers(0, 149)), max_size=4)
)
def test_restarts_that_rewind_the_step_change_nothing(run, preset, breaks) -> None:  # type: ignore[no-untyped-def]
    """Each attempt breaks somewhere and the next begins at a checkpoint before; the last one goes to the end."""
    points, snapshot, first = [], Snapshot(), 0
    for attempt, (until, back) in enumerate([*breaks, (len(run), 0)], start=1):
        until = max(first + 1, min(until, len(run))) if attempt <= len(breaks) else len(run)
        points += points_of(run[:until], attempt, first)
        news = [p for p in points if p.attempt > snapshot.attempt or p.step > snapshot.step]
        snapshot, news = (Snapshot(), points) if needs_all(snapshot, news) else (snapshot, news)
        memory, snapshot = follow(PRESETS[preset], snapshot, news)
        first = min(back, until, len(run) - 1)
    assert told(memory) == whole(PRESETS[preset], run)


def test_renaming_the_job_or_its_image_changes_nothing() -> None:
    """The figures come from the bytes of the log; what else stands in them counts for nothing."""

    def memory(job: str, image: str) -> Memory:
        lines = [f"Starting {image}"] + [
            f"[2026-03-02 08:00:{n:02}.125] [INFO] [{job}] [Rank-0] [Step-{n}] [Loss: {loss}, LR: 1e-4]"
            for n, loss in enumerate(["2.5", "2.4", "2.3", "41.5", "nan"])
        ]
        reader, points = LogReader(), []
        for line in clusters.read_lines(["\n".join(lines).encode() + b"\n"]):
            told = reader.read(line)
            points += [Point(1, told.step, name, value) for name, value in told.values.items() if told.step is not None]
        return follow(WATCHDOG, Snapshot(), points)[0]

    plain, dressed = memory("train", "maas/charlm:1"), memory("loss-nan-999", "evil/diverged:nan")
    assert found(plain) == found(dressed) == ("nan", 4, 3, 2)
