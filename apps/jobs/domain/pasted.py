"""Secrets that people paste into a document, by their shape: found before anything is stored, and never told back.

Only shapes that mean a secret count, and names that promise one; a checkpoint's digest or a commit looks as random.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from apps.jobs.domain.problems import Problem

REMOVED = "‹secret removed›"
"""What stands in a draft where a secret stood."""

Span = tuple[int, int, str]
"""Where a secret begins and ends, and what it is: "key", "token" or "password"."""

_BEFORE, _AFTER = r"(?<![A-Za-z0-9_-])", r"(?![A-Za-z0-9_-])"
_TOKENS = (
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",  # AWS
    r"hf_[A-Za-z0-9]{30,}",  # Hugging Face
    r"gh[pousr]_[A-Za-z0-9]{36,}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{50,}",
    r"gl(?:pat|dt|rt|cbt|ptt|soat)-[A-Za-z0-9_-]{20,}",  # GitLab
    r"sk-(?:proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, OpenRouter
    r"sk-[A-Za-z0-9]{32,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[A-Za-z0-9_-]{50,}",
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"dckr_pat_[A-Za-z0-9_-]{20,}",  # Docker
    r"hv[sbr]\.[A-Za-z0-9_-]{20,}",  # Vault, OpenBao
    r"[sbr]\.(?=[A-Za-z]*[0-9])(?=[A-Za-z0-9]*[A-Z])(?=[A-Za-z0-9]*[a-z])[A-Za-z0-9]{24}",
    r"mp_[A-Za-z0-9_-]{43}",  # this portal
    r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",  # JSON Web Tokens
)
_TOKEN = re.compile(f"{_BEFORE}(?:{'|'.join(_TOKENS)}){_AFTER}")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END [A-Z0-9 ]*-----|.*)", re.DOTALL
)
_KUBECONFIG = re.compile(r"client-key-data:\s*([A-Za-z0-9+/=]{20,})")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@'\"]*:([^\s/@'\"]+)@")
_ASSIGNED = re.compile(
    r"""(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)["']?(?:\s*[:=]\s*|\s+)["']?(?P<value>[^\s"',;]+)""",
)

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_SECRET_WORD = re.compile(r"password|passwd|passphrase|secret|token|apikey|credentials?")
_SECRET_PAIRS = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("secret", "key"), ("auth", "key")})
# What a name may end in that makes it speak of a secret's place or number instead.
_ELSEWHERE = re.compile(r"file|path|dir|name|ids?|url|type|limit|count|length|size|ttl")
# Tokens of a tokenizer: EOS_TOKEN, special_token, max_new_tokens.
_OF_TEXT = re.compile(r"eos|bos|pad|unk|sep|cls|mask|special|max|min|num|new|per|stop")
_HARMLESS = re.compile(
    r"-?\d{1,9}(?:\.\d+)?|true|false|none|null|yes|no|\*+|x+|[./~].*|\$.*|<.*|\[.*|\{.*", re.IGNORECASE
)
_LEAST, _ENTROPY = 16, 3.0


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret: HF_TOKEN does, MAX_TOKENS, EOS_TOKEN and TOKEN_FILE do not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or _ELSEWHERE.fullmatch(words[-1]) or any(map(_OF_TEXT.fullmatch, words)):
        return False
    return any(map(_SECRET_WORD.fullmatch, words)) or not _SECRET_PAIRS.isdisjoint(pairwise(words))


def is_harmless(value: str) -> bool:
    """Whether this can be no secret whatever its name: a number, a switch, a path, a reference, a placeholder."""
    return not value or bool(_HARMLESS.fullmatch(value))


def spans(text: str) -> list[Span]:
    """Every secret in a text, in order, without overlaps."""
    found = sorted(_candidates(text))
    kept: list[Span] = []
    for span in found:
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    return kept


def _candidates(text: str) -> Iterator[Span]:
    yield from ((*match.span(), "key") for match in _PRIVATE_KEY.finditer(text))
    yield from ((*match.span(1), "key") for match in _KUBECONFIG.finditer(text))
    yield from ((*match.span(), "token") for match in _TOKEN.finditer(text))
    yield from ((*match.span(1), "password") for match in _URL.finditer(text) if not is_harmless(match[1]))
    start = 0
    while match := _ASSIGNED.search(text, start):
        name, value = match["name"], match["value"]
        if is_secret_name(name) and not is_harmless(value) and _looks_random(value):
            yield (*match.span("value"), "password")
            start = match.end()
        else:  # the value may be the name of the next pair: --token abc
            start = max(match.end("name"), start + 1)


def _looks_random(value: str) -> bool:
    """Long enough, of letters and digits, with little repeated: words and dotted names are not."""
    if len(value) < _LEAST or not (re.search(r"[A-Za-z]", value) and re.search(r"\d", value)):
        return False
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values()) >= _ENTROPY


def texts(raw: Any) -> Iterable[str]:
    """Every text in a value as it came: typed, or from a document."""
    if isinstance(raw, str):
        return [raw]
    if isinstance(raw, dict):
        return [text for key, value in raw.items() for text in (*texts(key), *texts(value), *_pair(key, value))]
    if isinstance(raw, list | tuple):
        joined = " ".join(part for part in raw if isinstance(part, str))
        return [*(text for part in raw for text in texts(part)), joined]
    return []


def _pair(key: Any, value: Any) -> list[str]:
    return [f"{key}={value}"] if isinstance(key, str) and isinstance(value, str) else []


def problem(field: str, raw: Any) -> Problem | None:
    """What is wrong with a field that has a secret in it; nothing of the secret is in it."""
    for text in texts(raw):
        if REMOVED in text:
            return Problem(field, "pasted-removed")
        if found := spans(text):
            return Problem(field, f"pasted-{found[0][2]}")
    return None


def without(raw: Any) -> Any:
    """A typed text with each secret in it replaced, so that it can be kept; other values as they are."""
    if not isinstance(raw, str):
        return raw
    for start, end, _kind in reversed(spans(raw)):
        raw = raw[:start] + REMOVED + raw[end:]
    return raw
