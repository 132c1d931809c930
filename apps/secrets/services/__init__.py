"""The use-cases of secrets. `services.store` is another door, for background work only: it can read values."""

from apps.secrets.services.reading import Used, exists, missing, names_visible, secrets_of, with_uses
from apps.secrets.services.registry import Use, UserKind, register_user

__all__ = [
    "Use",
    "Used",
    "UserKind",
    "exists",
    "missing",
    "names_visible",
    "register_user",
    "secrets_of",
    "with_uses",
]
