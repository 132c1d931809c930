"""A stored file as an answer to a request, for pages, REST and pods alike."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from apps.catalog.models import StoredFile
from apps.catalog.services import reading

_RANGE = re.compile(r"bytes=(\d{1,18})-")


def streamed(request: HttpRequest, file: StoredFile) -> HttpResponse | StreamingHttpResponse:
    """A file as an answer, whole or from `Range: bytes=N-` on. Raises Unavailable, NotFound."""
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    start = int(match[1]) if match else 0
    if match and start >= file.size:
        refused = HttpResponse(status=416)
        refused["Content-Range"] = f"bytes */{file.size}"
        return refused
    chunks = reading.content(file, start) if file.size else iter(())
    answer = StreamingHttpResponse(
        _later(chunks) if isinstance(request, ASGIRequest) else chunks,
        status=206 if match else 200,
        content_type="application/octet-stream",
    )
    answer["Content-Length"] = str(file.size - start)
    answer["ETag"] = f'"{file.digest}"'
    answer["Accept-Ranges"] = "bytes"
    answer["Cache-Control"] = "private, no-store"
    if match:
        answer["Content-Range"] = f"bytes {start}-{file.size - 1}/{file.size}"
    return answer


async def _later(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Under ASGI Django would gather an ordinary iterator in memory before it sends the first byte."""
    advance = sync_to_async(lambda: next(chunks, b""), thread_sensitive=False)
    while chunk := await advance():
        yield chunk
