"""Kept lines as answers to requests, for pages and REST alike."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict, StreamingHttpResponse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from redis.exceptions import RedisError
from rest_framework import exceptions
from rest_framework.request import Request

from apps.adapters.errors import OutsideError
from apps.audit.services import pulled
from apps.streams.domain.lines import LEVELS
from apps.streams.services.asking import LINES_LIMIT, BadQuestion, question, text_range
from apps.streams.services.reading import encoded, lines, text, whole_line

JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"

_WANTED = [
    OpenApiParameter("rank", OpenApiTypes.INT, many=True, description="Lines of these ranks."),
    OpenApiParameter("level", OpenApiTypes.STR, enum=LEVELS, description="Lines of this level or worse."),
    OpenApiParameter("attempt", OpenApiTypes.INT),
    OpenApiParameter("since", OpenApiTypes.STR, description="Lines of this moment or later: ISO time, or ns."),
    OpenApiParameter("until", OpenApiTypes.STR, description="Lines before this moment."),
    OpenApiParameter("q", OpenApiTypes.STR, description="Lines with this text in them, whatever its case."),
    OpenApiParameter("regex", OpenApiTypes.BOOL, description="`q` is a regular expression (RE2)."),
]
PAGE_PARAMETERS = [
    OpenApiParameter("before", OpenApiTypes.STR, description="The page before this line, or before an answer's own."),
    OpenApiParameter("after", OpenApiTypes.INT, description="The page after this line."),
    OpenApiParameter("line", OpenApiTypes.INT, description="The page around this line."),
    OpenApiParameter("at", OpenApiTypes.STR, description="The page around this moment: ISO time, or ns since 1970."),
    OpenApiParameter("step", OpenApiTypes.INT, description="The page around what was printed at this training step."),
    OpenApiParameter("limit", OpenApiTypes.INT, description=f"Lines of a page, at most {LINES_LIMIT} (1000)."),
    *_WANTED,
]
TEXT_PARAMETERS = [
    OpenApiParameter("from", OpenApiTypes.INT, description="The first line."),
    OpenApiParameter("to", OpenApiTypes.INT, description="The last line."),
    *_WANTED,
]


class Away(exceptions.APIException):
    """503: what keeps the lines does not answer."""

    status_code = 503


def page_answer(params: QueryDict, topic: str) -> HttpResponse:
    """A page of lines as JSON; 400 with `errors` by parameter, 503 with a `detail`."""
    try:
        return HttpResponse(encoded(lines(topic, question(params))), content_type=JSON)
    except BadQuestion as bad:
        return JsonResponse({"errors": bad.errors}, status=400)
    except (RedisError, OutsideError):
        return JsonResponse({"detail": _away()}, status=503)


def text_answer(request: HttpRequest, params: QueryDict, topic: str, name: str) -> HttpResponse | StreamingHttpResponse:
    """Lines as a text file that is sent while it is read."""
    try:
        return _streamed(request, params, topic, name)
    except BadQuestion as bad:
        return JsonResponse({"errors": bad.errors}, status=400)
    except (RedisError, OutsideError):
        return HttpResponse(_away(), status=503, content_type=PLAIN)


def line_answer(topic: str, number: int) -> HttpResponse:
    """One line as a text, however long it is; 404 where it is not kept."""
    try:
        found = whole_line(topic, number)
    except (RedisError, OutsideError):
        return HttpResponse(_away(), status=503, content_type=PLAIN)
    if found is None:
        raise Http404
    return HttpResponse(found, content_type=PLAIN, headers={"X-Content-Type-Options": "nosniff"})


def rest_page(request: Request, topic: str) -> HttpResponse:
    """The same by REST. Raises ValidationError, Away."""
    try:
        return HttpResponse(encoded(lines(topic, question(request.query_params))), content_type=JSON)
    except BadQuestion as bad:
        raise exceptions.ValidationError(dict(bad.errors)) from bad
    except (RedisError, OutsideError) as error:
        raise Away(_away()) from error


def rest_text(request: Request, topic: str, name: str) -> StreamingHttpResponse:
    """The same by REST. Raises ValidationError, Away."""
    try:
        return _streamed(request._request, request.query_params, topic, name)
    except BadQuestion as bad:
        raise exceptions.ValidationError(dict(bad.errors)) from bad
    except (RedisError, OutsideError) as error:
        raise Away(_away()) from error


def _streamed(request: HttpRequest, params: QueryDict, topic: str, name: str) -> StreamingHttpResponse:
    return text_file(request, text(topic, text_range(params)), name)


def text_file(request: HttpRequest, pieces: Iterator[bytes], name: str) -> StreamingHttpResponse:
    """A text file, sent while its pieces are made."""
    answer = StreamingHttpResponse(pulled(pieces) if isinstance(request, ASGIRequest) else pieces, content_type=PLAIN)
    answer["Content-Disposition"] = f'attachment; filename="{name}.log"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def _away() -> str:
    return _("The log cannot be read now. Try again in a moment.")
