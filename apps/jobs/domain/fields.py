"""Reading one typed-in value: exact bounds, no silent rounding, every fault by its code."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from typing import Any

from apps.jobs.domain import pasted
from apps.jobs.domain.problems import Problem

Value = str | int | float | list[str] | dict[str, str] | None

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
_IMAGE = re.compile(
    r"([a-z0-9]+([._-][a-z0-9]+)*(:\d{1,5})?/)*[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?"
    r"(@sha256:[0-9a-f]{64})?"
)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CHECKPOINT = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}@\d{1,15}")
_SERIES = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,39}")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}")
_SECRET = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


_LOST = re.compile("[\0\x1a\ud800-\udfff]")
"""NUL, what stands in its place in a draft, and halves of characters: none can be stored."""


def _plain(raw: Any) -> str:
    return "" if raw is None else str(raw).strip()


@dataclass(frozen=True)
class Integer:
    """Without a default it may be left empty, and is None then."""

    minimum: int
    maximum: int
    default: int | None
    kind: str = "integer"

    def read(self, name: str, raw: Any) -> int | Problem | None:
        """Whole numbers only: "1.5" and "1e3" are refused, not rounded."""
        text = _plain(raw)
        if not text and self.default is None:
            return None
        if isinstance(raw, bool) or not _INTEGER.fullmatch(text):
            return Problem(name, "not-whole", {"value": text[:40]})
        if not self.minimum <= int(text) <= self.maximum:
            return Problem(name, "out-of-range", {"value": text, "minimum": self.minimum, "maximum": self.maximum})
        return int(text)


@dataclass(frozen=True)
class Decimal:
    """Without a default it may be left empty, and is None then."""

    minimum: float
    maximum: float
    default: float | None
    kind: str = "decimal"

    def read(self, name: str, raw: Any) -> float | Problem | None:
        """A finite number; "1e400" and "nan" are not."""
        text = _plain(raw)
        if not text and self.default is None:
            return None
        if isinstance(raw, bool) or not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
            return Problem(name, "not-number", {"value": text[:40]})
        if not self.minimum <= float(text) <= self.maximum:
            return Problem(name, "out-of-range", {"value": text, "minimum": self.minimum, "maximum": self.maximum})
        return float(text)


@dataclass(frozen=True)
class Text:
    maximum: int
    default: str = ""
    required: bool = False
    kind: str = "text"

    def read(self, name: str, raw: Any) -> str | Problem:
        if not isinstance(raw, str):
            return Problem(name, "not-text")
        if len(raw) > self.maximum:
            return Problem(name, "too-long", {"maximum": self.maximum, "length": len(raw)})
        if any(not c.isprintable() for c in raw.replace("\n", "").replace("\t", "")):
            return Problem(name, "unprintable")
        if self.required and not raw.strip():
            return Problem(name, "required")
        return raw.strip()


@dataclass(frozen=True)
class JobName:
    """The name people read, in any script; objects in the cluster are named after the job's id."""

    maximum: int = 63
    default: str = ""
    kind: str = "name"

    def read(self, name: str, raw: Any) -> str | Problem:
        if not isinstance(raw, str) or not raw.strip():
            return Problem(name, "required")
        if not raw.isprintable():
            return Problem(name, "unprintable")
        text = raw.strip()
        if len(text) > self.maximum:
            return Problem(name, "too-long", {"maximum": self.maximum, "length": len(text)})
        if set(text) & set("/\\<>"):
            return Problem(name, "name-characters")
        return text


@dataclass(frozen=True)
class Image:
    default: str = ""
    kind: str = "image"

    def read(self, name: str, raw: Any) -> str | Problem:
        """A reference as container runtimes read it; the cluster itself would accept nonsense and hang."""
        if not isinstance(raw, str) or not raw.strip():
            return Problem(name, "required")
        text = raw.strip()
        if len(text) > 255 or not _IMAGE.fullmatch(text):
            return Problem(name, "not-image", {"value": text[:80]})
        return text


@dataclass(frozen=True)
class Command:
    """One shell-like line, split into arguments; no shell runs unless the user names one."""

    maximum: int = 4000
    default: str = ""
    kind: str = "command"

    def read(self, name: str, raw: Any) -> list[str] | Problem:
        if isinstance(raw, list) and all(isinstance(part, str) for part in raw):
            parts = list(raw)
        elif isinstance(raw, str):
            try:
                parts = shlex.split(raw)
            except ValueError:
                return Problem(name, "unclosed-quote")
        else:
            return Problem(name, "not-text")
        if not parts:
            return Problem(name, "required")
        if sum(map(len, parts)) > self.maximum:
            return Problem(name, "too-long", {"maximum": self.maximum, "length": sum(map(len, parts))})
        if any(map(_LOST.search, parts)):
            return Problem(name, "unprintable")
        return parts


@dataclass(frozen=True)
class Environment:
    """Lines of NAME=value. What is named like a secret is refused: it would be readable in the cluster."""

    maximum: int = 8000
    default: str = ""
    kind: str = "environment"

    def read(self, name: str, raw: Any) -> dict[str, str] | Problem:
        if isinstance(raw, dict):
            pairs = [(str(key), str(value)) for key, value in raw.items()]
        elif isinstance(raw, str):
            lines = [line for line in raw.splitlines() if line.strip()]
            if bad := next((line for line in lines if "=" not in line), None):
                return Problem(name, "env-line", {"line": bad[:40]})
            pairs = [(key.strip(), value.strip()) for key, value in (line.split("=", 1) for line in lines)]
        else:
            return Problem(name, "not-text")
        for key, value in pairs:
            if not _ENV_NAME.fullmatch(key):
                return Problem(name, "env-name", {"name": key[:40]})
            if pasted.is_secret_name(key) and not pasted.is_harmless(value):
                return Problem(name, "env-secret", {"name": key[:40]})
            if _LOST.search(value):
                return Problem(name, "unprintable")
        if sum(len(key) + len(value) for key, value in pairs) > self.maximum:
            return Problem(name, "too-long", {"maximum": self.maximum, "length": self.maximum + 1})
        return dict(pairs)


@dataclass(frozen=True)
class SecretNames:
    """Names of the tenant's secrets that every rank finds as files; a list, or a text with one a line."""

    most: int = 10
    default: tuple[str, ...] = ()
    kind: str = "secrets"

    def read(self, name: str, raw: Any) -> list[str] | Problem:
        names = raw.replace(",", " ").split() if isinstance(raw, str) else raw
        if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
            return Problem(name, "not-names")
        if any(not _SECRET.fullmatch(one) for one in names):
            return Problem(name, "not-names")
        if len(names) > self.most:
            return Problem(name, "too-many-secrets", {"maximum": self.most})
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    options: tuple[str, ...]
    default: str
    kind: str = "choice"

    def read(self, name: str, raw: Any) -> str | Problem:
        text = str(raw).strip()
        if text not in self.options:
            return Problem(name, "not-choice", {"value": text[:40], "options": ", ".join(self.options)})
        return text


@dataclass(frozen=True)
class Choices:
    """Any of some words; a list, or a text."""

    options: tuple[str, ...]
    default: tuple[str, ...] = ()
    kind: str = "choices"

    def read(self, name: str, raw: Any) -> list[str] | Problem:
        words = raw.replace(",", " ").split() if isinstance(raw, str) else raw
        if not isinstance(words, list | tuple):
            return Problem(name, "not-choice", {"value": str(raw)[:40], "options": ", ".join(self.options)})
        if odd := [str(word) for word in words if word not in self.options]:
            return Problem(name, "not-choice", {"value": odd[0][:40], "options": ", ".join(self.options)})
        return [option for option in self.options if option in words]


@dataclass(frozen=True)
class Checkpoint:
    """Where a job goes on from: another job's id and the step of its checkpoint, as ID@STEP; empty for the
    beginning."""

    default: str = ""
    kind: str = "checkpoint"

    def read(self, name: str, raw: Any) -> str | Problem:
        text = _plain(raw)
        if text and not _CHECKPOINT.fullmatch(text):
            return Problem(name, "not-checkpoint", {"value": text[:60]})
        return text


@dataclass(frozen=True)
class Metrics:
    """Lines of series=metric: what each rank exposes to Prometheus. `step` says to which step the others belong.

    Names alone, no queries: which pods' metrics are read is for the portal to say.
    """

    most: int = 20
    default: str = ""
    kind: str = "metrics"

    def read(self, name: str, raw: Any) -> dict[str, str] | Problem:
        if isinstance(raw, dict):
            pairs = [(str(key), str(value)) for key, value in raw.items()]
        elif isinstance(raw, str):
            lines = [line.partition("=") for line in raw.splitlines() if line.strip()]
            pairs = [(key.strip(), value.strip()) for key, _equals, value in lines]
        else:
            return Problem(name, "not-text")
        for series, metric in pairs:
            if not _SERIES.fullmatch(series) or not _METRIC.fullmatch(metric):
                return Problem(name, "not-metric", {"line": f"{series}={metric}"[:60]})
        if len(pairs) > self.most:
            return Problem(name, "too-many-metrics", {"maximum": self.most})
        if pairs and "step" not in dict(pairs):
            return Problem(name, "metrics-step")
        return dict(pairs)


Field = (
    Integer | Decimal | Text | JobName | Image | Command | Environment | SecretNames | Choice | Choices | Checkpoint
    | Metrics
)  # fmt: skip
