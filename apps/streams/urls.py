"""The socket route, open to our own pages only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from channels.sessions import CookieMiddleware
from django.conf import settings
from django.urls import path, re_path

from apps.streams.consumers import Event, Page, Receive, Send
from apps.streams.domain.wire import WIRE

Application = Callable[[Event, Receive, Send], Awaitable[None]]


class OwnOriginOnly:
    """Refuses a handshake whose Origin is not exactly ours: the cookie alone does not prove which page sent it."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        application = self._inner if origins == [settings.BASE_URL.encode()] else denier
        await application(scope, receive, send)


async def page(scope: Event, receive: Receive, send: Send) -> None:
    await Page(send, scope.get("extensions", {}).get(WIRE)).run(
        scope["cookies"].get(settings.SESSION_COOKIE_NAME, ""), receive
    )


denier = WebsocketDenier.as_asgi()
routes = [path("ws/", page), re_path("", denier)]  # type: ignore[arg-type]  # Channels routes to applications
sockets = OwnOriginOnly(CookieMiddleware(URLRouter(routes)))
