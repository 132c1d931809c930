"""Pages and sockets in one process (the demo), or sockets alone (production)."""

import os
import sys

import django
from asgiref.sync import sync_to_async
from channels.routing import ProtocolTypeRouter
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

# A page is made in a thread, which asks for the interpreter anew after each answer of the database: where the loop is
# busy with sockets it would wait 5 ms each time.
sys.setswitchinterval(0.001)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "maasportal.settings")
django.setup(set_prefix=False)

from apps.streams.urls import sockets  # noqa: E402  (models are there only once Django is set up)


class Handler(ASGIHandler):
    """Takes a request to its thread once. All our middleware and nearly every view is synchronous; Django's handler
    goes from the loop to the thread and back around each change between the two, which took most of a REST request."""

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)


application = ProtocolTypeRouter({"http": Handler(), "websocket": sockets})
