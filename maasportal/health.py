"""Whether this process lives and whether the portal can serve, and the pages for what went wrong."""

from __future__ import annotations

from collections.abc import Callable

import redis
import structlog
from django.conf import settings
from django.db import Error, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.debug import SafeExceptionReporterFilter
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from apps.accounts.scoping import public
from apps.audit.services import Denied

log = structlog.get_logger(__name__)

_cache = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)


@public
@require_safe
def healthz(_request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@public
@require_safe
@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """The database answers and is migrated, the cache answers: 200, else 503 with what is missing."""
    parts = {"database": _database(), "cache": _redis()}
    ready = all(state == "ok" for state in parts.values())
    return JsonResponse({"ready": ready, **parts}, status=200 if ready else 503)


_migrated = False


def _database() -> str:
    global _migrated
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if not _migrated:
            executor = MigrationExecutor(connection)
            _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error:
        return "unreachable"
    return "ok" if _migrated else "not migrated"


def _redis() -> str:
    try:
        _cache.ping()
    except redis.RedisError:
        return "unreachable"
    return "ok"


def _page(request: HttpRequest, status: int) -> HttpResponse:
    if request.path.startswith("/api/"):
        body = {"type": "about:blank", "title": HttpResponse(status=status).reason_phrase, "status": status}
        return JsonResponse(body, status=status, content_type="application/problem+json")
    return render(request, f"errors/{status}.html", status=status)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403 with the sentence that says which right is missing and whom to ask."""
    return render(request, "errors/403.html", {"reason": getattr(exception, "reason", "")}, status=403)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return render(request, "errors/csrf.html", {"reason": reason}, status=403)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400: larger than is read, made by hand, or broken on its way. Before anything of it was looked at."""
    return _page(request, 400)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _page(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    return _page(request, 500)


class SafeReports(SafeExceptionReporterFilter):
    """What is marked sensitive stays out of every report of an exception, the page of MAAS_DEBUG among them."""

    def is_active(self, request: HttpRequest | None) -> bool:
        return True


class TroubleMiddleware:
    """A use-case said no, or the database was away: one page each, whatever view it happened in.

    No text of the database holds a NUL: an address with one in its path is of nothing, and its query is read without.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\0" in request.path:
            return not_found(request)
        while "%00" in (query := request.META.get("QUERY_STRING", "")):
            request.META["QUERY_STRING"] = query.replace("%00", "")
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, Denied):
            return forbidden(request, exception)
        if isinstance(exception, OperationalError):
            log.exception("database_unavailable")
            response = _page(request, 503)
            response["Retry-After"] = "5"
            return response
        return None
