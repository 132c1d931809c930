"""The kept log by line number: pages, jumps, filters, search, text."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest
from django.core.management import call_command
from django.http import QueryDict

from apps.streams import services
from apps.streams.domain.lines import BadPattern, Filter, Matcher
from apps.streams.services import buffer, reading, ring
from tests import factories
from tests.factories import World
from tests.pages import browser

pytestmark = pytest.mark.django_db
SECOND = 1_000_000_000


@pytest.fixture
def topic() -> str:
    return f"job.{secrets.token_hex(6)}"


def write(topic: str, first: int, count: int, *, rank: int = 0, attempt: int = 1, level: str = "INFO") -> None:
    """Lines that say their own number; each is of the step and the second of its number."""
    lines = [services.LogLine(n * SECOND, level, rank, n, f"line {n}") for n in range(first, first + count)]
    services.append(topic, services.LogFrame(services.Source(rank, attempt, f"p-{rank}"), lines))


def ask(topic: str, query: str = "") -> dict[str, Any]:
    return json.loads(services.encoded(services.lines(topic, services.question(QueryDict(query)))))  # type: ignore[no-any-return]


def numbers(page: dict[str, Any]) -> list[int]:
    """The numbers the page gives its lines, which must be those they say."""
    found: list[int] = []
    for frame in page["frames"]:
        told = frame["ns"] if "ns" in frame else range(frame["n"], frame["n"] + len(frame["lines"]))
        assert [line[4] for line in frame["lines"]] == [f"line {n}" for n in told]
        found += told
    assert (page["first"], page["last"]) == ((found[0], found[-1]) if found else (None, None))
    return found


def test_pages_meet_both_ways(topic: str) -> None:
    for first in range(1, 701, 7):
        write(topic, first, 7)
        services.append(topic, services.PointsFrame(services.Source(0, 1, "p"), []))
    back: list[int] = []
    page = ask(topic, "limit=90")
    assert not page["newer"]
    while True:
        back = numbers(page) + back
        if not page["older"]:
            break
        page = ask(topic, f"limit=90&before={page['before']}")
        assert page["newer"]
    assert back == list(range(1, 701))
    on: list[int] = []
    while True:
        page = ask(topic, f"limit=90&after={on[-1] if on else 0}")
        on += numbers(page)
        if not page["newer"]:
            break
    assert on == back
    assert (page["total"], page["kept_since"], page["notice"]) == (700, 1, None)


def test_a_page_lies_around_a_line_a_moment_or_a_step(topic: str) -> None:
    for first in range(1, 1001, 10):
        write(topic, first, 10)
    for query in ("line=500", f"at={500 * SECOND}", "at=1970-01-01T00:08:20Z", "step=500"):
        page = ask(topic, f"limit=20&{query}")
        assert page["at"] == 500, query
        assert numbers(page) == list(range(490, 510)), query
    assert ask(topic, "line=5000")["at"] == 1000
    assert ask(topic, "step=5000")["at"] is None


def test_a_step_is_looked_up_in_the_newest_attempt(topic: str) -> None:
    write(topic, 1, 20)
    services.append(topic, services.LogFrame(services.Source(0, 2, "q"), [services.LogLine(1, "", 0, 7, "line 21")]))
    assert ask(topic, "step=7")["at"] == 21
    assert ask(topic, "step=8")["at"] == 8


def test_filters_keep_the_numbers(topic: str) -> None:
    write(topic, 1, 10, rank=0)
    write(topic, 11, 10, rank=1, level="ERROR")
    write(topic, 21, 10, rank=0, attempt=2, level="WARN")
    assert numbers(ask(topic, "rank=1")) == list(range(11, 21))
    assert numbers(ask(topic, "rank=0&rank=1&level=warn")) == list(range(11, 31))
    assert numbers(ask(topic, "attempt=2&limit=3")) == [28, 29, 30]
    assert numbers(ask(topic, "q=INE+1&after=5&limit=3")) == [10, 11, 12]
    assert numbers(ask(topic, "q=^line+.[05]$&regex=1")) == [10, 15, 20, 25, 30]
    assert numbers(ask(topic, r"q=\Aline+3\z&regex=1")) == [3]
    assert numbers(ask(topic, "q=.[05]$")) == []
    assert numbers(ask(topic, "q=[05]$&regex=1&line=15&limit=4")) == [5, 10, 15, 20]


def test_a_span_of_time_goes_with_every_filter_and_into_the_text(topic: str) -> None:
    write(topic, 1, 10)
    write(topic, 11, 10, rank=1)
    span = f"since=1970-01-01T00:00:08Z&until={13 * SECOND}"
    assert numbers(ask(topic, span)) == [8, 9, 10, 11, 12]
    assert numbers(ask(topic, f"{span}&rank=1")) == [11, 12]
    assert numbers(ask(topic, f"{span}&q=0$&regex=1")) == [10]
    assert numbers(ask(topic, "since=1970-01-01T08:00:19%2B08:00")) == [19, 20]
    assert numbers(ask(topic, "until=1970-01-01T00:00:01.000000Z")) == []
    text = b"".join(services.text(topic, services.text_range(QueryDict(f"{span}&rank=0")))).decode()
    assert [line.rpartition(" ")[2] for line in text.splitlines()] == ["8", "9", "10"]


def test_a_search_says_how_far_it_came_and_goes_on_there(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SEARCH_SECONDS", 0)
    for first in range(1, 101, 10):
        write(topic, first, 10)
    page = ask(topic, "q=line 5$&regex=1")
    assert page["searched"] == {"from": 91, "to": 100, "complete": False}
    steps = 1
    while not page["searched"]["complete"]:
        page = ask(topic, f"q=line 5$&regex=1&before={page['searched']['from']}")
        steps += 1
    assert (numbers(page), steps) == ([5], 10)


def test_a_pattern_that_would_run_for_ever_elsewhere_is_as_quick_as_any(topic: str) -> None:
    services.append(
        topic, services.LogFrame(services.Source(0, 1, "p"), [services.LogLine(1, "", 0, None, "a" * 20_000 + "!")])
    )
    assert ask(topic, "q=(a*)*$&regex=1&limit=1")["total"] == 1
    assert ask(topic, "q=^(a%2B)%2B$&regex=1")["searched"]["complete"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("q=(a&regex=1", "q"), ("q=" + "a" * 1001, "q"), ("rank=x", "rank"), ("level=loud", "level"), ("limit=0", "limit"),
     ("line=-1", "line"), ("at=noon", "at"), ("step=1.5", "step"), ("attempt=two", "attempt"), ("since=soon", "since"),
     ("until=32:00", "until"), ("since=1970-01-02T00:00:00Z&until=1970-01-01T00:00:00Z", "until")],
)  # fmt: skip
def test_what_makes_no_sense_is_said_by_field(query: str, field: str) -> None:
    with pytest.raises(services.BadQuestion) as bad:
        services.question(QueryDict(query))
    assert list(bad.value.errors) == [field]


def test_it_says_where_the_log_begins(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "LINES_KEPT", 100)
    for first in range(1, 301, 10):
        write(topic, first, 10)
    page = ask(topic, "after=0&limit=5")
    assert page["kept_since"] > 190
    assert numbers(page)[0] == page["kept_since"]
    assert str(page["kept_since"]) in page["notice"]
    assert not page["older"]


def test_every_line_is_found_where_the_ring_has_many_of_one_moment(topic: str) -> None:
    for first in range(1, 301, 3):
        write(topic, first, 3)
    for n in range(1, 301):
        assert next(ring.forwards(topic, n)).first <= n <= next(ring.backwards(topic, n)).last
    assert list(ring.forwards(topic, 301)) == []


def test_a_page_and_its_text_are_the_same_lines(world: World) -> None:
    job = factories.job(world.scientist, world.place)
    write(job.topic, 1, 30)
    client = browser(world.scientist)
    page = json.loads(client.get(f"/jobs/{job.pk}/log/lines", {"line": 9, "limit": 4}).content)
    assert numbers(page) == [7, 8, 9, 10]
    assert json.loads(client.get(f"/api/v1/jobs/{job.pk}/log", {"line": 9, "limit": 4}).content) == page
    bad = client.get(f"/jobs/{job.pk}/log/lines", {"q": "(", "regex": 1})
    assert (bad.status_code, list(bad.json()["errors"])) == (400, ["q"])
    answer = client.get(f"/jobs/{job.pk}/log/download", {"from": 9, "to": 10})
    lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[arg-type]
    assert lines == [
        f"[1970-01-01 00:00:{n:02}.000] [INFO] [p-0] [Rank-0] [Step-{n}] line {n}" for n in (9, 10)
    ]  # fmt: skip
    assert answer["Content-Disposition"] == f'attachment; filename="{job.pk}.log"'


def test_a_command_greps_it_for_those_who_may_see_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    job = factories.job(world.scientist, world.place)
    write(job.topic, 1, 30)
    call_command("job_log", job.pk, user=world.scientist.sub, grep="line .[05]$")
    assert [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()] == ["10", "15", "20", "25", "30"]


@pytest.mark.parametrize("text", ["((((", "a)(b", "*", "(?=x)"])
def test_what_is_no_pattern_is_told_of_what_was_typed(text: str) -> None:
    with pytest.raises(BadPattern) as bad:
        Matcher(Filter(text=text, regex=True))
    assert "?m" not in str(bad.value)
