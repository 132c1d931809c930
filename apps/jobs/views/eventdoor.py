"""The door for the pod that reads a job's event files: `/artifacts/events/<job>`.

It knows nobody's session; each request shows the short-lived token of this one pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from apps.accounts.scoping import public
from apps.jobs.models import EventReader
from apps.jobs.services import harvesting
from apps.jobs.services.harvesting import Elsewhere, Look, Told
from apps.streams.services import STEP_LIMIT

BODY_LIMIT = 2 << 20
MOST_SCALARS = 10_000
PATH_LIMIT = 500
TAG_LIMIT = 300
PLACE_LIMIT = 2**53


class Odd(ValueError):
    """The document is not what such a pod says."""


@csrf_exempt
@public
@require_http_methods(["GET", "PUT", "POST"])
def events(request: HttpRequest, job_id: str) -> JsonResponse:
    """GET tells how far each file was read, PUT takes a piece of one, POST says that the pod has looked at all."""
    scheme, _space, clear = request.headers.get("Authorization", "").strip().partition(" ")
    reader = harvesting.reader_of(job_id, clear.strip()) if scheme.lower() == "bearer" and clear else None
    if reader is None:
        answer = JsonResponse({"code": "token"}, status=401)
        answer["WWW-Authenticate"] = 'Bearer realm="artifacts"'
        return answer
    if request.method == "GET":
        return JsonResponse({"files": harvesting.places(reader), "ended": reader.job.state.is_final})
    try:
        document = _document(request)
        return _take(reader, _told(document)) if request.method == "PUT" else _note(reader, _look(document))
    except Odd as odd:
        return JsonResponse({"code": "odd", "text": str(odd)}, status=422)


def _take(reader: EventReader, told: Told) -> JsonResponse:
    try:
        return JsonResponse({"next": harvesting.take(reader, told)})
    except Elsewhere as elsewhere:
        return JsonResponse({"code": "elsewhere", "next": elsewhere.next}, status=409)


def _note(reader: EventReader, look: Look) -> JsonResponse:
    enough = harvesting.note_look(reader, look)
    reader.job.refresh_from_db(fields=["phase"])
    pause = harvesting.pause_after(look).total_seconds()
    return JsonResponse({"enough": enough, "pause": pause, "ended": reader.job.state.is_final})


def _document(request: HttpRequest) -> Mapping[str, Any]:
    body = request.read(BODY_LIMIT + 1)
    try:
        document = json.loads(body) if len(body) <= BODY_LIMIT else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Odd("Not an object of JSON, or too long.")
    return document


def _told(document: Mapping[str, Any]) -> Told:
    """Raises Odd."""
    path, begun, scalars = document.get("path"), document.get("begun"), document.get("scalars")
    if not isinstance(path, str) or not 0 < len(path) <= PATH_LIMIT or not path.isprintable():
        raise Odd("No path.")
    start, next_ = _whole(document, "from"), _whole(document, "next")
    if next_ <= start:
        raise Odd("A piece that leads nowhere.")
    if not isinstance(scalars, list) or len(scalars) > MOST_SCALARS:
        raise Odd("No scalars, or too many.")
    return Told(path, start, next_, _number(begun) if begun is not None else None, [_scalar(one) for one in scalars])


def _scalar(one: Any) -> tuple[str, int, float, float]:
    if not isinstance(one, list) or len(one) != 4 or not isinstance(one[0], str):
        raise Odd("No scalar.")
    tag, step, value, at = one
    if isinstance(step, bool) or not isinstance(step, int) or not -STEP_LIMIT <= step <= STEP_LIMIT:
        raise Odd("No step.")
    return tag.replace("\0", "")[:TAG_LIMIT], step, _number(value), _number(at)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Odd("No number.")
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise Odd("No number.") from error


def _whole(document: Mapping[str, Any], name: str) -> int:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= PLACE_LIMIT:
        raise Odd(f"No whole number: {name}.")
    return value


def _look(document: Mapping[str, Any]) -> Look:
    counts = (_whole(document, name) for name in ("files", "waiting", "scalars"))
    files, waiting, scalars = counts
    return Look(files, waiting, scalars, document.get("last") is True)
