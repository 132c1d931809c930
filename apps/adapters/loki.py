"""Asking a Loki: whether it may be asked, and the lines of some streams page after page, none lost and none twice."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from apps.adapters.errors import OutsideError, Refused, Unavailable
from apps.adapters.source import Address, Source, TooLarge

QUERY_RANGE = "/loki/api/v1/query_range"
BUILD = "/loki/api/v1/status/buildinfo"
ORG_HEADER = "X-Scope-OrgID"

MOST_LINES = 5000
"""Loki's own default for the lines of one answer (`max_entries_limit_per_query`); one that allows fewer says so."""
SPAN_SECONDS = 30 * 86400
"""Loki's own default for the span of one question is an hour longer (`max_query_length`)."""
MOST_SPANS = 24
"""So many spans without a line are looked through before an empty page is given."""
TRIES, LONGEST_WAIT = 3, 5.0
"""A busy Loki is asked again so often, where it does not want to be left alone for longer than this (seconds)."""
SECOND = 1_000_000_000

_SAFE = re.compile(r'[^\x00-\x1f\x7f"\\\u2028\u2029\ufeff\ud800-\udfff]')
_MANY = re.compile(r"max entries limit.*?\((\d+) > (\d+)\)", re.DOTALL)
_LONG = re.compile(r"time range exceeds the limit.*?limit: ([0-9a-zµ.]+)", re.DOTALL)
_PART = re.compile(r"(\d+)(ms|[wdhms])")
_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0}

T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    """A line as Loki has it; `at` in nanoseconds since 1970, `text` without its newline."""

    at: int
    labels: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Page:
    """Lines in the order of their times. `next` is from when (ns) to go on, None at the end. `is_cut`: so many lines
    have the last one's time that Loki does not give them all, and some are left out."""

    lines: list[Line]
    next: int | None
    is_cut: bool = False


class _Value(msgspec.Struct, array_like=True):
    at: str
    line: str  # newer versions have an object with more behind it


class _Stream(msgspec.Struct):
    stream: dict[str, str]
    values: list[_Value] = []


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 (the API's name)
    result: list[_Stream]


class _Found(msgspec.Struct):
    status: str
    data: _Data


class _Build(msgspec.Struct):
    version: str = ""


_FOUND = msgspec.json.Decoder(_Found)
_BUILD = msgspec.json.Decoder(_Build)


def quoted(text: str) -> str:
    """A text as a string of LogQL, whatever is in it."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(sign: str) -> str:
    if _SAFE.match(sign):
        return sign
    if "\ud800" <= sign <= "\udfff":
        return "\ufffd"  # no text that Loki has can hold it
    return f"\\{sign}" if sign in '"\\' else f"\\u{ord(sign):04x}"


def query(equal: Mapping[str, str], *, fitting: Mapping[str, str] | None = None, text: str = "") -> str:
    """The lines of the streams whose labels are `equal` to these and wholly fit these expressions (RE2), with a text in
    them as it is written."""
    matchers = [f"{name}={quoted(value)}" for name, value in equal.items()]
    matchers += [f"{name}=~{quoted(pattern)}" for name, pattern in (fitting or {}).items()]
    return f"{{{', '.join(matchers)}}}" + (f" |= {quoted(text)}" if text else "")


class _Asked(Source):
    def failure(self, response: httpx.Response, body: bytes) -> OutsideError:
        code = response.status_code
        if code == httpx.codes.NOT_FOUND:
            return self.refused("is not at this address (HTTP 404).", code=code)
        if code in (401, 403) and b"no org id" in body[:1000]:
            return self.refused(f"keeps the logs of several tenants and was told none ({ORG_HEADER}).", code=code)
        return super().failure(response, body)


class Loki:
    """One server of Loki's HTTP API, for one thread at a time. Raises Unavailable, Refused."""

    def __init__(self, address: Address, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._source, self._sleep = _Asked("Loki", address), sleep
        self._most, self._span = MOST_LINES, SPAN_SECONDS * SECOND

    def close(self) -> None:
        self._source.close()

    def version(self) -> str:
        """Its version, once it is known that it may be asked for lines: "" for one that does not tell."""
        now = time.time_ns()
        self._ask(query({}, fitting={"namespace": ".+"}), now - 60 * SECOND, now, 1)
        try:
            return self._decoded(_BUILD, self._source.ask(BUILD, {})).version[:40]
        except OutsideError:
            return ""

    def page(self, asked: str, start: int, end: int, size: int) -> Page:
        """The first lines of a query between two moments (ns; `end` is not in it): about `size` of them, for a page
        ends where a nanosecond does."""
        for _ in range(MOST_SPANS):
            found, until = self._in_span(asked, start, end, size)
            if found.next is not None:
                return found
            if found.lines or until >= end:
                return Page(found.lines, until if until < end else None)
            start = until
        return Page([], start)

    def _in_span(self, asked: str, start: int, end: int, size: int) -> tuple[Page, int]:
        """The page, and up to when was looked."""
        size = min(size, self._most)
        while True:
            until = min(end, start + self._span)
            try:
                lines, count = self._lines(asked, start, until, size)
            except Refused as error:
                size = self._lowered(error, size, until - start)
                continue
            if count < size:
                return Page(lines, None), until
            if not lines:
                raise self._source.away("answered with lines of another time.")
            # The last nanosecond may have more lines than came: it is the next page's.
            last = lines[-1].at
            if whole := [line for line in lines if line.at < last]:
                return Page(whole, last), until
            if size >= self._most:
                return Page(lines, last + 1, is_cut=True), until
            size = min(self._most, size * 8)

    def _lowered(self, error: Refused, size: int, span: int) -> int:
        """Ask for less where that is all that was refused; else the refusal."""
        if isinstance(error, TooLarge) and size > 1:
            self._most = size // 2
        elif (many := _MANY.search(error.text)) and 0 < int(many[2]) < size:
            self._most = int(many[2])
        elif (long := _LONG.search(error.text)) and 0 < (allowed := _nanoseconds(long[1])) < span:
            self._span = allowed
        else:
            raise error
        return min(size, self._most)

    def _lines(self, asked: str, start: int, end: int, size: int) -> tuple[list[Line], int]:
        """The lines in order, and how many came: some versions answer with lines beside the span too."""
        found = self._ask(asked, start, end, size)
        streams = sorted(found.data.result, key=lambda one: sorted(one.stream.items()))
        try:
            lines = [_line(value, one.stream) for one in streams for value in one.values]
        except ValueError as error:
            raise self._source.away(f"answered a time that is none: {error}") from None
        inside = [line for line in lines if start <= line.at < end]
        return sorted(inside, key=lambda line: line.at), len(lines)

    def _ask(self, asked: str, start: int, end: int, size: int) -> _Found:
        fields = {"query": asked, "start": str(start), "end": str(end), "limit": str(size), "direction": "forward"}
        found = self._decoded(_FOUND, self._patiently(fields))
        if found.status != "success" or found.data.resultType != "streams":
            raise self._source.away("answered without lines.")
        return found

    def _patiently(self, fields: Mapping[str, str]) -> bytes:
        for _ in range(TRIES - 1):
            try:
                return self._source.ask(QUERY_RANGE, fields)
            except Unavailable as error:
                if error.code is None or error.retry_after > LONGEST_WAIT:
                    raise
                self._sleep(error.retry_after)
        return self._source.ask(QUERY_RANGE, fields)

    def _decoded(self, decoder: msgspec.json.Decoder[T], body: bytes) -> T:
        try:
            answer: Any = decoder.decode(body)
        except msgspec.DecodeError as error:
            raise self._source.away(f"answered what is not Loki's API: {error}") from None
        return answer  # type: ignore[no-any-return]


def _line(value: _Value, labels: Mapping[str, str]) -> Line:
    return Line(int(value.at), labels, value.line.removesuffix("\n"))


def _nanoseconds(duration: str) -> int:
    """Of a duration as Loki writes it, such as 30d1h or 721h0m0s; 0 for what is none."""
    return sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(duration)) * SECOND
