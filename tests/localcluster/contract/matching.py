"""Whether an answer is the recorded one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

FORMS = {
    "uid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "rv": r"\d+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)",
    "continue": r"[\w=+/-]+",
    "jwt": r"[\w-]+\.[\w-]+\.[\w-]+",
    "suffix": r"[a-z0-9]+",
    "hash": r"[0-9A-Za-z]+",
    "text": r".*",
    "server": r"[\w.:\[\]-]+",
    "port": r"\d+",
    "ip": r"[0-9a-f.:]+",
    "certificate": r"-----BEGIN CERTIFICATE-----.*",
    "i": r"\d+",
    "16 hex": r"[0-9a-f]+",
    "host": r"\S+",
    "exp": r"\d+",
    "iat": r"\d+",
    "nbf": r"\d+",
}
PLACEHOLDER = re.compile("<(" + "|".join(FORMS) + ")>")

NEVER_UNASKED = {"warning", "retry-after", "location", "allow", "www-authenticate"}
"""Headers that say something: one that was not recorded is as wrong as one that is missing."""

OWN_WORDS_HEADERS = {"content-type", "retry-after"}
STATUS_CODE = ("kind", "status", "reason", "code")


def fits(wanted: str, got: Any) -> bool:
    """Whether a text has the recorded form: values in angle brackets stand for anything of theirs."""
    if isinstance(got, int) and not isinstance(got, bool) and PLACEHOLDER.fullmatch(wanted):
        got = str(got)
    if not isinstance(got, str):
        return False
    parts = PLACEHOLDER.split(wanted)
    pattern = "".join(FORMS[part] if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return re.fullmatch(pattern, got, re.DOTALL) is not None


@dataclass(frozen=True)
class Comparison:
    """`part`: only what was recorded counts, null is "anything". `shortened`: lists hold some of the items.

    `any_order`: the real server's own order changes from run to run. `own_words`: messages may differ.
    `repeated`: what was recorded once may have come several times.
    """

    part: bool = False
    shortened: bool = False
    any_order: bool = False
    own_words: bool = False
    repeated: bool = False

    def difference(self, wanted: Any, got: Any, path: str = "") -> str | None:
        """The first difference, None when there is none."""
        if wanted is None and self.part:
            return None
        if isinstance(wanted, dict) and isinstance(got, dict):
            return self._of_objects(wanted, got, path)
        if isinstance(wanted, list) and isinstance(got, list):
            return self._of_lists(wanted, got, path)
        if isinstance(wanted, str):
            same = fits(wanted, got) or (isinstance(got, str) and self._as_good(wanted, got, path))
        else:
            same = wanted == got and isinstance(wanted, bool) == isinstance(got, bool)
        return None if same else f"{path or '/'} is {got!r}, not {wanted!r}"

    def _as_good(self, wanted: str, got: str, path: str) -> bool:
        if not path.endswith("/message"):
            return False
        # Several errors in one message: in another order, or another one of them.
        same_words = sorted(re.findall(r"[\w.-]+", wanted)) == sorted(re.findall(r"[\w.-]+", got))
        same_start = wanted.split(": ")[0] == got.split(": ")[0]
        return self.own_words or (self.any_order and (same_words or same_start))

    def _of_objects(self, wanted: dict[str, Any], got: dict[str, Any], path: str) -> str | None:
        seen = {"managedFields"} - wanted.keys()
        for name, value in wanted.items():
            key = name if name in got else next((key for key in got if fits(name, key)), None)
            if key is None:
                if value is None and self.part:
                    continue
                return f"{path}/{name} is missing"
            seen.add(key)
            if found := self.difference(value, got[key], f"{path}/{key}"):
                return found
        extra = set() if self.part else got.keys() - seen
        return f"{path}/{min(extra)} was not recorded" if extra else None

    def _of_lists(self, wanted: list[Any], got: list[Any], path: str) -> str | None:
        if self.repeated and path == "/items" and len(wanted) == 1 and got:
            wanted = wanted * len(got)
        if len(wanted) != len(got) and not self.shortened:
            return f"{path} has {len(got)} items, not {len(wanted)}: {str(got)[:300]}"
        if self.shortened or self.any_order or path.endswith("/conditions"):
            return self._of_sets(wanted, got, path)
        pairs = enumerate(zip(wanted, got, strict=True))
        return next((found for i, (a, b) in pairs if (found := self.difference(a, b, f"{path}/{i}"))), None)

    def _of_sets(self, wanted: list[Any], got: list[Any], path: str) -> str | None:
        left = list(got)
        for index, item in enumerate(wanted):
            differences = [self.difference(item, each, f"{path}/{index}") for each in left]
            if None not in differences:
                return next(iter(differences), None) or f"{path} has nothing like {item!r}"
            left.pop(differences.index(None))
        return None


def header_difference(
    wanted: dict[str, Any], got: Iterable[tuple[str, str]], status: int, *, own_words: bool
) -> str | None:
    found: dict[str, list[str]] = {}
    for name, value in got:
        found.setdefault(name.lower(), []).append(value)
    for name, value in wanted.items():
        if own_words and name.lower() not in OWN_WORDS_HEADERS:
            continue
        values, have = value if isinstance(value, list) else [value], found.get(name.lower(), [])
        if name == "Retry-After" and status == 429 and len(have) == 1 and have[0].isdigit():
            continue  # advice that grows with the load
        if len(values) != len(have) or not all(map(fits, values, have)):
            return f"header {name} is {have}, not {values}"
    unasked = NEVER_UNASKED & found.keys() - {name.lower() for name in wanted}
    return f"header {min(unasked)} was not recorded" if unasked and not own_words else None
