"""Sentences whose words depend on a number that was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class _Numbers(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return 0


def numbered(sentence: Any, params: Mapping[str, Any]) -> str:
    """A declared sentence in the active language, its `{…}` still in it. One declared by `ngettext_lazy` with the name
    of a parameter takes the form that goes with that parameter; it has no words before it is told a number."""
    text = str(sentence)
    return text or str(sentence % _Numbers({key: value for key, value in params.items() if isinstance(value, int)}))
