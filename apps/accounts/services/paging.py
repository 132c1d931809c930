"""Lists by key: what pages of several apps make of `?before=…` and `?after=…`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet
from django.http import QueryDict

M = TypeVar("M", bound=Model)
T = TypeVar("T")
U = TypeVar("U")
LONGEST_TEXT = 300
LONGEST_SEARCH = 80


def searched(query: QueryDict, word: str) -> str:
    """What an address looks for by that word; "" for what no text of the database can hold."""
    text = query.get(word, "")[:LONGEST_SEARCH]
    return "" if "\0" in text else text


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a list; `older` leads on and `newer` back: queries of addresses, "" where there is nothing more."""

    rows: list[T]
    older: str
    newer: str

    def of(self, rows: list[U]) -> Page[U]:
        """The same place with what is shown for each row."""
        return Page(rows, self.older, self.newer)


@dataclass(frozen=True)
class Listing:
    """A list that runs down by `key`, or up (`rising`); `name` tells it from others on a page. A key holds numbers, or
    texts (`text`).

    A key is unique, so that what is added or removed meanwhile moves no row from one page to another.
    """

    name: str = ""
    key: str = "pk"
    rising: bool = False
    text: bool = False
    size: int = 50

    def page(self, found: QuerySet[M], query: QueryDict) -> Page[M]:
        """The rows that an address asks for, in any order before; its other words stay in those of `Page`."""
        on, back = ("after", "before") if self.rising else ("before", "after")
        if place := self._place(query, back):
            some = self._beyond(found, back, place)
            more_on, more_back, rows = True, len(some) > self.size, some[: self.size][::-1]
        else:
            place = self._place(query, on)
            some = self._beyond(found, on, place)
            more_on, more_back, rows = len(some) > self.size, bool(place), some[: self.size]
        older = self._address(query, on, rows[-1]) if rows and more_on else ""
        newer = self._address(query, back, rows[0]) if rows and more_back else ""
        return Page(rows, older, newer)

    def place(self, query: QueryDict) -> str:
        """What of an address says where in the list it is, for what asks for the same place again; "" at its head."""
        kept = query.copy()
        for word in [word for word in kept if word not in (self._word("before"), self._word("after"))]:
            kept.pop(word)
        return kept.urlencode()

    def _beyond(self, found: QuerySet[M], way: str, place: int | str) -> list[M]:
        """The rows next to a place, nearest first: one more than a page holds tells whether there is another."""
        compare, order = ("lt", f"-{self.key}") if way == "before" else ("gt", self.key)
        further = found.filter(**{f"{self.key}__{compare}": place}) if place else found
        return list(further.order_by(order)[: self.size + 1])

    def _word(self, way: str) -> str:
        return f"{self.name}-{way}" if self.name else way

    def _place(self, query: QueryDict, way: str) -> int | str:
        raw = query.get(self._word(way), "")
        if self.text:
            return raw[:LONGEST_TEXT] if raw.isprintable() else ""
        return int(raw) if raw.isascii() and raw.isdecimal() and len(raw) < 19 else 0

    def _address(self, query: QueryDict, way: str, row: Any) -> str:
        kept = query.copy()
        for word in ("part", self._word("before"), self._word("after")):
            kept.pop(word, None)
        kept[self._word(way)] = str(getattr(row, self.key))
        return kept.urlencode()
