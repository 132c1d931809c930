"""Pages of served models."""

from apps.serving.views.acts import key_create, key_revoke, remove, scale, start, stop
from apps.serving.views.chat import chat
from apps.serving.views.detail import detail
from apps.serving.views.gate import authorize
from apps.serving.views.listing import deployments
from apps.serving.views.log import log_download, log_line
from apps.serving.views.new import new

__all__ = [
    "authorize",
    "chat",
    "deployments",
    "detail",
    "key_create",
    "key_revoke",
    "log_download",
    "log_line",
    "new",
    "remove",
    "scale",
    "start",
    "stop",
]
