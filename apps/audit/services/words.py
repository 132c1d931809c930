"""What the audit page says for the parameters of its own entries."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

_KINDS = {"csv": "CSV", "jsonl": "JSON Lines"}


def file_kind(recorded: Any) -> str:
    return _KINDS.get(recorded, str(recorded))


def search(recorded: Any) -> str:
    """What an export was narrowed to, as the address says it."""
    asked = [f"{key}={value}" for key, value in recorded.items()] if isinstance(recorded, dict) else []
    return pgettext("between the parts of a list", ", ").join(asked) or _("everything they may see")
