"""A Loki that answers well, and one that does not: no line lost, none twice, and nothing asked but what was meant."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.adapters import source
from apps.adapters.errors import Refused, Unavailable
from apps.adapters.loki import Line, Loki, query
from apps.adapters.source import Address
from tests.adapters.scripted import Exchange, scripted
from tests.loki import HOUR, SmallLoki, loki, parsed

CASES = Path(__file__).parents[1] / "cases/loki"
T0 = 1_764_548_400_000_000_000
PODS = query({"namespace": "team-nlp"})


def labels(pod: str) -> dict[str, str]:
    return {"namespace": "team-nlp", "pod": pod, "container": "main"}


def told(lines: list[Line]) -> list[tuple[int, str, str]]:
    return [(line.at, line.labels["pod"], line.text) for line in lines]


def all_pages(one: Loki, size: int, start: int = T0, end: int = T0 + HOUR) -> tuple[list[Line], int]:
    """Every line, page after page, and of how many pages some were left out."""
    found: list[Line] = []
    at: int | None = start
    cuts = 0
    for _ in range(10_000):
        if at is None:
            return found, cuts
        page = one.page(PODS, at, end, size)
        assert page.next is None or page.next > at  # it gets on
        found, at, cuts = found + page.lines, page.next, cuts + page.is_cut
    raise AssertionError("There is no end.")


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.json") if ".lines" not in path.name))
def test_answers_are_read_as_documented(name: str) -> None:
    body = (CASES / f"{name}.json").read_bytes()
    with scripted(lambda one: one.answer(200, body)) as server:
        page = Loki(Address(server.url)).page(PODS, T0, T0 + HOUR, 100)
    assert [list(line) for line in told(page.lines)] == json.loads((CASES / f"{name}.lines.json").read_text())
    assert (page.next, page.is_cut) == (None, False)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[SmallLoki, Loki]]:
    with loki() as small:
        yield small, Loki(Address(small.url))


SIGNS = st.characters(exclude_characters="\n", exclude_categories=["Cs"])  # an agent's newline at the end is no text
STAMPED = st.tuples(st.integers(0, 6), st.sampled_from("abc"), st.text(SIGNS, max_size=2))


@settings(deadline=None, max_examples=40)
@given(lines=st.lists(STAMPED, max_size=30), size=st.integers(1, 12))
def test_pages_of_any_size_are_the_whole(
    shared: tuple[SmallLoki, Loki], lines: list[tuple[int, str, str]], size: int
) -> None:
    small, one = shared
    small.streams.clear()
    for pod in "abc":
        small.put(labels(pod), *((T0 + at, text) for at, who, text in lines if who == pod))
    found, cuts = all_pages(one, size)
    wanted = {(T0 + at, pod, text) for at, pod, text in lines}
    assert cuts == 0
    assert sorted(told(found)) == sorted(wanted)
    assert [line.at for line in found] == sorted(line.at for line in found)


def test_more_lines_of_one_nanosecond_than_it_gives_are_said_to_be_cut() -> None:
    with loki(most=4) as small:
        small.put(labels("a"), (T0, "before"), *((T0 + 1, str(n)) for n in range(9)), (T0 + 2, "after"))
        found, cuts = all_pages(Loki(Address(small.url)), 2)
    texts = [line.text for line in found]
    assert cuts == 1
    assert texts[0] == "before"
    assert texts[-1] == "after"
    assert len(texts) == len(set(texts)) == 6


def test_lines_of_a_nanosecond_are_asked_for_together_as_far_as_it_lets() -> None:
    with loki(most=500) as small:
        small.put(labels("a"), *((T0 + 1, str(n)) for n in range(499)), (T0 + 2, "after"))
        page = Loki(Address(small.url)).page(PODS, T0, T0 + HOUR, 10)
    assert len(page.lines) == 499
    assert not page.is_cut


def test_one_that_allows_fewer_lines_or_a_shorter_span_is_asked_for_so_much() -> None:
    with loki(most=3, longest=25 * HOUR) as small:
        small.put(labels("a"), *((T0 + n * HOUR, str(n)) for n in range(0, 200, 7)))
        found, _cuts = all_pages(Loki(Address(small.url)), 10, end=T0 + 200 * HOUR)
    assert [line.text for line in found] == [str(n) for n in range(0, 200, 7)]


def test_a_job_of_months_is_looked_through_in_spans() -> None:
    with loki() as small:
        small.put(labels("a"), (T0 + 2400 * HOUR, "late"))
        page = Loki(Address(small.url)).page(PODS, T0, T0 + 3000 * HOUR, 10)
    assert [line.text for line in page.lines] == ["late"]
    assert page.next == T0 + 2880 * HOUR
    assert len(small.queries) == 4


def test_lines_beside_the_span_are_not_told() -> None:  # loki#3428
    values = [[str(T0 - 1), "before"], [str(T0), "first"], [str(T0 + 10), "at its end"]]
    body = {
        "status": "success",
        "data": {"resultType": "streams", "result": [{"stream": labels("a"), "values": values}]},
    }
    with scripted(lambda one: one.answer(200, body)) as server:
        page = Loki(Address(server.url)).page(PODS, T0, T0 + 10, 100)
    assert told(page.lines) == [(T0, "a", "first")]


NASTY = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            '"',
            '"} or {namespace="other"',
            '\\" |= "',
            "`",
            "a\nb",
            "{}",
            "\x00",
            "$(id)",
            "\u2028",
            "\\",
            "|= `x`",
            "\ufeff",
        ]
    ),
)


@given(pod=NASTY, text=NASTY)
def test_no_name_and_no_text_gets_out_of_its_place(pod: str, text: str) -> None:
    found = parsed(query({"namespace": "team-nlp", "pod": pod}, text=text))
    assert found.matchers == [("namespace", "=", "team-nlp"), ("pod", "=", pod)]
    assert found.texts == ([text] if text else [])


def test_a_text_is_found_as_it_is_written() -> None:
    odd = 'say "\\n" to {a|b} `now`'
    with loki() as small:
        small.put(labels("a"), (T0, odd), (T0 + 1, odd.upper()), (T0 + 2, "other"))
        page = Loki(Address(small.url)).page(query({"pod": "a"}, text=odd), T0, T0 + HOUR, 100)
        assert [line.text for line in page.lines] == [odd]


def test_a_busy_one_is_asked_again_when_it_says() -> None:
    waits: list[float] = []
    with loki() as small:
        small.put(labels("a"), (T0, "there"))
        small.wish = [(429, b"too many outstanding requests", {"Retry_After": "2"}), (503, b"not ready", {})]
        page = Loki(Address(small.url), sleep=waits.append).page(PODS, T0, T0 + HOUR, 10)
    assert [line.text for line in page.lines] == ["there"]
    assert waits == [2, 1]


def silent(exchange: Exchange) -> None:
    time.sleep(1)
    exchange.cut()


def trickle(exchange: Exchange) -> None:
    exchange.begin()
    while True:
        exchange.chunk(b" ")
        time.sleep(0.02)


def huge(exchange: Exchange) -> None:
    exchange.begin()
    while True:
        exchange.chunk(b" " * (1 << 20))


def half(exchange: Exchange) -> None:
    exchange.begin()
    exchange.chunk(b'{"status": "success", "data": {"resultType": "streams", "result": [{"stre')
    exchange.cut()


def result(kind: str = "streams", *values: object) -> dict[str, object]:
    streams = [{"stream": {}, "values": values}] if values else []
    return {"status": "success", "data": {"resultType": kind, "result": streams}}


@pytest.mark.parametrize(
    ("script", "kind", "text"),
    [
        (silent, Unavailable, "did not answer"),
        (trickle, Unavailable, "did not end it"),
        (half, Unavailable, "did not answer"),
        (lambda one: one.answer(503, b"Ingester not ready"), Unavailable, "HTTP 503: Ingester not ready"),
        (lambda one: one.answer(429, b"", Retry_After="60"), Unavailable, "HTTP 429"),
        (lambda one: one.answer(200, b"<html>Sign in</html>"), Unavailable, "not Loki's API"),
        (lambda one: one.answer(200, b'{"status": "success", "da'), Unavailable, "not Loki's API"),
        (lambda one: one.answer(200, result("matrix")), Unavailable, "without lines"),
        (lambda one: one.answer(200, result("streams", ["odd", "x"])), Unavailable, "time that is none"),
        (lambda one: one.answer(200, result("streams", *[["1", "x"]] * 10)), Unavailable, "of another time"),
        (huge, Refused, "more than"),
        (lambda one: one.answer(302, b"", Location="http://169.254.169.254/"), Refused, "redirect"),
        (lambda one: one.answer(401, b""), Refused, "did not accept the token"),
        (lambda one: one.answer(401, b"no org id\n"), Refused, r"several tenants and was told none \(X-Scope-OrgID\)"),
        (lambda one: one.answer(404, b"404 page not found"), Refused, r"not at this address \(HTTP 404\)"),
        (lambda one: one.answer(400, b"parse error at line 1, col 2"), Refused, "HTTP 400: parse error at line 1, col 2"),
    ],
    ids=["silent", "trickle", "half", "503", "429", "page", "cut-json", "matrix", "time", "elsewhere", "huge", "redirect",
         "401", "org", "404", "400"],
)  # fmt: skip
def test_what_goes_wrong_is_bounded_and_classed(
    monkeypatch: pytest.MonkeyPatch, script: Callable[[Exchange], None], kind: type[Exception], text: str
) -> None:
    if script is silent:
        monkeypatch.setattr(source, "READ_SECONDS", 0.3)
    if script is trickle:
        monkeypatch.setattr(source, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(source, "MOST_BYTES", 4 << 20)
    with scripted(script) as server:
        one = Loki(Address(server.url, token=lambda: "s3cret"), sleep=lambda _seconds: None)
        with pytest.raises(kind, match=text) as caught:
            one.page(PODS, T0, T0 + HOUR, 10)
        one.close()
        assert len(server.requests) <= 4  # as often as a busy one, or as a page of ten can be halved
    assert "s3cret" not in repr(caught.value)


def test_an_answer_that_is_too_large_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_BYTES", 1 << 20)
    with loki() as small:
        small.put(labels("a"), *((T0 + n, f"{n} {'x' * 200_000}") for n in range(10)))
        found, cuts = all_pages(Loki(Address(small.url)), 10)
    assert [line.text.split()[0] for line in found] == [str(n) for n in range(10)]
    assert cuts == 0


def test_it_is_checked_by_a_question_like_those_that_follow() -> None:
    with loki(token="s3cret", org="team-a") as small:
        headers = {"X-Scope-OrgID": "team-a"}
        assert Loki(Address(small.url, token=lambda: "s3cret", headers=headers)).version() == "3.5.7"
        assert small.queries == ['{namespace=~".+"}']
        with pytest.raises(Refused, match="several tenants"):
            Loki(Address(small.url, token=lambda: "s3cret")).version()
        with pytest.raises(Refused, match="not at this address"):
            Loki(Address(f"{small.url}/grafana", token=lambda: "s3cret", headers=headers)).version()
