"""What stands behind the gateway: upper apps say what they publish there, and who may reach it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.functional import Promise

from apps.adapters.errors import outside_transaction
from apps.adapters.gateway import Gateway, Route


@dataclass(frozen=True)
class Verdict:
    """The portal's answer to a request of the gateway's client: 200 lets it through, of any other the client gets a
    page that says `text`, in `language` ("": the request's), with a way to `back`, a path of the portal; after `again`
    seconds the browser asks once more by itself (0: it does not)."""

    code: int
    text: str | Promise = ""
    back: str = "/"
    language: str = ""
    again: int = 0

    def page(self) -> str:
        """It is shown at the gateway's address, where nothing of the portal is served: every address in it is whole."""
        with translation.override(self.language or translation.get_language()):
            told = {"text": self.text, "back": self.back, "portal": settings.BASE_URL, "again": self.again}
            return render_to_string("clusters/gateway.html", told) if self.text else ""


@dataclass(frozen=True)
class Published:
    """Something that is published. `routes` are all that are wanted now; `judge` is asked of each request to one of
    them, by the route's id and the client's cookies, where ids begin with `mark` ("" for what has a door of its own);
    of what it never published it says None. Where no route leads (yet, or any more) it is asked by the path, and with
    None for the cookies, which the gateway keeps to itself there."""

    mark: str
    routes: Callable[[], Iterable[Route]]
    judge: Callable[[str, Mapping[str, str] | None], Verdict | None] | None = None


_published: dict[str, Published] = {}


def register_published(one: Published) -> None:
    """Called once for each, in the owning app's ready()."""
    if one.mark in _published:
        raise ValueError(f"Routes marked {one.mark!r} are registered twice.")
    _published[one.mark] = one


def judge_published(route_id: str, path: str, cookies: Mapping[str, str]) -> Verdict | None:
    """What whoever published it says of a request to this route, or, where none leads there, to this path of the
    gateway, `<tenant>/<route's id>/…`; None for what is judged elsewhere."""
    wanted = route_id or "".join(path.split("/")[1:2])
    judge = next((one.judge for mark, one in _published.items() if mark and wanted.startswith(mark)), None)
    return judge(wanted, cookies if route_id else None) if judge else None


@functools.cache
def _gateway(folder: str, hosts: tuple[str, ...]) -> Gateway:
    return Gateway(Path(folder), hosts)


def refresh_gateway() -> bool:
    """Make the gateway's files say what is published now; whether it is to be called again within a minute. Raises
    Unavailable where they cannot be written."""
    outside_transaction()
    found = _gateway(settings.GATEWAY_DIR, tuple(settings.GATEWAY_HOSTS))
    return found.refresh(lambda: chain.from_iterable(one.routes() for one in _published.values()))
