"""The two ways an outside call can fail, and the rule that no call is made inside a transaction."""

from __future__ import annotations

from django.db import connection


class OutsideError(Exception):
    """`text` is the outside system's own answer, cut and free of secrets; it may be shown one click away."""

    def __init__(self, text: str, *, code: int | None = None) -> None:
        super().__init__(text)
        self.text, self.code = text, code


class Unavailable(OutsideError):
    """No answer, or one that asks to come back: try again after `retry_after` seconds.

    `system` is "cluster" or "secrets", so that people can be told what they wait for."""

    def __init__(self, text: str, *, code: int | None = None, retry_after: float = 1, system: str = "cluster") -> None:
        super().__init__(text, code=code)
        self.retry_after, self.system = retry_after, system


class Refused(OutsideError):
    """The system understood and said no. The same call will be refused again."""


class NotFound(Refused):
    """The object is not there (which for a delete is a success)."""


class Conflict(Refused):
    """Somebody else's change or object stands in the way; look again before deciding."""


class InsideTransaction(RuntimeError):
    """A network call was about to be made while a database transaction was open."""


def outside_transaction() -> None:
    """Every adapter calls this first: a slow server must never hold row locks, and what a call did cannot roll back."""
    if connection.in_atomic_block and not getattr(connection, "outside_calls_allowed", False):
        raise InsideTransaction("An outside call inside atomic(): commit first, then call.")
