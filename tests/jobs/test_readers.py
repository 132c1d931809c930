"""Readers of logs that operators add."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from apps.accounts.domain import Role
from apps.audit.models import Entry
from apps.clusters import services as clusters
from apps.jobs.domain.traininglog import LogReader
from apps.jobs.domain.traininglog.readers import BadPattern, read_pattern, try_lines
from apps.jobs.models import LogPattern
from apps.jobs.services import readers
from tests.factories import World
from tests.pages import browser

PATTERN = r"upd (?P<step>\d+) \| ctc=(?P<loss>\S+) \| wer=(?P<wer>[\d.]+)%? .*"


def lines(*texts: str) -> list[Any]:
    return list(clusters.read_lines(["".join(f"{text}\n" for text in texts).encode()]))


def test_a_pattern_gives_the_series_it_names_and_one_of_its_own() -> None:
    forms = [read_pattern(PATTERN)]
    reader = LogReader(lambda: forms)
    told = [
        reader.read(line)
        for line in lines("upd 12 | ctc=3.5 | wer=40.5% x", "upd 13 | ctc=nan | wer=40 x", "the loss of upd 14 | ctc=1")
    ]
    assert [(one.step, dict(one.values)) for one in told[:1]] == [(12, {"loss": 3.5, "wer": 40.5})]
    assert told[1].step == 13
    assert math.isnan(told[1].values["loss"])
    assert told[1].events == ("loss_nan",)
    assert (told[2].step, told[2].values) == (None, {})


def test_a_form_of_ours_goes_before_a_pattern() -> None:
    forms = [read_pattern(r"step: (?P<step>\d+) +loss: \S+ +(?P<loss>\S+)")]
    (told,) = (LogReader(lambda: forms).read(line) for line in lines("step: 10  loss: 7.9  grad_norm: 1.45"))
    assert told.values == {"loss": 7.9, "grad_norm": 1.45}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?P<loss>\S+)", "no-step"),
        (r"(?P<step>\d+)", "no-value"),
        (r"(?P<step>\d+) (?P<loss", "syntax"),
        (r"(?P<step>\d+)(?=x)(?P<loss>.)", "syntax"),
        (r"(?P<step>\d*)(?P<loss>\S*)", "whole-line"),
        (r"(?P<step>\d+) (?P<loss>\S+)" + "x" * 1000, "too-long"),
        (r"(?P<step>\d+) (?P<loss>(\w{1,900}){900})", "syntax"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(BadPattern) as bad:
        read_pattern(pattern)
    assert bad.value.why == why


def test_no_pattern_takes_longer_than_the_line_is_long() -> None:
    """`(a+)+b` on a row of a's takes a backtracking engine until the end of days."""
    form = read_pattern(r"(a+)+b (?P<step>\d+) (?P<loss>\S+)")
    assert try_lines(lines("a" * 4000), {"evil": form})[0].reader == ""


def test_lines_are_tried_with_what_gives_a_point_and_what_should(world: World) -> None:
    operator, client = world.people[Role.OPERATOR], browser(world.scientist)
    readers.save_reader(operator.actor(), name="Speech", pattern=PATTERN)
    text = 'upd 12 | ctc=3.5 | wer=40.5 x\n{"step": 3, "loss": 1.5}\nour loss went down\nhello\n'
    told = client.post("/api/v1/log-readers/try", {"lines": text}, content_type="application/json").json()
    assert [(row["reader"], row["step"], row["doubtful"]) for row in told["lines"]] == [
        ("Speech", 12, False), ("dictionary", 3, False), (None, None, True), (None, None, False),
    ]  # fmt: skip
    page = client.post("/log-readers/try", {"lines": text}).content.decode()
    assert "2 of 4 lines give a point." in page
    assert "1 line names a figure and gives none." in page
    wrong = client.post("/api/v1/log-readers/try", {"lines": "x", "pattern": "("}, content_type="application/json")
    assert (wrong.status_code, list(wrong.json()["errors"])) == (400, ["pattern"])
    assert "RE2" in client.post("/log-readers/try", {"lines": "x", "pattern": "("}).content.decode()


def test_operators_keep_readers_and_each_change_is_recorded(world: World) -> None:
    client = browser(world.people[Role.OPERATOR])

    def send(method: str, path: str, body: dict[str, Any]) -> Any:
        return getattr(client, method)(f"/api/v1/log-readers{path}", body, content_type="application/json")

    made = send("post", "", {"name": "Speech", "pattern": PATTERN}).json()
    assert send("post", "", {"name": "Speech", "pattern": PATTERN}).json()["errors"].keys() == {"name"}
    assert send("put", f"/{made['id']}", {"name": "Speech", "pattern": PATTERN, "is_on": False}).status_code == 200
    assert client.get("/api/v1/log-readers").json()[0]["is_on"] is False
    form = client.post(f"/log-readers/{made['id']}", {"name": "Speech", "pattern": "(?P<loss>.)"})
    assert (form.status_code, "Name the step" in form.content.decode()) == (422, True)
    assert client.delete(f"/api/v1/log-readers/{made['id']}").status_code == 204
    assert not LogPattern.objects.exists()
    assert list(Entry.objects.filter(action__startswith="log-reader").order_by("id").values_list("action", flat=True)) == [
        "log-reader.saved", "log-reader.saved", "log-reader.removed",
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_a_reader_counts_in_a_running_process_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "FRESH_SECONDS", 0.05)
    effect = readers._InEffect()
    assert effect.forms() == ()
    LogPattern.objects.create(name="Speech", pattern=PATTERN)
    until = time.monotonic() + 10
    while not effect.forms() and time.monotonic() < until:
        time.sleep(0.02)
    assert len(effect.forms()) == 1
