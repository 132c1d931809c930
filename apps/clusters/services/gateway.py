"""What stands behind the gateway: upper apps say what they publish there, and who may reach it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from django.conf import settings

from apps.adapters.errors import outside_transaction
from apps.adapters.gateway import Gateway, Route


@dataclass(frozen=True)
class Verdict:
    """The portal's answer to a request of the gateway's client: 200 lets it through, of any other the client gets
    `text`."""

    code: int
    text: str = ""


@dataclass(frozen=True)
class Published:
    """Something that is published. `routes` are all that are wanted now; `judge` is asked of each request to one of
    them, by the route's id and the client's cookies, where ids begin with `mark`; "" for what has a door of its own."""

    mark: str
    routes: Callable[[], Iterable[Route]]
    judge: Callable[[str, Mapping[str, str]], Verdict] | None = None


_published: dict[str, Published] = {}


def register_published(one: Published) -> None:
    """Called once for each, in the owning app's ready()."""
    if one.mark in _published:
        raise ValueError(f"Routes marked {one.mark!r} are registered twice.")
    _published[one.mark] = one


def published_as(route_id: str) -> Published | None:
    """What a route's id belongs to, where that is judged here."""
    return next((one for mark, one in _published.items() if mark and route_id.startswith(mark)), None)


@functools.cache
def _gateway(folder: str, hosts: tuple[str, ...]) -> Gateway:
    return Gateway(Path(folder), hosts)


def refresh_gateway() -> bool:
    """Make the gateway's files say what is published now; whether it is to be called again within a minute. Raises
    Unavailable where they cannot be written."""
    outside_transaction()
    found = _gateway(settings.GATEWAY_DIR, tuple(settings.GATEWAY_HOSTS))
    return found.refresh(lambda: chain.from_iterable(one.routes() for one in _published.values()))
