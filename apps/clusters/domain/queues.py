"""The tree of queues: what each deserves, what it uses, and what of that is borrowed from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ROOT = "root"
DEEPEST = 6


@dataclass(frozen=True)
class QueueSeen:
    """A Queue as read. Amounts are by resource, as the cluster counts them: of cpu thousandths, of memory bytes.
    `deserved` and `capability` lack a resource that is not limited."""

    name: str
    parent: str = ""
    state: str = ""
    weight: int = 1
    reclaimable: bool = True
    deserved: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    capability: Mapping[str, int] = field(default_factory=dict)
    allocated: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A queue in the tree, counted in one resource. `deserved` and `limit` are None where nothing is said."""

    queue: QueueSeen
    depth: int
    deserved: int | None
    used: int
    limit: int | None

    @property
    def borrowed(self) -> int:
        """What it uses beyond what it deserves; others may take it back."""
        return max(0, self.used - self.deserved) if self.deserved is not None else 0

    @property
    def lent(self) -> int:
        """What it deserves and does not use."""
        return max(0, self.deserved - self.used) if self.deserved is not None else 0


def tree(queues: Iterable[QueueSeen], resource: str) -> list[Line]:
    """Parents before their children, by name; of a queue that stands above itself, each once at the top."""
    known = {queue.name: queue for queue in queues}
    children: dict[str, list[str]] = {}
    for queue in known.values():
        parent = queue.parent if queue.parent in known and queue.parent not in (ROOT, queue.name) else ""
        children.setdefault(parent, []).append(queue.name)
    lines: list[Line] = []
    done: set[str] = set()

    def walk(name: str, depth: int) -> None:
        if name in done or name == ROOT:
            return
        done.add(name)
        queue = known[name]
        lines.append(
            Line(
                queue, depth, queue.deserved.get(resource), queue.allocated.get(resource, 0),
                queue.capability.get(resource),
            )
        )  # fmt: skip
        for child in sorted(children.get(name, [])):
            walk(child, min(depth + 1, DEEPEST))

    for name in [*sorted(children.get("", [])), *sorted(known)]:
        walk(name, 0)
    return lines


def resources(queues: Iterable[QueueSeen]) -> list[str]:
    """The resources that anything is said of."""
    parts = (part for queue in queues for part in (queue.deserved, queue.capability, queue.allocated))
    return sorted({name for part in parts for name in part})
