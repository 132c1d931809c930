"""A job's lines in its cluster's own log store: which streams are its ranks', and what is asked of them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

from apps.jobs.domain.manifests import object_name

CONTAINER = "main"
MOST_RANKS = 50


@dataclass(frozen=True)
class Look:
    """What is looked for: lines between two moments (ns, `until` not in it), of some ranks (empty: all), with a text
    in them as it is written."""

    since: int
    until: int
    ranks: tuple[int, ...] = ()
    text: str = ""

    def to_row(self) -> list[Any]:
        return [self.since, self.until, list(self.ranks), self.text]

    @classmethod
    def of_row(cls, row: list[Any]) -> Self:
        since, until, ranks, text = row
        return cls(since, until, tuple(ranks), text)


def pod_name(job_id: str, rank: int) -> str:
    """Of a rank, in every attempt."""
    return f"{object_name(job_id)}-worker-{rank - 1}" if rank else f"{object_name(job_id)}-master-0"


def rank_of(job_id: str, pod: str) -> int | None:
    """None for a pod that is no rank's."""
    found = re.fullmatch(rf"{object_name(job_id)}-(?:(master)-0|worker-(\d{{1,6}}))", pod)
    if found is None:
        return None
    return 0 if found[1] else int(found[2]) + 1


def pods_pattern(job_id: str, ranks: Collection[int]) -> str:
    """An expression (RE2) that the pods of some ranks fit and no other pod, of all ranks for none."""
    if ranks:
        return "|".join(pod_name(job_id, rank) for rank in sorted(ranks))
    return f"{object_name(job_id)}-(master|worker)-[0-9]+"
