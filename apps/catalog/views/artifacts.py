"""The doors for pods: what they bring goes to `/artifacts/uploads/…`, what they fetch comes from `/artifacts/files`.

They know nobody's session; each request shows a short-lived token of one transfer or one workload.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.scoping import public
from apps.adapters.errors import NotFound, Unavailable
from apps.adapters.storage import CHUNK, Full, Mismatch
from apps.catalog.domain.naming import Invalid
from apps.catalog.models import Transfer
from apps.catalog.moves import Stale
from apps.catalog.services import arriving, grants, reading
from apps.catalog.services.sending import streamed

PLAN_LIMIT = 4 << 20
"""Bytes of a plan: 10,000 files with long paths."""

View = Callable[..., HttpResponse | StreamingHttpResponse]


def _told(status: int, code: str, text: str = "", **more: Any) -> JsonResponse:
    """An answer for a program; whoever reads the pod's log sees its text."""
    answer = JsonResponse({"code": code, "text": text, **more}, status=status)
    if status == 401:
        answer["WWW-Authenticate"] = 'Bearer realm="artifacts"'
    return answer


def _token(request: HttpRequest) -> str:
    scheme, _space, clear = request.headers.get("Authorization", "").strip().partition(" ")
    return clear.strip() if scheme.lower() == "bearer" else ""


def _answered(view: View) -> View:
    """Turn what may go wrong into an answer that says whether to try again."""

    @wraps(view)
    def run(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse | StreamingHttpResponse:
        try:
            return view(request, *args, **kwargs)
        except Invalid as invalid:
            return _told(422, invalid.faults[0].code, str(invalid))
        except arriving.Unfinished as unfinished:
            return _told(409, "unfinished", missing=unfinished.missing[:100])
        except Stale:
            return _told(409, "over", "This transfer takes nothing more.")
        except Mismatch as mismatch:
            return _told(422, "mismatch", mismatch.text)
        except NotFound as missing:
            return _told(404, "not-found", missing.text)
        except Full as full:
            return _told(507, "storage-full", full.text)
        except Unavailable as away:
            answer = _told(503, "storage-away", away.text)
            answer["Retry-After"] = "2"
            return answer

    return run


def _transfer(request: HttpRequest, transfer_id: str) -> Transfer | None:
    return grants.transfer_of(transfer_id, _token(request))


@csrf_exempt
@public
@require_http_methods(["PUT", "POST"])
@_answered
def upload(request: HttpRequest, transfer_id: str) -> HttpResponse:
    """PUT says what will come and is told what must; POST says that this was all, or why nothing comes."""
    transfer = _transfer(request, transfer_id)
    if transfer is None:
        return _told(401, "token")
    document = _document(request)
    if request.method == "PUT":
        return JsonResponse({"needed": arriving.accept_plan(transfer, document)})
    if document.get("outcome") == "failed":
        arriving.give_up(transfer, str(document.get("code", "")), str(document.get("text", "")))
    else:
        arriving.finish(transfer)
    return HttpResponse(status=204)


@csrf_exempt
@public
@require_http_methods(["PUT"])
@_answered
def upload_file(request: HttpRequest, transfer_id: str, path: str) -> HttpResponse:
    """PUT the bytes of one file of the plan."""
    transfer = _transfer(request, transfer_id)
    if transfer is None:
        return _told(401, "token")
    arriving.receive(transfer, path, iter(lambda: request.read(CHUNK), b""))
    return HttpResponse(status=204)


def _document(request: HttpRequest) -> dict[str, Any]:
    try:
        document = json.loads(request.read(PLAN_LIMIT + 1)[:PLAN_LIMIT])
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


@public
@require_GET
@_answered
def index(request: HttpRequest) -> HttpResponse:
    """The files a token lets its pod fetch, and what is known of them."""
    grant = grants.granted(_token(request))
    if grant is None:
        return _told(401, "token")
    files = [{"path": f.path, "sha256": f.digest, "size": f.size} for f in reading.files_of(grant.version)]
    return JsonResponse({"files": files, "facts": grant.version.facts})


@public
@require_GET
@_answered
def download(request: HttpRequest, digest: str) -> HttpResponse | StreamingHttpResponse:
    """The bytes under a digest, when they are a file of the token's version."""
    grant = grants.granted(_token(request))
    if grant is None:
        return _told(401, "token")
    file = next((file for file in reading.files_of(grant.version) if file.digest == digest), None)
    if file is None:
        return _told(404, "not-found")
    return streamed(request, file)
