"""The use-cases of secrets. `services.store` is another door, for background work only: it can read values."""

from apps.secrets.domain import Bad, Kind, Values
from apps.secrets.services.entering import Entry, NameTaken, Stale, enter, remove, replace, require_entering
from apps.secrets.services.lending import due_loans, due_secrets, end
from apps.secrets.services.reading import (
    Used,
    exists,
    left_behind,
    missing,
    names_of,
    names_visible,
    secrets_of,
    with_uses,
)
from apps.secrets.services.registry import Use, UserKind, register_user

__all__ = [
    "Bad",
    "Entry",
    "Kind",
    "NameTaken",
    "Stale",
    "Use",
    "Used",
    "UserKind",
    "Values",
    "due_loans",
    "due_secrets",
    "end",
    "enter",
    "exists",
    "left_behind",
    "missing",
    "names_of",
    "names_visible",
    "register_user",
    "remove",
    "replace",
    "require_entering",
    "secrets_of",
    "with_uses",
]
