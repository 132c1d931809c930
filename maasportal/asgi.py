"""Pages and sockets in one process (the demo), or sockets alone (production)."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "maasportal.settings")
http = get_asgi_application()

from apps.streams.urls import sockets  # noqa: E402  (models are there only once Django is set up)

application = ProtocolTypeRouter({"http": http, "websocket": sockets})
