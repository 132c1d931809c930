"""The recorded cases (tests/cases/kubernetes), and what they touch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[2] / "cases/kubernetes"
Case = dict[str, Any]
Step = dict[str, Any]

OWES_ANSWER, OWES_REASON, MAY_REFUSE = (
    "must match",
    "code and reason must match, message may differ",
    "may refuse with 501/405",
)
"""The values of `embedded`: what the small cluster owes."""

OBJECT = re.compile(r"(/(?:api/v1|apis/[^/]+/[^/]+))(?:/namespaces/([^/]+))?/([^/?]+)(?:/([^/?]+))?")


@cache
def load() -> dict[str, Case]:
    """By id, in the order of the files."""
    cases = [case for path in sorted(CASES.glob("[0-9][0-9]-*.json")) for case in json.loads(path.read_text())]
    return {case["id"]: case for case in cases}


def steps(case: Case) -> Iterator[Step]:
    """Its requests in order, the one that counts among them."""
    yield from (step for step in case["setup"] if "method" in step)
    if "method" in case["request"]:
        yield case["request"]
        yield from case["request"].get("during", [])


def namespaces(case: Case) -> list[str]:
    """Those it makes. Their names begin with `c-`."""
    made = [pointed(step, "/body/metadata/name") for step in steps(case) if step["path"] == "/api/v1/namespaces"]
    return [name for name in dict.fromkeys(made) if isinstance(name, str) and name.startswith("c-")]


def target(step: Step) -> tuple[str | None, str | None]:
    """(namespace, path of the object) that a write is about; None for no namespace, and for an unknown name."""
    found = OBJECT.match(step["path"])
    if not found:
        return None, None
    base, namespace, resource, name = found.groups()
    name = name or pointed(step, "/body/metadata/name")
    prefix = f"{base}/namespaces/{namespace}" if namespace else base
    return namespace, f"{prefix}/{resource}/{name}" if isinstance(name, str) else None


def body_of(words: str) -> Any:
    """The custom resource definition that another case makes; `words` end in that case's id."""
    other = load()[words.split()[-1]]
    return next(
        step["body"] for step in [other["request"], *other["setup"]] if "customresourcedefinitions" in step["path"]
    )


def pointed(value: Any, pointer: str) -> Any:
    """What a JSON pointer points to; None where there is nothing."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return value


def filled(value: Any, names: dict[str, str]) -> Any:
    """The same with saved values where `${name}` stands."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda found: names.get(found.group(1), found.group()), value)
    if isinstance(value, dict):
        return {filled(key, names): filled(each, names) for key, each in value.items()}
    return [filled(each, names) for each in value] if isinstance(value, list) else value
