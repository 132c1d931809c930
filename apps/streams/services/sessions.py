"""Who sits behind a socket: asked again and again, because a socket outlives the session it was opened with."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user

from apps.accounts.types import Actor


def actor_of_session(session_key: str) -> Actor | None:
    """The actor of a browser session as things stand now; None when it is over or its person may not sign in."""
    store = import_module(settings.SESSION_ENGINE).SessionStore
    request: Any = SimpleNamespace(session=store(session_key))
    user: Any = get_user(request)
    if not user.is_authenticated or not user.is_active:
        return None
    actor: Actor = user.actor()
    return actor
