"""Pages and sockets in one process (the demo), or sockets alone (production)."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "maasportal.settings")
http = get_asgi_application()

from apps.streams.urls import sockets  # noqa: E402  (models are there only once Django is set up)


async def application(scope: Any, receive: Any, send: Any) -> None:
    await (sockets if scope["type"] == "websocket" else http)(scope, receive, send)
