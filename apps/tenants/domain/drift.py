"""How an object in the cluster differs from what was applied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from apps.tenants.domain.place import MANAGER, TENANT_LABEL

MISSING, APPLIED, DRIFTED, REFUSED, TAKEN, WAITING = "missing", "applied", "drifted", "refused", "taken", "waiting"
"""States of an object: not there; as it should be; changed by somebody else; the cluster says no; the name belongs to
an object that is not ours; not asked for yet."""
DONE = "done"
"""Of a step of the removal: it is gone."""

MOST_FIELDS = 8
LONGEST_VALUE = 80
_SERVERS_OWN = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"})


@dataclass(frozen=True)
class Difference:
    """One field: what it `is` and what it `should` be, as text; "" where it is not there."""

    field: str
    is_: str
    should: str


@dataclass(frozen=True)
class Found:
    """A step as last seen. `mark` is that of the last apply ("" for none), `version` the resourceVersion last looked
    at, `text` the cluster's own words."""

    key: str
    kind: str
    name: str
    state: str = WAITING
    fields: tuple[Difference, ...] = ()
    text: str = ""
    mark: str = ""
    version: str = ""

    @property
    def is_off(self) -> bool:
        """Somebody has to look: it is not, or not as it should be."""
        return self.state in (MISSING, DRIFTED, REFUSED, TAKEN)

    def to_row(self) -> dict[str, Any]:
        """As kept in `Placement.steps`."""
        return {**asdict(self), "fields": [asdict(one) for one in self.fields]}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Found:
        fields = tuple(Difference(**one) for one in row.get("fields", ()))
        return cls(**{**row, "fields": fields})


def is_ours(live: Mapping[str, Any], tenant: str) -> bool:
    """Whether an object is this tenant's: by its label, or because we have applied it (a label can be taken off)."""
    metadata = live.get("metadata", {})
    labelled = (metadata.get("labels") or {}).get(TENANT_LABEL)
    if labelled is not None:
        return bool(labelled == tenant)
    return any(
        entry.get("manager") == MANAGER and entry.get("operation") == "Apply"
        for entry in metadata.get("managedFields") or []
    )


def differences(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[Difference, ...]:
    """What an apply would change: `live` is what is there, `wanted` the server's answer to the apply as a dry run."""
    found = []
    for path, is_, should in _differences(_compared(live), _compared(wanted), ""):
        found.append(Difference(path, _shown(is_), _shown(should)))
        if len(found) == MOST_FIELDS:
            break
    return tuple(found)


@dataclass(frozen=True)
class _Absent:
    pass


def _compared(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key not in _SERVERS_OWN}
    return {key: value for key, value in body.items() if key != "status"} | {"metadata": metadata}


def _differences(is_: Any, should: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(is_, dict) and isinstance(should, dict):
        for key in sorted(is_.keys() | should.keys()):
            inner = f"{path}.{key}" if path else key
            yield from _differences(is_.get(key, _Absent()), should.get(key, _Absent()), inner)
    elif isinstance(is_, list) and isinstance(should, list) and len(is_) == len(should):
        for index, (left, right) in enumerate(zip(is_, should, strict=True)):
            yield from _differences(left, right, f"{path}[{index}]")
    elif is_ != should:
        yield path, is_, should


def _shown(value: Any) -> str:
    if isinstance(value, _Absent):
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
