"""What an action is, and the refusal every app may raise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Result(StrEnum):
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True)
class Action:
    """A kind of thing that happens. `key` is stored; `name` is its short name for lists, `sentence` a translatable
    format string for the reader, `refusal` the same for when it was refused (there is a general one).

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
