"""The socket route, open to our own pages only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from channels.sessions import CookieMiddleware
from django.conf import settings
from django.urls import path

from apps.streams.consumers import PageConsumer

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


class OwnOriginOnly:
    """Refuses a handshake whose Origin is not exactly ours: the cookie alone does not prove which page sent it."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        application = self._inner if origins == [settings.BASE_URL.encode()] else WebsocketDenier()
        await application(scope, receive, send)


sockets = OwnOriginOnly(CookieMiddleware(URLRouter([path("ws/", PageConsumer.as_asgi())])))
