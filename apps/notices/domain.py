"""What a notice is, and what waits for somebody."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

KEPT_DAYS = 90
"""How long people can read what they were told."""

Words = Callable[[Any], object]
"""What to show a reader for a parameter that is a code."""


@dataclass(frozen=True)
class Kind:
    """A kind of notice. `key` is stored; `sentence` is a translatable format string for the reader, `name` what the
    kind is called where people choose among kinds, `words` how parameters that are codes read."""

    key: str
    sentence: Any
    name: Any = ""
    icon: str = "bell"
    tone: str = "blue"
    words: Mapping[str, Words] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """Something that waits for the reader's hand. `text` says what in one line, `note` more below it; `act` is the word
    on its button. `tenant_id` lets Home show one team only; `and_more` says that more of its kind wait than
    are told."""

    text: object
    url: str
    since: datetime | None
    note: object = ""
    act: object = ""
    icon: str = "bell"
    tone: str = "blue"
    tenant_id: int | None = None
    and_more: bool = False


def digest(kind: str, link: str, params: Mapping[str, Any]) -> str:
    """The same for the same notice: 32 hexadecimal digits."""
    same = json.dumps([kind, link, params], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(same.encode(), digest_size=16).hexdigest()
