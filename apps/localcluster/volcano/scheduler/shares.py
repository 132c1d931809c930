"""What queues and the whole fleet allow: the overcommit and capacity plugins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.volcano import quantity
from apps.localcluster.volcano.quantity import Resources
from apps.localcluster.volcano.scheduler.model import Job, Node

Object = dict[str, Any]

OVERCOMMIT = 1.2
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
    """The door of the whole cluster: it lets in up to 120 % of what there is."""

    total: Resources
    idle: Resources
    let_in: Resources

    @classmethod
    def of(cls, nodes: list[Node], jobs: list[Job]) -> Fleet:
        total = quantity.add(*(node.allocatable for node in nodes))
        used = quantity.add(*(node.used for node in nodes))
        wide = {key: int(value * OVERCOMMIT) for key, value in total.items()}
        let_in = [without_gated(job.asked or {}, job) if job.phase == "Inqueue" else reserved(job) for job in jobs]
        return cls(total, quantity.subtract(wide, used), quantity.add(*let_in))

    def refused(self, job: Job) -> list[str]:
        """Names of the resources that are overused if this job is let in too."""
        asked = job.asked or {}
        after = quantity.add(self.let_in, asked)
        return quantity.exceeding({key: after[key] for key, value in asked.items() if value}, self.idle)


@dataclass
class Share:
    """A queue's limit and what its jobs hold."""

    item: Object
    limit: Resources
    allocated: Resources = field(default_factory=dict)
    let_in: Resources = field(default_factory=dict)
    elastic: Resources = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return (self.item.get("status") or {}).get("state") == "Open"

    def order(self) -> tuple[int, float]:
        """Queues of higher priority first, then those furthest below what they deserve."""
        deserved = quantity.parse_all(self.item["spec"].get("deserved"))
        shares = [self.allocated.get(k, 0) / v if v else 1.0 * bool(self.allocated.get(k)) for k, v in deserved.items()]
        return (-int(self.item["spec"].get("priority") or 0), max(shares, default=0.0))

    def refused(self, job: Job) -> list[str]:
        """Names of the resources of which the queue has too little left to let this job in."""
        asked = job.asked or {}
        after = quantity.subtract(quantity.add(asked, self.allocated, self.let_in), self.elastic)
        return quantity.exceeding({key: after[key] for key, value in asked.items() if value}, self.limit)

    def allows(self, request: Resources) -> bool:
        after = quantity.add(self.allocated, request)
        return self.is_open and not quantity.exceeding({k: after[k] for k, v in request.items() if v}, self.limit)


def shares(queues: dict[str, Object], jobs: list[Job], total: Resources) -> dict[str, Share]:
    guarantees = {
        label: quantity.parse_all((item["spec"].get("guarantee") or {}).get("resource"))
        for label, item in queues.items()
    }
    promised = quantity.add(*guarantees.values())
    out: dict[str, Share] = {}
    for label, item in queues.items():
        limit = quantity.add(quantity.excess(total, promised), guarantees[label])
        for resource, value in quantity.parse_all(item["spec"].get("capability")).items():
            # A cpu or memory of 0 counts as not given; an accelerator of 0 means none.
            capped = _INFINITE if resource in ("cpu", "memory") and value <= 0 else value
            limit[resource] = min(limit.get(resource, 0), capped)
        out[label] = Share(item, limit)
    for job in jobs:
        share, held = out[job.queue], job.allocated()
        share.allocated = quantity.add(share.allocated, held)
        share.let_in = quantity.add(share.let_in, reserved(job))
        share.elastic = quantity.add(share.elastic, quantity.excess(held, job.asked or {}))
    return out


def allocated_status(queues: dict[str, Object], shares_by_name: dict[str, Share]) -> dict[str, dict[str, str]]:
    """`status.allocated` of every queue, what its children hold included."""
    totals = {label: dict(share.allocated) for label, share in shares_by_name.items()}
    for label, share in shares_by_name.items():
        parent, seen = queues[label]["spec"].get("parent") or "", {label}
        while parent in totals and parent not in seen:
            totals[parent] = quantity.add(totals[parent], share.allocated)
            seen.add(parent)
            parent = queues[parent]["spec"].get("parent") or ""
    return {
        label: quantity.render_all({"cpu": 0, "memory": 0} | {k: v for k, v in amounts.items() if v})
        for label, amounts in totals.items()
    }
