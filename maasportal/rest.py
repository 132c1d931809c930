"""REST conventions: errors as problem+json (RFC 9457), pages by signed cursor."""

from __future__ import annotations

from typing import Any

from django.core import signing
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils.translation import gettext as _
from rest_framework import exceptions, pagination
from rest_framework.response import Response
from rest_framework.views import exception_handler, set_rollback

from apps.audit.services import Denied


def problem(exception: Exception, context: dict[str, Any]) -> Response | None:
    """Any error as `{"type", "title", "status", "detail", "errors"?}`; None lets an unknown one become a 500."""
    if isinstance(exception, Denied):
        set_rollback()
        return _answer(403, _("Not allowed"), str(exception.reason), {"permission": str(exception.permission)})
    response = exception_handler(_as_rest(exception), context)
    if response is None:
        return None
    detail = response.data
    errors = None
    if isinstance(exception, exceptions.ValidationError):
        errors, text = detail, _("Some fields are not right; see errors.")
    else:
        text = str(detail.get("detail", "")) if isinstance(detail, dict) else str(detail)
    answer = _answer(response.status_code, str(response.status_text), text, {"errors": errors} if errors else {})
    for name in ("WWW-Authenticate", "Retry-After", "Allow"):
        if name in response:
            answer[name] = response[name]
    return answer


def _as_rest(exception: Exception) -> Exception:
    if isinstance(exception, Http404):
        return exceptions.NotFound(_("There is no such object, or it is not yours to see."))
    if isinstance(exception, PermissionDenied):
        return exceptions.PermissionDenied()
    return exception


def _answer(status: int, title: str, detail: str, more: dict[str, Any]) -> Response:
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return Response(_whole(body), status=status, content_type="application/problem+json")


def _whole(value: Any) -> Any:
    """The same with ? for halves of characters: what was sent in JSON can hold them, and may be named in the answer."""
    if isinstance(value, dict):
        return {_whole(key): _whole(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(one) for one in value]
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


class CursorPagination(pagination.BasePagination):
    """Newest first by primary key. The cursor is opaque and signed; a made-up one is a 404."""

    page_size = 50
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        size = _bounded(request.query_params.get("limit"), self.page_size, self.max_page_size)
        if cursor := request.query_params.get("cursor"):
            try:
                queryset = queryset.filter(pk__lt=signing.loads(cursor, salt="cursor"))
            except signing.BadSignature as error:
                raise exceptions.NotFound(_("This page is not there. Begin again without the cursor.")) from error
        rows = list(queryset.order_by("-pk")[: size + 1])
        self._next = signing.dumps(str(rows[size - 1].pk), salt="cursor") if len(rows) > size else None
        return rows[:size]

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"next": self._next, "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        cursor = {"type": "string", "nullable": True, "description": "Cursor of the next page; null on the last."}
        return {
            "type": "object",
            "required": ["next", "results"],
            "properties": {"next": cursor, "results": schema},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        def parameter(name: str, kind: str) -> dict[str, Any]:
            return {"name": name, "in": "query", "required": False, "schema": {"type": kind}}

        return [parameter("cursor", "string"), parameter("limit", "integer")]


def _bounded(raw: str | None, default: int, maximum: int) -> int:
    return min(int(raw), maximum) if raw and raw.isdecimal() and len(raw) < 10 and int(raw) > 0 else default
