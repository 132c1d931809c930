"""The playground: a page's questions go through the gateway, as any program's, and the answer streams back."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import Http404, HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from apps.accounts.types import Actor
from apps.adapters.completions import chat as ask
from apps.adapters.errors import OutsideError, Unavailable
from apps.serving import services
from apps.serving.models import Deployment

MOST_BYTES = 64 << 10
MOST_MESSAGES = 50
MOST_TOKENS = 4096
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Target:
    """Where to ask, and with what."""

    url: str
    credential: str
    model: str


@require_POST
async def chat(request: HttpRequest, deployment_id: str) -> HttpResponseBase:
    """Lines of JSON as the answer comes: `{"t": "delta", "text"}`, then `{"t": "done", …}` or `{"t": "error", …}`."""
    target = await sync_to_async(_target)(request.actor, deployment_id)
    body = _read(request.body)
    if body is None:
        return JsonResponse({"t": "error", "text": _("This question cannot be read.")}, status=400)
    if not settings.GATEWAY_URL:
        return JsonResponse({"t": "error", "text": _("This portal has no gateway to deployed models.")}, status=503)
    response = StreamingHttpResponse(_lines(target, body), content_type="application/x-ndjson; charset=utf-8")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _target(actor: Actor, deployment_id: str) -> Target:
    rows = Deployment.objects.visible_to(actor).select_related("placement__tenant")
    deployment = rows.filter(pk=deployment_id).first()
    if deployment is None:
        raise Http404
    credential = services.playground_pass(actor, deployment)
    return Target(services.address_of(deployment, settings.GATEWAY_URL), credential, deployment.model)


def _read(raw: bytes) -> dict[str, Any] | None:
    """The page's question as the API takes it; None for what no page of ours sends."""
    try:
        asked = json.loads(raw) if len(raw) <= MOST_BYTES else None
    except ValueError:
        return None
    if not isinstance(asked, dict):
        return None
    messages = asked.get("messages")
    if not isinstance(messages, list) or not 1 <= len(messages) <= MOST_MESSAGES:
        return None
    said = [{"role": m.get("role"), "content": m.get("content")} for m in messages if isinstance(m, dict)]
    if any(m["role"] not in ROLES or not isinstance(m["content"], str) for m in said) or len(said) < len(messages):
        return None
    temperature, tokens = asked.get("temperature", 0.7), asked.get("max_tokens", 256)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        return None
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 1 <= tokens <= MOST_TOKENS:
        return None
    return {"messages": said, "temperature": temperature, "max_tokens": tokens}


async def _lines(target: Target, body: dict[str, Any]) -> AsyncIterator[bytes]:
    """The answer with its figures. A token is counted by the server, and where it does not tell, by the piece."""
    start, first, pieces = time.monotonic(), 0.0, 0
    tokens: int | None = None
    finish = ""
    try:
        async with aclosing(ask(target.url, target.credential, {**body, "model": target.model})) as answer:  # type: ignore[type-var]
            async for piece in answer:
                tokens, finish = piece.tokens or tokens, piece.finish or finish
                if piece.text:
                    first, pieces = first or time.monotonic(), pieces + 1
                    yield _line(t="delta", text=piece.text)
    except OutsideError as error:
        yield _line(t="error", text=_why(error), raw=error.text, code=error.code)
        return
    now = time.monotonic()
    made = tokens if tokens is not None else pieces
    seconds = now - first if first else 0.0
    # The first token ends the wait for it; the rate is of those after it.
    rate = (made - 1) / seconds if made > 1 and seconds > 0 else None
    wait = (first or now) - start
    yield _line(t="done", first=round(wait, 4), seconds=round(now - start, 3), tokens=made, rate=rate, finish=finish)


def _why(error: OutsideError) -> str:
    if error.code == 429:
        return _("You have asked often within this minute. Wait a moment and ask again.")
    if error.code in (401, 403, 404):
        return _("The gateway does not let this request in yet. Try again in a few seconds.")
    if isinstance(error, Unavailable):
        return _("The model does not answer now. See its state above, and try again.")
    return _("The model server refused the question.")


def _line(**values: Any) -> bytes:
    return json.dumps(values).encode() + b"\n"
