"""What a new job can start from, in words: for every page that offers to begin one."""

from __future__ import annotations

from typing import NamedTuple

from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.services import messages


class Shape(NamedTuple):
    key: str
    name: str
    help: str
    icon: str


def shapes() -> list[Shape]:
    """Every template of the registry."""
    return [
        Shape(key, str(messages.TEMPLATES[key][0]), str(messages.TEMPLATES[key][1]), template.icon)
        for key, template in TEMPLATES.items()
    ]
