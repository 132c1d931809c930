"""Chatting with a deployed model through the gateway, by OpenAI's API, as it streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx

from apps.adapters.errors import Refused, Unavailable

CONNECT_SECONDS = 3.0
SILENT_SECONDS = 60.0
"""Without a byte of an answer."""
MOST_ERROR_BYTES = 8192


@dataclass(frozen=True)
class Piece:
    """A part of an answer. `tokens` is the model server's own count, told once at the end; `finish` why it ended."""

    text: str = ""
    tokens: int | None = None
    finish: str = ""


async def chat(url: str, credential: str, body: dict[str, Any]) -> AsyncIterator[Piece]:
    """The pieces of an answer as they come. `url` ends in `/v1`. Raises Unavailable, and Refused with the gateway's or
    the server's own text and status."""
    timeout = httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False) as client,
            client.stream(
                "POST", f"{url}/chat/completions", json=asked, headers={"Authorization": f"Bearer {credential}"}
            ) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise await _failure(response)
            async with aclosing(response.aiter_lines()) as lines:  # type: ignore[type-var]
                async for line in lines:
                    piece = _piece(line)
                    if piece is not None:
                        yield piece
    except httpx.HTTPError as error:
        raise Unavailable(f"The gateway did not answer ({type(error).__name__}).", system="gateway") from error


def _piece(line: str) -> Piece | None:
    """One event of the stream; None for what carries nothing."""
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return None
    try:
        event = json.loads(data)
        choice: dict[str, Any] = next(iter(event.get("choices") or []), {})
        text = (choice.get("delta") or {}).get("content") or ""
        tokens = (event.get("usage") or {}).get("completion_tokens")
    except (ValueError, AttributeError) as error:
        raise Unavailable("The model server's stream cannot be read.", system="gateway") from error
    return Piece(text, tokens, choice.get("finish_reason") or "")


async def _failure(response: httpx.Response) -> Refused | Unavailable:
    read = b""
    async for chunk in response.aiter_bytes():
        read += chunk
        if len(read) > MOST_ERROR_BYTES:
            break
    try:
        text = str(json.loads(read)["error"]["message"])[:500]
    except (ValueError, KeyError, TypeError):
        text = f"HTTP {response.status_code}"
    if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        return Unavailable(text, code=response.status_code, system="gateway")
    return Refused(text, code=response.status_code)
