"""What may be asked of a kept log, and how an address says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.streams.domain.lines import LEVELS, PATTERN_LIMIT, BadPattern, Filter, Matcher

LINES_LIMIT = 10_000
NUMBER_DIGITS = 18
RANKS_LIMIT = 4096


class BadQuestion(Exception):
    """By parameter, what is wrong with it."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        super().__init__(errors)
        self.errors = errors


@dataclass(frozen=True)
class Question:
    """A page of lines: those before a line, after one, or around a line, a moment (ns) or a step; else the newest."""

    before: int | None = None
    after: int | None = None
    line: int | None = None
    at: int | None = None
    step: int | None = None
    limit: int = 1000
    wanted: Filter = field(default_factory=Filter)


@dataclass(frozen=True)
class Range:
    """Lines to be taken as a text: `start` to `end`, both with, or up to the newest."""

    start: int = 1
    end: int | None = None
    wanted: Filter = field(default_factory=Filter)


def question(params: QueryDict) -> Question:
    """Raises BadQuestion."""
    read = _Reading(params)
    before = params.get("before") or ""
    asked = Question(
        before=int(before) if _is_number(before) else None,  # anything else: the newest
        after=read.number("after"), line=read.number("line"), at=read.one("at", _moment),
        step=read.number("step"), limit=read.number("limit", 1, LINES_LIMIT) or 1000, wanted=read.wanted(),
    )  # fmt: skip
    read.judge()
    return asked


def text_range(params: QueryDict) -> Range:
    """Raises BadQuestion."""
    read = _Reading(params)
    asked = Range(read.number("from", 1) or 1, read.number("to", 1), read.wanted())
    read.judge()
    return asked


class _Reading:
    """Reads parameters and gathers what is wrong with them."""

    def __init__(self, params: QueryDict) -> None:
        self._params = params
        self._errors: dict[str, list[str]] = {}

    def judge(self) -> None:
        if self._errors:
            raise BadQuestion(self._errors)

    def one(self, name: str, read: Callable[[str], int]) -> int | None:
        text = (self._params.get(name) or "").strip()
        try:
            return read(text) if text else None
        except ValueError as error:
            self._errors[name] = [str(error)]
            return None

    def number(self, name: str, least: int = 0, most: int = 10**NUMBER_DIGITS) -> int | None:
        def read(text: str) -> int:
            if not _is_number(text):
                raise ValueError(_("Enter a whole number."))
            if not least <= int(text) <= most:
                raise ValueError(_("Choose from {least} to {most}.").format(least=least, most=most))
            return int(text)

        return self.one(name, read)

    def wanted(self) -> Filter:
        ranks = [part for text in self._params.getlist("rank") for part in text.split(",") if part]
        if len(ranks) > RANKS_LIMIT or not all(map(_is_number, ranks)):
            self._errors["rank"] = [_("Enter ranks as whole numbers.")]
            ranks = []
        level = (self._params.get("level") or "").upper()
        if level and level not in LEVELS:
            self._errors["level"] = [_("Choose one of {names}.").format(names=", ".join(LEVELS))]
        text = self._params.get("q") or ""
        since, until = self.one("since", _moment), self.one("until", _moment)
        if since is not None and until is not None and until <= since:
            self._errors["until"] = [_("Choose a time after the beginning.")]
        is_regex = self._params.get("regex") in ("1", "true")
        wanted = Filter(frozenset(map(int, ranks)), level, self.number("attempt"), text, is_regex, since, until)
        if len(text) > PATTERN_LIMIT:
            self._errors["q"] = [_("At most {maximum} characters.").format(maximum=PATTERN_LIMIT)]
            return wanted
        try:
            Matcher(wanted)
        except BadPattern as error:
            self._errors["q"] = [_("This is no regular expression: {why}.").format(why=error)]
        return wanted


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS + 1


def _moment(text: str) -> int:
    """Nanoseconds since 1970, as they are or as an ISO time; one without a zone is of UTC."""
    if text.isascii() and text.isdigit() and len(text) <= 19:
        return int(text)
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000
    except (ValueError, OverflowError) as error:
        raise ValueError(_("Enter a time such as 2026-03-02T08:00:00Z.")) from error
