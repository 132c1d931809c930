"""A Prometheus that answers well, and one that does not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.adapters import source
from apps.adapters.errors import Refused, Unavailable
from apps.adapters.prometheus import Prometheus
from apps.adapters.source import Address
from tests.adapters.scripted import Exchange, scripted
from tests.prometheus import prometheus


def test_a_real_one_tells_samples_with_the_times_of_their_scrapes(tmp_path: Path) -> None:
    with prometheus(tmp_path) as exposed:
        exposed.values['heat{pod="a"}'] = 71.5
        exposed.wait_for('heat{pod="a"}', 71.5)
        exposed.values['heat{pod="a"}'] = float("nan")
        one = Prometheus(Address(exposed.url))
        assert one.version().startswith("2.") or one.version().startswith("3.")
        (found,) = one.samples('heat{pod="a"}', 60)
        assert found.labels["pod"] == "a"
        assert found.name == "heat"
        assert found.samples[0][1] == 71.5
        assert 0 <= time.time() - found.samples[0][0] < 60
        assert one.samples('heat{pod="b"}', 60) == []
        with pytest.raises(Refused, match="parse error"):
            one.samples("heat{", 60)
        one.close()


GOOD = {"status": "success", "data": {"resultType": "matrix", "result": []}}


def huge(exchange: Exchange) -> None:
    exchange.begin()
    while True:
        exchange.chunk(b" " * (1 << 20))


def trickle(exchange: Exchange) -> None:
    exchange.begin()
    while True:
        exchange.chunk(b" ")
        time.sleep(0.02)


def silent(exchange: Exchange) -> None:
    time.sleep(1)
    exchange.cut()


def result(*values: object) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(values)}}


@pytest.mark.parametrize(
    ("script", "kind", "text", "wait"),
    [
        (silent, Unavailable, "did not answer", 1),
        (trickle, Unavailable, "did not end it", 1),
        (Exchange.cut, Unavailable, "did not answer", 1),
        (lambda one: one.answer(503, b"starting", Retry_After="9"), Unavailable, "HTTP 503: starting", 9),
        (lambda one: one.answer(429, b"slow down", Retry_After="7"), Unavailable, "HTTP 429", 7),
        (lambda one: one.answer(429, b"", Retry_After="99999"), Unavailable, "HTTP 429", 300),
        (lambda one: one.answer(200, b"<html>Sign in</html>"), Unavailable, "not Prometheus' API", 1),
        (lambda one: one.answer(200, {"status": "success"}), Unavailable, "not Prometheus' API", 1),
        (lambda one: one.answer(200, GOOD | {"status": "error"}), Unavailable, "without success", 1),
        (lambda one: one.answer(200, result({"metric": {}, "values": [[1, "odd"]]})), Unavailable, "value", 1),
        (huge, Refused, "more than", None),
        (lambda one: one.answer(302, b"", Location="http://169.254.169.254/"), Refused, "redirect", None),
        (lambda one: one.answer(401, b""), Refused, "did not accept the token", None),
        (lambda one: one.answer(404, b"no\x1b[31m such page"), Refused, r"HTTP 404: no \[31m such page", None),
        (lambda one: one.answer(422, {"status": "error", "error": "too many samples"}), Refused, "too many", None),
    ],
    ids=["silent", "trickle", "cut", "503", "429", "429-long", "page", "bare", "error", "value", "huge", "redirect",
         "401", "404", "422"],
)  # fmt: skip
def test_what_goes_wrong_is_bounded_and_classed(
    monkeypatch: pytest.MonkeyPatch,
    script: Callable[[Exchange], None],
    kind: type[Exception],
    text: str,
    wait: int | None,
) -> None:
    monkeypatch.setattr(source, "READ_SECONDS", 0.3)
    monkeypatch.setattr(source, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(source, "MOST_BYTES", 4 << 20)
    with scripted(script) as server:
        one = Prometheus(Address(server.url, token=lambda: "s3cret"))
        with pytest.raises(kind, match=text) as caught:
            one.samples("up", 60)
        one.close()
        assert len(server.requests) == 1  # nowhere else, and once
    assert "s3cret" not in repr(caught.value)
    assert getattr(caught.value, "retry_after", None) == wait


def test_the_token_goes_with_each_question() -> None:
    with scripted(lambda one: one.answer(200, json.dumps(GOOD).encode())) as server:
        Prometheus(Address(f"{server.url}/monitoring", token=lambda: "s3cret")).samples("up", 60)
        (request,) = server.requests
    assert request.path == "/monitoring/api/v1/query"
    assert request.headers["Authorization"] == "Bearer s3cret"
    assert request.body == b"query=up%5B60s%5D&timeout=8s"
