"""What a cluster says of a job's pods: which of it matters, by code, and what is told together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

OTHER = "other"
"""A warning that nobody has words for: told under its own reason."""
APART = timedelta(minutes=15)
"""What comes later than so after the last of its kind is told as something new."""
FEW = 6
"""Up to so many ranks to which the same happened are told one by one."""
SETTLES = timedelta(seconds=30)
"""A gang that starts at once gets warnings that it has no place, too: a shorter wait is not told."""

_BY_REASON: Mapping[str, str] = {
    "FailedScheduling": "no-place",
    "Unschedulable": "no-place",
    "NotTriggerScaleUp": "no-scale-up",
    "TriggeredScaleUp": "scale-up",
    "Preempted": "preempted",
    "Preempting": "preempted",
    "Evict": "preempted",
    "Evicted": "evicted",
    "TaintManagerEviction": "taint",
    "NodeNotReady": "node-not-ready",
    "NodeShutdown": "node-shutdown",
    "ErrImageNeverPull": "image",
    "InspectFailed": "image-name",
    "FailedToRetrieveImagePullSecret": "image-secret",
    "FailedMount": "mount",
    "FailedAttachVolume": "mount",
    "FailedMapVolume": "mount",
    "FailedCreatePodSandBox": "sandbox",
    "NetworkNotReady": "network",
    "UnexpectedAdmissionError": "admission",
    "FailedPrepareDynamicResources": "admission",
    "FailedPostStartHook": "hook",
    "FailedPreStopHook": "hook",
    "ExceededGracePeriod": "grace",
    "FailedKillPod": "kill",
    "FailedCreate": "refused",
    "PVCError": "claim",
    "PluginError": "plugin",
}
_BY_WORDS: Sequence[tuple[str, re.Pattern[str], str]] = tuple(
    (reason, re.compile(pattern), code)
    for reason, pattern, code in (
        ("Failed", r"ErrImageNeverPull|not present with pull policy", "image"),
        ("Failed", r"InvalidImageName", "image-name"),
        ("Failed", r"[Pp]ull", "image"),
        ("Failed", r"", "start"),
        ("BackOff", r"pulling image", "image-wait"),
        ("BackOff", r"", "crash-wait"),
        ("Unhealthy", r"^Readiness", "readiness"),
        ("Unhealthy", r"^Startup", "startup"),
        ("Unhealthy", r"", "liveness"),
        ("Killing", r"[Pp]robe", "probe-kill"),
    )
)
_REFUSALS = re.compile(r"OutOf\S+|\w*Affinity|HostPortConflict|\w*UnsupportedPod\w*|PodOSNotSupported")
"""How a kubelet calls its refusal of a pod that it was given."""
_UNTOLD = frozenset({"preempted"})
"""Their words may name the work of others."""
_PASSING = frozenset({"no-place", "no-scale-up"})


@dataclass(frozen=True)
class PodEvent:
    """An event as the API says it: `count` times between `first` and `at`. `rank` and `attempt` are None for what is
    said of the job as a whole; `node` is "" where the pod had none."""

    uid: str
    code: str
    reason: str
    message: str
    count: int
    first: datetime
    at: datetime
    pod: str = ""
    attempt: int | None = None
    rank: int | None = None
    node: str = ""


@dataclass(frozen=True)
class Told:
    """The same that happened to some ranks of an attempt within a span of time, `count` times in all; `message` is what
    was said last. `ranks` is empty for what is said of the job as a whole."""

    code: str
    reason: str
    message: str
    attempt: int | None
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    count: int
    first: datetime
    at: datetime


def code_of(reason: str, message: str, *, is_warning: bool) -> str:
    """What an event is about; "" for one that does not matter."""
    for own, pattern, code in _BY_WORDS:
        if own == reason and pattern.search(message):
            return code
    if code := _BY_REASON.get(reason, ""):
        return code
    if not is_warning:
        return ""
    return "kubelet-refused" if _REFUSALS.fullmatch(reason) else OTHER


def words_kept(code: str, message: str) -> str:
    """The cluster's own words, as far as they may be shown to whoever may see the job."""
    return "" if code in _UNTOLD else message


def together(events: Iterable[PodEvent]) -> list[Told]:
    """What is to be told, the oldest first: what happened to many ranks at about the same time is one thing."""
    found: list[Told] = []
    for group in _groups(events):
        one_by_one = len({event.rank for event in group}) <= FEW
        ranks = sorted({event.rank for event in group}, key=lambda rank: -1 if rank is None else rank)
        for some in [[event for event in group if event.rank == rank] for rank in ranks] if one_by_one else [group]:
            told = _told(some)
            if told.code not in _PASSING or told.at - told.first >= SETTLES:
                found.append(told)
    return sorted(found, key=lambda told: (told.first, told.code, told.ranks))


def _groups(events: Iterable[PodEvent]) -> list[list[PodEvent]]:
    open_ones: dict[tuple[str, str, int | None, bool], list[PodEvent]] = {}
    ends: dict[tuple[str, str, int | None, bool], datetime] = {}
    closed: list[list[PodEvent]] = []
    for event in sorted(events, key=lambda event: (event.first, event.uid)):
        key = event.code, event.reason if event.code == OTHER else "", event.attempt, event.rank is None
        if key in ends and event.first - ends[key] > APART:
            closed.append(open_ones.pop(key))
            del ends[key]
        open_ones.setdefault(key, []).append(event)
        ends[key] = max(ends.get(key, event.at), event.at)
    return [*closed, *open_ones.values()]


def _told(events: Sequence[PodEvent]) -> Told:
    last = max(events, key=lambda event: (event.at, event.uid))
    return Told(
        code=last.code,
        reason=last.reason,
        message=last.message,
        attempt=last.attempt,
        ranks=tuple(sorted({event.rank for event in events if event.rank is not None})),
        nodes=tuple(sorted({event.node for event in events if event.node})),
        count=sum(event.count for event in events),
        first=min(event.first for event in events),
        at=max(event.at for event in events),
    )


def end_reason(status: str, disruption: str, container: str) -> str:
    """Why a pod ended, as far as its cluster says so: what its status says, what disrupted it, how its container
    ended. The words for an ordinary end say nothing that its exit code does not."""
    usual = ("", "Error", "Completed")
    told = (text for text in (status, disruption, container) if text not in usual)
    return "OOMKilled" if container == "OOMKilled" else next(told, "")
