"""What a pod may have of this machine and of its node: a process slot, and devices by number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Object = dict[str, Any]
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Claim:
    """One pod and the processes it needs. `ready`: all but the slot is there; `group`: pods that run together."""

    uid: str
    group: str
    size: int
    since: str
    ready: bool = False
    granted: bool = False


def size(pod: Object) -> int:
    return len(pod["spec"]["containers"])


def group(pod: Object) -> str:
    """What the gang scheduler calls the pod's group, else the pod itself."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    name = annotations.get("scheduling.k8s.io/group-name") or annotations.get("scheduling.volcano.sh/group-name")
    return f"{metadata.get('namespace', '')}/{name}" if name else str(metadata["uid"])


def grant(claims: Iterable[Claim], limit: int) -> list[str]:
    """Uids of the pods that get their slots now.

    The oldest group comes first, and no younger one passes it. A group gets its slots together, so that two groups
    never wait for each other with half their ranks running; a group larger than the machine gets what there is.
    """
    groups = [list(members) for _, members in groupby(sorted(claims, key=lambda c: c.group), key=lambda c: c.group)]
    used = sum(c.size for members in groups for c in members if c.granted)
    allowed: list[str] = []
    for members in sorted(
        groups, key=lambda members: (not any(c.granted for c in members), min(c.since for c in members))
    ):
        waiting = [c for c in members if not c.granted]
        begun, need = len(waiting) < len(members), sum(c.size for c in waiting)
        if not begun and not any(c.ready for c in waiting):
            continue  # nothing could start yet: it holds nobody up
        whole = sum(c.size for c in members)
        if used + need > limit and whole <= limit:
            break
        for claim in sorted(waiting, key=lambda c: (c.since, c.uid)):
            # A pod with more containers than the limit runs when it is alone.
            if used + claim.size <= limit or used == 0:
                used += claim.size
                if claim.ready:
                    allowed.append(claim.uid)
        if whole > limit:
            break
    return allowed


def gpus(pod: Object) -> int:
    """GPUs the pod asks for. A count the API server accepts but no node can have (`1e400`) is just too many."""
    total = 0
    for container in pod["spec"]["containers"]:
        text = str(((container.get("resources") or {}).get("limits") or {}).get(GPU, "0"))
        total += int(text) if text.isdigit() else 10**6
    return total


def devices(count: int, capacity: int, used: Iterable[int]) -> tuple[int, ...] | None:
    """The lowest free device numbers, or None if there are not enough."""
    taken = set(used)
    free = [number for number in range(capacity) if number not in taken]
    return tuple(free[:count]) if len(free) >= count else None
