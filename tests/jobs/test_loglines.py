"""Reading training logs."""

from __future__ import annotations

import json
import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from apps.clusters.domain.lineformat import read
from apps.jobs.domain.figures import figures

CASES = Path(__file__).parents[1] / "cases" / "logs"


def test_the_platforms_own_format_gives_the_recorded_points_and_levels() -> None:
    expected = json.loads((CASES / "maas_platform.expected.json").read_text())
    lines = [read(raw) for raw in (CASES / "maas_platform.log").read_text().splitlines()]
    told = [(line.step, figures(line.text)) for line in lines if line.step is not None]
    points = [
        {"step": step, "loss": found["loss"], "lr": found["learning_rate"]} for step, found in told if "loss" in found
    ]
    for point, right in zip(points, expected["points"], strict=True):
        assert point["step"] == right["step"]
        assert point["lr"] == right["lr"]
        assert point["loss"] == right["loss"] or (right["loss"] == "nan" and math.isnan(point["loss"]))
    for level, count in expected["levels"].items():
        assert sum(line.level == level for line in lines) == count


def test_brackets_inside_a_message_stay() -> None:
    line = read("[2026-03-02 08:00:00.125] [INFO] [job] [Rank-3] [Step-7] [shapes [2, 3] and [4]]")
    assert (line.rank, line.step, line.text) == (3, 7, "[shapes [2, 3] and [4]]")


def test_a_line_of_another_form_is_shown_as_it_is_with_its_level() -> None:
    line = read("WARNING: something is odd, loss: 3")
    assert (line.text, line.level, line.step) == ("WARNING: something is odd, loss: 3", "WARN", None)


def test_controls_of_terminals_and_of_direction_are_taken_out() -> None:
    assert read("\x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link\u202e!").text == "red link!"


def test_hostile_lines_are_read_and_kept() -> None:
    for raw in (CASES / "hostile.log").read_bytes().decode("utf-8", "replace").splitlines():
        assert "\x1b" not in read(raw).text


@given(st.text(max_size=300))
def test_no_line_is_an_error(raw: str) -> None:
    line = read(raw)
    figures(line.text)
    assert not any(c in line.text for c in "\x1b\x00\u202e")
