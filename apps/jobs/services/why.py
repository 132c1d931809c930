"""Why a job has no place: the arithmetic of its queue and of the nodes, who holds what it needs, what would release it.

The scheduler's words name no amounts, and say the same of what passes and of what never will; so it is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.utils.translation import gettext

from apps.accounts.types import Actor
from apps.clusters import services as clusters
from apps.jobs.domain.lifecycle import Reason
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.spec import JobSpec
from apps.jobs.models import Job, JobRank
from apps.jobs.services.holding import ON_NODES
from apps.jobs.services.messages import amount_text, reason_text, release_text

CPU, MEMORY = "cpu", "memory"
SHOWN = 6
_COUNTED = frozenset({"waiting.scheduler", "waiting.queue-limit", "waiting.cluster-full", "waiting.nodes"})
"""What the cluster says of a waiting job that its queue and nodes may explain better."""


@dataclass(frozen=True)
class Holder:
    """A job of the tenant with accelerators that the waiting one could have; `placed` is false for one that was let in
    before it and has no nodes yet."""

    job: Job
    amount: int
    placed: bool


@dataclass(frozen=True)
class Why:
    """`reasons` are what is in the way, the worst first; `told` is what the scheduler itself last said. `others` counts
    the accelerators that are held by work the reader is not shown."""

    job: Job
    finding: clusters.Finding
    reasons: list[Reason]
    holders: list[Holder]
    others: int
    told: str

    @property
    def sentences(self) -> list[str]:
        """The reasons in the reader's language."""
        return [reason_text(reason.code, reason.params) for reason in self.reasons]

    @property
    def releases(self) -> list[str]:
        """What would let the job start, in the reader's language."""
        said = [release_text(reason.code, reason.params) for reason in self.reasons]
        if (smaller := self.finding.fits_as) is not None:
            each = amount_text(self.finding.gang.accelerator, smaller)
            clone = gettext("It is cloned with {ranks} ranks of {each} each: they find room now")
            said.insert(0, clone.format(ranks=self.job.gpus // smaller, each=each))
        return [sentence for sentence in said if sentence]


def gang_of(spec: JobSpec, accelerator: str) -> clusters.Gang:
    """What a job asks the scheduler for."""
    each = {
        accelerator: spec.gpus_per_rank,
        CPU: round(spec.cpus_per_rank * 1000),
        MEMORY: round(spec.memory_gib_per_rank * 1024) << 20,
    }
    return clusters.Gang(spec.ranks, accelerator, each)


def judged(job: Job, told: Reason) -> Reason:
    """What is really in a waiting job's way where it can be counted, else what the cluster says."""
    if told.code not in _COUNTED:
        return told
    return next(iter(_reasons(_examine(job), told)), told)


def why(actor: Actor, job: Job) -> Why | None:
    """Why a job waits, as this person may know it; None for one that does not wait in its cluster."""
    if job.state is not Phase.WAITING:
        return None
    finding = _examine(job)
    kept = Reason(job.reason, job.reason_params)
    told = Reason(str(job.reason_params.get("told", job.reason)), job.reason_params)
    reasons = (_reasons(finding, told) if told.code in _COUNTED else []) or [kept]
    holders = _holders(actor, job)
    held = sum(one.amount for one in holders)
    return Why(
        job, finding, reasons, holders[:SHOWN], _others(finding, held, holders), str(told.params.get("text", ""))
    )


def _examine(job: Job) -> clusters.Finding:
    place = job.placement
    return clusters.obstacles(place.cluster, place.queue, gang_of(job.spec, place.accelerator), _promised(job))


def _promised(job: Job) -> Counter[str]:
    """What other jobs of the queue ask for that were let in (their pods are there) and have no nodes."""
    waiting = Job.objects.for_system().filter(placement_id=job.placement_id, phase=Phase.WAITING).exclude(pk=job.pk)
    let_in = JobRank.objects.filter(job__in=waiting, phase="Pending", node="").values("job_id")
    found: Counter[str] = Counter()
    for other in waiting.filter(pk__in=let_in):
        found.update(gang_of(other.spec, job.placement.accelerator).asked)
    return found


def _reasons(finding: clusters.Finding, told: Reason) -> list[Reason]:
    said = {"told": told.code, "text": told.params.get("text", ""), "resources": told.params.get("resources", [])}
    own = finding.accounts[0].queue if finding.accounts else ""
    # Whether a queue above limits those below it is a switch of the scheduler: believed where the scheduler says so.
    by_queue = told.code == "waiting.queue-limit"
    found = [one for one in finding.obstacles if one.queue in ("", own) or by_queue]
    reasons = [Reason(f"waiting.{one.code}", {**_numbers(finding, one), **said}) for one in found]
    if not reasons and by_queue and (unnamed := _unnamed(finding, told)):
        reasons = [Reason("waiting.queue-unnamed", {**said, "queue": own, "unnamed": unnamed})]
    return reasons


def _unnamed(finding: clusters.Finding, told: Reason) -> list[str]:
    """Resources that the limit does not name, where the scheduler names none that it does: versions of Volcano before
    1.9 take those for zero."""
    unnamed = list(finding.accounts[0].unnamed) if finding.accounts else []
    named = set(told.params.get("resources", []))
    return unnamed if not named or named <= set(unnamed) else []


def _numbers(finding: clusters.Finding, one: clusters.Obstacle) -> dict[str, Any]:
    line, gang = one.line, finding.gang
    numbers = {
        "resource": line.resource, "accelerator": gang.accelerator, "asked": line.asked, "limit": line.limit or 0,
        "free": line.free or 0, "used": line.used + line.promised, "short": line.short, "each": gang.need.each,
        "ranks": gang.ranks, "queue": one.queue,
    }  # fmt: skip
    found = one.code in (clusters.Code.PIECES, clusters.Code.NODE_SHORT)
    return numbers | ({"places": one.most} if found else {"most": one.most})


def _holders(actor: Actor, job: Job) -> list[Holder]:
    """Jobs of the same place that hold accelerators, the most first."""
    beside = Job.objects.visible_to(actor).filter(placement_id=job.placement_id).exclude(pk=job.pk)
    placed = list(beside.filter(phase__in=ON_NODES))
    let_in = JobRank.objects.filter(phase="Pending", node="").values("job_id")
    waiting = list(beside.filter(phase=Phase.WAITING, pk__in=let_in))
    found = [Holder(one, one.gpus, True) for one in placed] + [Holder(one, one.gpus, False) for one in waiting]
    return sorted(found, key=lambda one: (-one.amount, one.job.pk))


def _others(finding: clusters.Finding, shown: int, holders: Iterable[Holder]) -> int:
    """Accelerators held by work that is not told of: in the queue where that is in the way, else on all nodes."""
    in_queue = bool(finding.obstacles) and bool(finding.obstacles[0].queue)
    lines = [line for account in finding.accounts[:1] for line in account.lines]
    line = next((one for one in lines if in_queue and one.resource == finding.gang.accelerator), finding.nodes)
    placed = sum(one.amount for one in holders if one.placed)
    return max(0, line.used + line.promised - (shown if in_queue else placed))


def told_plainly(found: Why | None) -> dict[str, Any]:
    """All of it as plain data, for REST and the command."""
    if found is None:
        empty: dict[str, Any] = {
            "reasons": [],
            "codes": [],
            "releases": [],
            "queues": [],
            "nodes": None,
            "holders": [],
            "told": "",
        }
        return {"waiting": False, **empty, "unusable": 0, "ranks": 0, "ranks_with_room": 0, "others": 0}
    finding = found.finding
    return {
        "waiting": True,
        "reasons": found.sentences,
        "codes": [reason.code for reason in found.reasons],
        "releases": found.releases,
        "queues": [
            {"queue": one.queue, "state": one.state, "lines": [_plain(line) for line in one.lines]}
            for one in finding.accounts
        ],
        "nodes": _plain(finding.nodes),
        "unusable": finding.unusable,
        "ranks": finding.gang.ranks,
        "ranks_with_room": finding.ranks,
        "holders": [
            {"job": one.job.pk, "name": one.job.name, "gpus": one.amount, "placed": one.placed} for one in found.holders
        ],
        "others": found.others,
        "told": found.told,
    }


def _plain(line: clusters.Line) -> dict[str, Any]:
    return {**asdict(line), "free": line.free, "short": line.short}
