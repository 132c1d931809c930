"""What queues and the whole fleet allow: the plugins overcommit, capacity and proportion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.volcano import quantity
from apps.localcluster.volcano.quantity import Resources
from apps.localcluster.volcano.scheduler.model import Job, Node
from apps.localcluster.volcano.scheduler.settings import Settings

Object = dict[str, Any]

OVERCOMMIT = 1.2
ROOT = "root"
_INFINITE = 2**80


def without_gated(amounts: Resources, job: Job) -> Resources:
    """Gated pods hold nothing back from others."""
    held = job.gated()
    return {key: max(0, value - held.get(key, 0)) for key, value in amounts.items()} if held else amounts


def reserved(job: Job) -> Resources:
    """What a job that was let in may still claim."""
    asked = job.asked
    if asked is None:
        return {}
    if job.phase == "Inqueue" or (job.phase == "Running" and job.ready_count() >= job.minimum):
        return without_gated(quantity.excess(asked, job.allocated()), job)
    return {}


@dataclass
class Fleet:
    """The door of the whole cluster: it lets in somewhat more than there is."""

    total: Resources
    idle: Resources
    let_in: Resources

    @classmethod
    def of(cls, nodes: list[Node], jobs: list[Job], factor: float) -> Fleet:
        total = quantity.add(*(node.allocatable for node in nodes))
        used = quantity.add(*(node.used for node in nodes))
        wide = {key: int(value * factor) for key, value in total.items()}
        let_in = [without_gated(job.asked or {}, job) if job.phase == "Inqueue" else reserved(job) for job in jobs]
        return cls(total, quantity.subtract(wide, used), quantity.add(*let_in))

    def refused(self, job: Job) -> list[str]:
        """Names of the resources that are overused if this job is let in too."""
        asked = job.asked or {}
        after = quantity.add(self.let_in, asked)
        return quantity.exceeding({key: after[key] for key, value in asked.items() if value}, self.idle)


@dataclass(eq=False)
class Share:
    """A queue's limits and what its jobs hold. `ceiling` is what its pods may take, `limit` what may be let in."""

    item: Object
    limit: Resources
    ceiling: Resources
    deserved: Resources
    guarantee: Resources
    parent: Share | None = None  # with hierarchy only
    children: int = 0
    allocated: Resources = field(default_factory=dict)
    let_in: Resources = field(default_factory=dict)
    elastic: Resources = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return (self.item.get("status") or {}).get("state") == "Open"

    @property
    def reclaimable(self) -> bool:
        return self.item["spec"].get("reclaimable") is not False

    def line(self) -> Iterator[Share]:
        """The queue and those above it."""
        above: Share | None = self
        while above is not None:
            yield above
            above = above.parent

    def fraction(self) -> float:
        """How much of what it deserves a queue has. One that deserves nothing counts as having all."""
        parts = [self.allocated.get(k, 0) / v if v else 1.0 * bool(self.allocated.get(k)) for k, v in self.counted()]
        return max(parts, default=1.0)

    def counted(self) -> list[tuple[str, int]]:
        return [(key, value) for key, value in self.deserved.items() if value]

    def order(self) -> tuple[Any, ...]:
        """Queues of higher priority first, then those furthest below what they deserve, from the top down."""
        places = [(share.fraction(), not share.counted()) for share in self.line()]
        created, label = self.item["metadata"].get("creationTimestamp", ""), self.item["metadata"]["name"]
        return (-int(self.item["spec"].get("priority") or 0), places[::-1][self.parent is not None :], created, label)

    def kinship(self, other: Share) -> int:
        """How many queues above are the same ones."""
        return len(set(self.line()) & set(other.line())) if self.parent else 0

    def refused(self, job: Job) -> list[str]:
        """Names of the resources of which it, or a queue above, has too little left to let this job in."""
        asked = job.asked or {}
        for share in self.line():
            after = quantity.subtract(quantity.add(asked, share.allocated, share.let_in), share.elastic)
            if short := quantity.exceeding({key: after[key] for key, value in asked.items() if value}, share.limit):
                return short
        return []

    def admit(self, asked: Resources) -> None:
        for share in self.line():
            share.let_in = quantity.add(share.let_in, asked)

    def allows(self, request: Resources) -> bool:
        if not self.is_open or self.children:
            return False
        return not any(_short(quantity.add(share.allocated, request), request, share.ceiling) for share in self.line())

    def hold(self, request: Resources) -> None:
        for share in self.line():
            share.allocated = quantity.add(share.allocated, request)

    def release(self, request: Resources) -> None:
        for share in self.line():
            share.allocated = quantity.subtract(share.allocated, request)

    def overused(self) -> bool:
        return not any(self.allocated.get(key, 0) < value for key, value in self.deserved.items())


def _short(after: Resources, request: Resources, limit: Resources) -> list[str]:
    return quantity.exceeding({k: after[k] for k, v in request.items() if v}, limit)


def shares(settings: Settings, queues: dict[str, Object], jobs: list[Job], total: Resources) -> dict[str, Share]:
    """The share of every queue, filled with what its jobs hold."""
    hierarchy = settings.has("capacity", "enableHierarchy")
    out = _tree(queues, total) if hierarchy else _flat(queues, total)
    if not settings.has("capacity") and not settings.has("proportion"):
        for share in out.values():
            share.limit = share.ceiling = dict.fromkeys([*total, *share.limit], _INFINITE)
    for job in jobs:
        share, held = out[job.queue], job.allocated()
        share.hold(held)
        share.admit(reserved(job))
        for above in share.line():
            above.elastic = quantity.add(above.elastic, quantity.excess(held, job.asked or {}))
    if settings.has("proportion"):
        _divide(out, jobs, total)
    return out


def _share(item: Object, limit: Resources, capability: Resources) -> Share:
    spec = item["spec"]
    guarantee = quantity.parse_all((spec.get("guarantee") or {}).get("resource"))
    for resource, value in capability.items():
        limit[resource] = min(limit.get(resource, 0), value)
    deserved = {k: min(v, limit.get(k, 0)) for k, v in quantity.parse_all(spec.get("deserved")).items()}
    return Share(item, limit, limit, quantity.largest(deserved, guarantee), guarantee)


def _guarantee(item: Object) -> Resources:
    return quantity.parse_all((item["spec"].get("guarantee") or {}).get("resource"))


def _flat(queues: dict[str, Object], total: Resources) -> dict[str, Share]:
    """Every queue for itself: the fleet without what is guaranteed to others, and at most its capability."""
    free = quantity.excess(total, quantity.add(*map(_guarantee, queues.values())))
    out = {}
    for label, item in queues.items():
        # A cpu or memory of 0 counts as not given; an accelerator of 0 means none.
        capability = {
            resource: _INFINITE if resource in ("cpu", "memory") and value <= 0 else value
            for resource, value in quantity.parse_all(item["spec"].get("capability")).items()
        }
        out[label] = _share(item, quantity.add(free, _guarantee(item)), capability)
    return out


def _tree(queues: dict[str, Object], total: Resources) -> dict[str, Share]:
    """Queues below queues: what one above may use limits those below; the root is as large as one likes."""
    out: dict[str, Share] = {}
    parents = {label: item["spec"].get("parent") or ROOT for label, item in queues.items() if label != ROOT}
    children = {label: [c for c, parent in parents.items() if parent == label] for label in queues}
    if ROOT in queues:
        capability = quantity.parse_all(queues[ROOT]["spec"].get("capability"))
        out[ROOT] = _share(queues[ROOT], capability or dict.fromkeys(total, _INFINITE), {})
    level = [ROOT] if ROOT in queues else []
    for label in level:  # grows while it is walked
        above = out[label]
        above.children = len(children[label])
        free = quantity.excess(above.limit, quantity.add(*(_guarantee(queues[child]) for child in children[label])))
        for child in children[label]:
            capability = quantity.parse_all(queues[child]["spec"].get("capability"))
            given = {k: v for k, v in capability.items() if v > 0 or k not in ("cpu", "memory")}
            out[child] = _share(queues[child], quantity.add(free, _guarantee(queues[child])), given)
            out[child].parent = above
            level.append(child)
    # A queue that hangs nowhere gives nothing out.
    return out | {label: Share(queues[label], {}, {}, {}, {}) for label in queues.keys() - out.keys()}


def _divide(out: dict[str, Share], jobs: list[Job], total: Resources) -> None:
    """What queues deserve by weight: the fleet is divided among those that still ask, until nobody gains."""
    asking = {job.queue: out[job.queue] for job in jobs}
    requests = {
        label: quantity.add(
            *(t.request for job in jobs if job.queue == label for t in job.tasks if t.occupying or t.state == "Pending")
        )
        for label in asking
    }
    for share in out.values():
        share.deserved = share.ceiling = {}
    left, unmet = total, dict(asking)
    while unmet and any(left.values()):
        weights = {label: int(share.item["spec"].get("weight") or 1) for label, share in unmet.items()}
        whole, before = sum(weights.values()), left
        for label, share in list(unmet.items()):
            portion = {key: value * weights[label] // whole for key, value in before.items()}
            wanted = quantity.add(share.deserved, portion)
            new = {key: min(wanted.get(key, 0), share.limit.get(key, 0), v) for key, v in requests[label].items()}
            new = quantity.largest(new, share.guarantee)
            left = quantity.excess(quantity.add(left, share.deserved), new)
            if new == share.deserved or not quantity.exceeding(requests[label], new):
                del unmet[label]
            share.deserved = share.ceiling = new
        if left == before:
            break


def allocated_status(queues: dict[str, Object], jobs: list[Job]) -> dict[str, dict[str, str]]:
    """`status.allocated` of every queue, what its children hold included."""
    totals: dict[str, Resources] = {label: {} for label in queues}
    for job in jobs:
        label, held, seen = job.queue, job.allocated(), set[str]()
        while label in totals and label not in seen:
            totals[label] = quantity.add(totals[label], held)
            seen.add(label)
            label = queues[label]["spec"].get("parent") or ""
    return {
        label: quantity.render_all({"cpu": 0, "memory": 0} | {k: v for k, v in amounts.items() if v})
        for label, amounts in totals.items()
    }
