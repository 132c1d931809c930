"""A small Loki over HTTP: what its documentation says of `query_range`, for streams that a test puts in.

Where more lines have the last one's time than fit, it gives any of them: which ones, nothing says.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.adapters.scripted import Exchange, Scripted, scripted

HOUR = 3_600_000_000_000
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_MATCHER = re.compile(rf"\s*([a-zA-Z_]\w*)\s*(=~|=)\s*({_STRING})\s*(,|\}})")
_FILTER = re.compile(rf"\s*\|=\s*({_STRING})\s*")
_ESCAPE = re.compile(r'\\(?:u([0-9a-f]{4})|x([0-9a-f]{2})|(["\\abfnrtv]))')


class ParseError(Exception):
    pass


def unquoted(text: str) -> str:
    """A string of Go, as LogQL's are."""

    def sign(found: re.Match[str]) -> str:
        if code := found[1] or found[2]:
            return chr(int(code, 16))
        return {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}.get(found[3], found[3])

    inner = text[1:-1]
    if "\\" in _ESCAPE.sub("", inner):
        raise ParseError("literal not terminated")
    return _ESCAPE.sub(sign, inner)


@dataclass
class Query:
    """`matchers` are (label, operator, value); `texts` are all in the line."""

    matchers: list[tuple[str, str, str]]
    texts: list[str]

    def fits(self, labels: dict[str, str]) -> bool:
        return all(
            re.fullmatch(value, labels.get(name, "")) is not None if sign == "=~" else labels.get(name, "") == value
            for name, sign, value in self.matchers
        )


def parsed(text: str) -> Query:
    """Raises ParseError where it is not a selector with filters, or where a selector could be empty."""
    if not text.startswith("{"):
        raise ParseError("unexpected IDENTIFIER")
    query, at, more = Query([], []), 1, ","
    while more == ",":
        found = _MATCHER.match(text, at)
        if not found:
            raise ParseError(f"col {at}: unexpected")
        query.matchers.append((found[1], found[2], unquoted(found[3])))
        at, more = found.end(), found[4]
    while at < len(text):
        found = _FILTER.match(text, at)
        if not found:
            raise ParseError(f"col {at}: unexpected")
        query.texts.append(unquoted(found[1]))
        at = found.end()
    return query


@dataclass
class SmallLoki:
    """`streams` are lines (ns, text) by labels; lines that are wholly alike in one stream are one, as in Loki."""

    url: str = ""
    streams: list[tuple[dict[str, str], list[tuple[int, str]]]] = field(default_factory=list)
    most: int = 5000
    longest: int = 721 * HOUR
    token: str = ""
    org: str = ""
    queries: list[str] = field(default_factory=list)
    wish: list[tuple[int, bytes, dict[str, str]]] = field(default_factory=list)
    """Answers to give instead, one a question."""
    server: Scripted | None = None
    seed: int = 0

    def put(self, labels: dict[str, str], *lines: tuple[int, str]) -> None:
        self.streams.append((labels, list(dict.fromkeys(lines))))

    def answer(self, exchange: Exchange) -> None:
        if self.wish:
            code, body, headers = self.wish.pop(0)
            return exchange.answer(code, body, **headers)
        if self.token and exchange.headers["Authorization"] != f"Bearer {self.token}":
            return exchange.answer(401, b"Unauthorized")
        if self.org and exchange.headers["X-Scope-OrgID"] != self.org:
            return exchange.answer(401, b"no org id\n")
        address = urlsplit(exchange.path)
        if address.path == "/loki/api/v1/status/buildinfo":
            return exchange.answer(200, {"version": "3.5.7", "revision": "abc", "branch": "release-3.5.x"})
        if address.path != "/loki/api/v1/query_range":
            return exchange.answer(404, b"404 page not found\n")
        given = {name: values[0] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
        return self._range(exchange, given)

    def _range(self, exchange: Exchange, given: dict[str, str]) -> None:
        self.queries.append(given["query"])
        start, end, limit = int(given["start"]), int(given["end"]), int(given["limit"])
        assert given["direction"] == "forward"
        try:
            query = parsed(given["query"])
        except ParseError as error:
            return exchange.answer(400, f"parse error at line 1, {error}".encode())
        if limit > self.most:
            text = f"max entries limit per query exceeded, limit > max_entries_limit_per_query ({limit} > {self.most})"
            return exchange.answer(400, text.encode())
        if end - start > self.longest:
            asked, allowed = (end - start) // HOUR, self.longest // HOUR
            text = f"the query time range exceeds the limit (query length: {asked}h0m0s, limit: {allowed // 24}d{allowed % 24}h)"
            return exchange.answer(400, text.encode())
        found = [
            (at, number, text)
            for number, (labels, lines) in enumerate(self.streams)
            if query.fits(labels)
            for at, text in lines
            if start <= at < end and all(one in text for one in query.texts)
        ]
        self.seed += 1
        random.Random(self.seed).shuffle(found)
        found = sorted(found, key=lambda one: one[0])[:limit]
        result = [
            {"stream": labels, "values": values}
            for number, (labels, _lines) in enumerate(self.streams)
            if (values := [[str(at), text] for at, which, text in found if which == number])
        ]
        data = {"resultType": "streams", "result": result, "stats": {"summary": {"execTime": 0.01}}}
        return exchange.answer(200, {"status": "success", "data": data})


@contextmanager
def loki(**values: object) -> Iterator[SmallLoki]:
    small = SmallLoki(**values)  # type: ignore[arg-type]
    with scripted(small.answer) as server:
        small.url, small.server = server.url, server
        yield small
