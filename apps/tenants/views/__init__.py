"""Pages of tenants and of the requests they begin with."""

from apps.tenants.views.asking import ask, decide, request_page, withdraw
from apps.tenants.views.detail import detail, look, remove, restore
from apps.tenants.views.listing import requests, tenants

__all__ = ["ask", "decide", "detail", "look", "remove", "request_page", "requests", "restore", "tenants", "withdraw"]
