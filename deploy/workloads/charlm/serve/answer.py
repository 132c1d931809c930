"""An answer in the words of OpenAI's API: whole, or as the events of a stream."""

from __future__ import annotations

import time
import uuid
from typing import Any

from deploy.workloads.charlm.serve.engine import Completion

Json = dict[str, Any]


class Answer:
    """`told_usage`: the client asked for the counts at the end of a stream."""

    def __init__(self, model: str, completion: Completion, *, told_usage: bool) -> None:
        self.completion, self.told_usage = completion, told_usage
        self._head = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"charlm-step-{completion.engine.step}",
        }

    def whole(self, text: str) -> Json:
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.completion.finish_reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage()}

    def chunk(self, delta: Json, finish_reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._chunk([choice], None)

    def last_chunks(self) -> list[Json]:
        """What stands before `[DONE]`."""
        last = [self.chunk({}, self.completion.finish_reason)]
        return [*last, self._chunk([], self._usage())] if self.told_usage else last

    def _chunk(self, choices: list[Json], usage: Json | None) -> Json:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        return {**chunk, "usage": usage} if self.told_usage else chunk

    def _usage(self) -> Json:
        asked, made = self.completion.prompt_tokens, self.completion.made
        return {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made}
