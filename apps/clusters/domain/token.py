"""What a bearer token says of itself. Only the cluster can tell whether it is genuine: nothing is decided by this."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

LONGEST = 16 * 1024
"""Characters of a token; those of service accounts have about 1,200."""


@dataclass(frozen=True)
class Told:
    """`subject` is "" and `expires` None where the token does not say."""

    subject: str = ""
    expires: datetime | None = None


def is_token(text: str) -> bool:
    """Whether it can stand in a header: one word of printable ASCII."""
    return 0 < len(text) <= LONGEST and text.isascii() and text.isprintable() and " " not in text


def read(token: str) -> Told:
    """The claims of a JSON Web Token; nothing for a token of any other kind."""
    parts = token.split(".")
    if len(parts) != 3:
        return Told()
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return Told()
    if not isinstance(claims, dict):
        return Told()
    subject, until = claims.get("sub"), claims.get("exp")
    try:
        expires = datetime.fromtimestamp(until, UTC) if isinstance(until, int | float) else None
    except (OverflowError, ValueError, OSError):
        expires = None
    return Told(subject[:253] if isinstance(subject, str) else "", expires)
