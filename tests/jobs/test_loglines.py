"""Reading training logs."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from apps.clusters.domain.lineformat import read
from apps.clusters.services import read_lines
from apps.jobs.domain.traininglog import LogReader, Told

CASES = Path(__file__).parents[1] / "cases" / "logs"


def told(*lines: str) -> list[Told]:
    reader = LogReader()
    return [reader.read(read(line)) for line in lines]


def parse_log(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("parse_log", *arguments, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue(), parse_constant=pytest.fail)
    return found


@pytest.mark.parametrize("case", sorted(CASES.glob("*.log")), ids=lambda path: path.stem)
def test_each_frameworks_log_gives_the_recorded_points_and_events(case: Path) -> None:
    right = json.loads(case.with_suffix(".expected.json").read_text())
    found = parse_log(str(case))
    assert [
        {name: point.get(name) for name in expected}
        for point, expected in zip(found["points"], right["points"], strict=True)
    ] == right["points"]
    assert sorted(found["events"]) == sorted(right["events"])
    assert found["lines"] == right.get("lines", found["lines"])
    for level, count in right.get("levels", {}).items():
        assert found["levels"][level] == count
    for name, values in right.get("not", {}).items():
        assert not {point.get(name) for point in found["points"]} & set(values)


@pytest.mark.parametrize(
    "line",
    [
        "The loss: 0.3 was better than last time",
        "WARNING: something is odd, loss: 3",
        "step 5 of the plan, loss: 2",
        "step: 5 is where loss: 2 was seen",
        "[2026-03-02 08:00:00.125] [INFO] [job] [Rank-0] [Step-7] [Saved; best loss: 2.3]",
        "[2026-03-02 08:00:00.125] [INFO] [job] [Rank-0] [Step-7] [GPU Temp: 84°C, approaching threshold]",
        "{'epoch': 1.0, 'loss': 2.3}",
        "config = {'step': 3, 'loss': 'mse'}",
        "{'step': 3.5, 'loss': 2.3}",
        "{'step': 3, 'model': {'loss': 2.3}}",
        "loss: 2.3",
        "epoch: 2 step: 100, loss is 2.3",
    ],
)
def test_a_line_that_says_no_figure_of_a_step_is_no_point(line: str) -> None:
    (found,) = told(line)
    assert found.step is None or not found.values


def test_a_line_of_json_is_a_point_with_what_is_not_finite() -> None:
    (found,) = told('{"step": 12, "loss": NaN, "lr": 1e-4, "grad_norm": Infinity, "stage": "warm up"}')
    assert (found.step, sorted(found.values)) == (12, ["grad_norm", "learning_rate", "loss"])
    assert found.events == ("loss_nan", "grad_norm_inf")


def test_an_epoch_has_as_many_steps_as_its_time_says() -> None:
    """LossMonitor may print every hundredth of 250 steps."""
    lines = (
        "epoch: 1 step: 200, loss is 2",
        "epoch time: 5000.0 ms, per step time: 20.0 ms",
        "epoch: 2 step: 100, loss is 1",
    )
    assert [one.step for one in told(*lines)] == [200, None, 350]


def test_the_first_of_rays_workers_speaks_for_all() -> None:
    lines = (
        "(RayTrainWorker pid=7, ip=10.0.0.2) {'loss': 2.0, 'step': 1}",
        "(RayTrainWorker pid=8, ip=10.0.0.3) {'loss': 3.0, 'step': 1}",
    )
    assert [dict(one.values) for one in told(*lines)] == [{"loss": 2.0}, {}]


def test_an_overlong_line_of_pairs_is_read_in_no_time_to_speak_of() -> None:
    """Patterns that could be cut in many ways would never end here."""
    for line in (
        "step=1 " + "a=1," * 1000 + "!",
        "step=1 " + "a=1 |" * 800 + "!",
        "[" * 4000,
        "a " * 2000,
        " - a" * 1000,
    ):
        told(line, f"[2026-03-02 08:00:00.125] [INFO] [job] [Rank-0] [Step-7] [{line}]")


def test_a_progress_bar_is_one_line() -> None:
    found = list(read_lines([(CASES / "hf_trainer_tqdm.log").read_bytes()]))
    assert [line.text[:9] for line in found] == ["{'loss': "] * 3


def test_the_rank_before_a_line_is_its_rank() -> None:
    line = read("[rank3]:[titan] step:  1  loss:  8.2137")
    assert (line.rank, line.text) == (3, "[titan] step:  1  loss:  8.2137")


def test_brackets_inside_a_message_stay() -> None:
    line = read("[2026-03-02 08:00:00.125] [INFO] [job] [Rank-3] [Step-7] [shapes [2, 3] and [4]]")
    assert (line.rank, line.step, line.text) == (3, 7, "[shapes [2, 3] and [4]]")


def test_a_line_of_another_form_is_shown_as_it_is_with_its_level() -> None:
    line = read("WARNING: something is odd, loss: 3")
    assert (line.text, line.level, line.step) == ("WARNING: something is odd, loss: 3", "WARN", None)


def test_links_titles_and_cursor_moves_go_and_the_text_stays() -> None:
    """kubernetes-retired/dashboard#5866, polyaxon#451, patternfly-react#6003."""
    assert (
        read("\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 \x1b]0;title\x07\x1b[2J\x1b[3;4Hhere").text == "link here"
    )
    assert read("\x1b[1A\x1b[2K\x1b(B\x1b=\x1b7up\x1b").text == "up"
    assert read("cut in its colour\x1b[38;5").text == "cut in its colour"
    assert read("\x1b]no end of it").text == "no end of it", "a command that never ends must not swallow the line"


def test_what_would_not_be_seen_is_written_out() -> None:
    """rancher#13402: and no line stops the view."""
    assert read("null \x00 bell \x07").text == "null ␀ bell ␇"
    assert read("\u202eevil\u2066").text == "⟨U+202E⟩evil⟨U+2066⟩"
    assert read("family 👩\u200d👩\ttab").text == "family 👩\u200d👩\ttab"


def test_colours_stand_beside_the_text() -> None:
    """determined#3542: text that is searched and copied holds no escapes; what is bold or red is told apart from it."""
    line = read("\x1b[1;31mred\x1b[0m plain \x1b[38;5;46;4mlime\x1b[24;39m \x1b[48;2;0;0;200mground")
    assert line.text == "red plain lime ground"
    assert line.styles == [(0, 3, "bold red"), (10, 14, "green underline"), (15, 21, "on-blue")]
    platform = read("[2026-03-02 08:00:00.125] [INFO] [job] [Rank-0] [Step-7] [\x1b[32mLoss\x1b[0m: 2]")
    assert (platform.text, platform.styles) == ("Loss: 2", [(0, 4, "green")])
    torchrun = read("[rank3]:\x1b[31mstep\x1b[39m: 1")
    assert (torchrun.text, torchrun.styles) == ("step: 1", [(0, 4, "red")])


def test_backspaces_take_back_what_was_drawn() -> None:
    assert read("1/9\x08\x08\x082/9\x1b[32m!\x08\x08").text == "2/"


@pytest.mark.parametrize("chunk", [7, 1 << 10, 1 << 20])
def test_ten_thousand_updates_of_a_bar_are_one_line_and_its_figures_are_read(chunk: int) -> None:
    """determined#3542, #8488, clearml#181: the last state counts, however long the line was that was drawn over."""
    bars = "".join(f"\r{n / 100:3.0f}%|####      | {n}/10000 [00:01<05:00,  2.83s/it]" for n in range(10_001))
    bars *= 3
    log = f"{bars}\r{' ' * 60}\r{{'loss': 3.5, 'epoch': 0.5}}\nnext\n".encode()
    found = list(read_lines(log[at : at + chunk] for at in range(0, len(log), chunk)))
    assert [line.text for line in found] == ["{'loss': 3.5, 'epoch': 0.5}", "next"]
    (told, _) = map(LogReader().read, found)
    assert (told.step, dict(told.values)) == (10_000, {"loss": 3.5})


def test_hostile_lines_are_read_and_kept() -> None:
    found = list(read_lines([(CASES / "hostile.log").read_bytes()]))
    assert len(found) == 12
    assert not any("\x1b" in line.text for line in found)
    assert len(found[2].text.encode()) == 210_000, "up to a mebibyte is kept"


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(CommandError, match="No such file"):
        parse_log("/nowhere/train.log")


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_any_bytes_in_any_chunks_are_read(chunks: list[bytes]) -> None:
    reader = LogReader()
    whole, parts = list(read_lines([b"".join(chunks)])), list(read_lines(chunks))
    assert whole == parts
    for line in whole:
        reader.read(line)
        assert not any(c in line.text for c in "\x1b\x00\u202e")
