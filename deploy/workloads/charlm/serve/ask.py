"""What a client asks for, read from the body of a chat completion request, and how it is told what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

DEFAULT_TOKENS = 256
MOST_TOKENS = 4096
MOST_STOPS = 4
NOT_OFFERED = {"tools": [], "functions": [], "logprobs": False, "n": 1, "response_format": {"type": "text"}}
"""Fields that would change the answer, and the value that asks for nothing."""

T = TypeVar("T")


class ApiError(Exception):
    """An answer in the shape of OpenAI's errors. `retry_after`: seconds, 0 for "do not"."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after

    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class Ask:
    """`temperature` 0 takes the likeliest token. `whole`: do not end with the paragraph, only at `max_tokens`."""

    prompt: str
    max_tokens: int = DEFAULT_TOKENS
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    whole: bool = False
    stream: bool = False
    stream_usage: bool = False

    @classmethod
    def read(cls, data: bytes, model: str) -> Ask:
        """Raises ApiError: 400 for what is malformed or not offered, 404 for another model than `model`."""
        try:
            body = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ApiError(400, f"The body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise ApiError(400, "The body is not a JSON object.")
        given = _Body(body)
        if (name := given.get("model", str, None)) is None:
            raise ApiError(400, "You must provide a model.", param="model")
        if name != model:
            text = f"The model {name!r} does not exist; this server has {model!r}."
            raise ApiError(404, text, param="model", code="model_not_found")
        for field, nothing in NOT_OFFERED.items():
            if body.get(field) not in (None, nothing):
                raise ApiError(400, f"{field!r} is not offered by this server.", param=field, code="unsupported")
        options = _Body(given.get("stream_options", dict, {}))
        limit = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
        return cls(
            prompt=_prompt(body.get("messages")),
            max_tokens=int(given.number(limit, DEFAULT_TOKENS, 1, MOST_TOKENS, whole=True)),
            temperature=given.number("temperature", 1.0, 0, 2),
            top_p=given.number("top_p", 1.0, 1e-6, 1),
            seed=given.get("seed", int, None),
            stop=_stops(body.get("stop")),
            whole=given.get("ignore_eos", bool, False),
            stream=given.get("stream", bool, False),
            stream_usage=options.get("include_usage", bool, False),
        )


class _Body:
    """Fields of an object by type; one that is null counts as absent."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def get(self, field: str, kind: type[T], default: Any) -> Any:
        value = self._values.get(field)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ApiError(400, f"{field!r} must be of type {_WORDS[kind]}.", param=field)
        return value

    def number(self, field: str, default: float, least: float, most: float, *, whole: bool = False) -> float:
        kind: Any = int if whole or isinstance(self._values.get(field), int) else float
        value = self.get(field, kind, default)
        if not least <= value <= most:
            raise ApiError(400, f"{field!r} must be between {least:g} and {most:g}.", param=field)
        return float(value)


_WORDS: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def _prompt(messages: Any) -> str:
    """The text that the model goes on from: what was said, a line each. It knows no roles."""
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, "'messages' must be a list with at least one message.", param="messages")
    return "\n".join(_content(message, f"messages[{index}]") for index, message in enumerate(messages))


def _content(message: Any, where: str) -> str:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ApiError(400, f"{where} must be an object with a role.", param=where)
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and message["role"] == "assistant":
        return ""
    if not isinstance(content, list):
        raise ApiError(400, f"{where}.content must be text.", param=f"{where}.content")
    parts = [part.get("text") if isinstance(part, dict) else None for part in content]
    texts = [text for text in parts if isinstance(text, str)]
    if len(texts) < len(parts):
        raise ApiError(400, f"{where}.content must be text: this model reads nothing else.", param=f"{where}.content")
    return "".join(texts)


def _stops(value: Any) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(stops, list) or len(stops) > MOST_STOPS or not all(isinstance(s, str) and s for s in stops):
        raise ApiError(400, f"'stop' must be text or a list of at most {MOST_STOPS} texts.", param="stop")
    return tuple(stops)
