"""What people copy: manifests as YAML, and programs that call a deployment."""

from __future__ import annotations

import json
import shlex
from typing import Any

import yaml

_CURL = """curl {base}/chat/completions \\
  -H "Authorization: Bearer $KEY" \\
  -H "Content-Type: application/json" \\
  -d {body}"""

_PYTHON = """from openai import OpenAI

client = OpenAI(base_url={base}, api_key=KEY)
answer = client.chat.completions.create(
    model={model},
    messages=[{{"role": "user", "content": "你好"}}],
)
print(answer.choices[0].message.content)"""


class _Plain(yaml.SafeDumper):
    """Writes what is shared twice: nobody wants to read `*id002`."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(manifest: dict[str, Any]) -> str:
    """A manifest as people write it: keys in the order they were given, nothing by reference."""
    text: str = yaml.dump(manifest, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
    return text


def code_of(language: str, base: str, model: str) -> str:
    """A program that asks the model one question: "curl" or "python"."""
    if language == "python":
        return _PYTHON.format(base=json.dumps(base), model=json.dumps(model, ensure_ascii=False))
    asked = {"model": model, "messages": [{"role": "user", "content": "你好"}]}
    return _CURL.format(base=base, body=shlex.quote(json.dumps(asked, ensure_ascii=False)))
