"""Asking a Prometheus: its version, and the samples of some series just as they were scraped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from apps.adapters.errors import Refused
from apps.adapters.source import Address, Source

QUERY_SECONDS = 8
"""Prometheus itself gives a query up after so long."""

T = TypeVar("T")


@dataclass(frozen=True)
class Series:
    """`labels` with the metric's name as `__name__`; `samples` as (seconds since 1970, value), the oldest first."""

    labels: Mapping[str, str]
    samples: list[tuple[float, float]]

    @property
    def name(self) -> str:
        return self.labels.get("__name__", "")


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 (the API's name)
    result: list[_Series]


class _Found(msgspec.Struct):
    status: str
    data: _Data


class _Build(msgspec.Struct):
    version: str


class _About(msgspec.Struct):
    status: str
    data: _Build


_FOUND = msgspec.json.Decoder(_Found)
_ABOUT = msgspec.json.Decoder(_About)


class Prometheus:
    """One server of Prometheus' HTTP API, for one thread at a time. Raises Unavailable, Refused."""

    def __init__(self, address: Address) -> None:
        self._source = Source("Prometheus", address)

    def close(self) -> None:
        self._source.close()

    def version(self) -> str:
        """Its version, once it is known that it may be asked for series: "" for a kin that does not tell one."""
        self._decoded(_FOUND, self._query("vector(1)[1s:1s]"))
        try:
            return self._decoded(_ABOUT, self._source.ask("/api/v1/status/buildinfo", {})).data.version[:40]
        except Refused:
            return ""

    def samples(self, selector: str, seconds: int) -> list[Series]:
        """The samples that the selected series got in the last seconds, with the times of their scrapes."""
        found = self._decoded(_FOUND, self._query(f"{selector}[{seconds}s]")).data.result
        try:
            return [Series(one.metric, [(at, float(text)) for at, text in one.values]) for one in found if one.values]
        except ValueError as error:
            raise self._source.away(f"answered a value that is none: {error}") from None

    def _query(self, query: str) -> bytes:
        return self._source.ask("/api/v1/query", {"query": query, "timeout": f"{QUERY_SECONDS}s"}, post=True)

    def _decoded(self, decoder: msgspec.json.Decoder[T], body: bytes) -> T:
        try:
            answer: Any = decoder.decode(body)
        except msgspec.DecodeError as error:
            raise self._source.away(f"answered what is not Prometheus' API: {error}") from None
        if answer.status != "success":
            raise self._source.away("answered without success.")
        return answer  # type: ignore[no-any-return]
