"""What an action is, and the refusal every app may raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any


class Result(StrEnum):
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True)
class Action:
    """A kind of thing that happens. `key` is stored; `name` is its short name for lists, `sentence` a translatable
    format string for the reader (`ngettext_lazy` with the name of a parameter, where its words depend on a number),
    `refusal` the same for when it was refused (there is a general one).

    `{actor}` and `{target}` are always there; other fields are the parameters recorded with the entry.
    """

    key: str
    sentence: Any
    name: Any = ""
    refusal: Any = None


class Denied(Exception):
    """A person was told no. `permission` is the right that was missing; `reason` is a translatable sentence."""

    def __init__(self, permission: str, reason: Any = "", *, tenant_id: int | None = None, target: str = "") -> None:
        super().__init__(permission)
        self.permission, self.reason, self.tenant_id, self.target = permission, reason, tenant_id, target


@dataclass(frozen=True)
class Search:
    """What somebody looks for in the log; an empty field does not narrow it.

    `actor`, `target` and `action` are ids and match whole; `who` and `about` are what a person types: a name, a part
    of a person's name, or an id. `life` is a target whose relatives are meant too. From `since` up to, not at, `until`.
    """

    actor: str = ""
    who: str = ""
    action: str = ""
    result: str = ""
    target: str = ""
    about: str = ""
    life: str = ""
    tenant: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def asked(self) -> dict[str, str]:
        """What narrows it, as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            key: value.isoformat() if isinstance(value, datetime) else value for key, value in values.items() if value
        }


@dataclass(frozen=True)
class Change:
    """One value before and after; None where there was or is none."""

    name: str
    before: Any
    after: Any

    @property
    def differs(self) -> bool:
        return bool(self.before != self.after)


_PAIRS = (("before", "after"), ("old", "new"))


def changes(params: Mapping[str, Any]) -> list[Change]:
    """What an entry recorded as before and after: value by value where both are objects."""
    for old, new in _PAIRS:
        if old in params and new in params:
            before, after = params[old], params[new]
            if isinstance(before, dict) and isinstance(after, dict):
                return [Change(key, before.get(key), after.get(key)) for key in sorted({*before, *after})]
            return [Change("", before, after)]
    return []


def cell(value: object) -> str:
    """A value for a spreadsheet: text that one would take for a formula is told to be text by an apostrophe."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
