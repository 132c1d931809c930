"""Reading what the cluster shows of a job: Volcano Job, PodGroup, pods and events, as dicts, into `Seen`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from apps.jobs.domain.lifecycle import RankSeen, Reason, Seen
from apps.jobs.domain.manifests import ATTEMPT_ANNOTATION
from apps.jobs.domain.podevents import end_reason

Object = Mapping[str, Any]

_DUMP_MESSAGE = re.compile(r'Message:"((?:[^"\\]|\\.)*)"')
_ORIGIN = re.compile(r"Origin reason is (.*)", re.DOTALL)
_RESOURCE = re.compile(r"[\w.-]+/[\w.-]+|\bcpu\b|\bmemory\b|\bpods\b")
_DOOR = {
    "queue resource quota insufficient": "waiting.queue-limit",
    "resource in cluster is overused": "waiting.cluster-full",
}


def read_seen(job: Object, pods: Iterable[Object], podgroup: Object | None, events: Iterable[Object]) -> Seen:
    """Put the four answers together. Unknown phases are carried through, never an error."""
    status = job.get("status", {})
    ranks = sorted((read_rank(pod) for pod in pods), key=lambda rank: (rank.attempt, rank.rank))
    return Seen(
        uid=job["metadata"]["uid"],
        phase=str(status.get("state", {}).get("phase", "")),
        retries=int(status.get("retryCount", 0)),
        ranks=tuple(ranks),
        waiting_for=waiting_for(podgroup, events),
        deleting="deletionTimestamp" in job["metadata"],
    )


def read_rank(pod: Object) -> RankSeen:
    """One pod. Its rank is what the pytorch plugin wrote into its environment, else the order of its name."""
    metadata, status = pod["metadata"], pod.get("status", {})
    state = _main_state(status)
    ended = state.get("terminated", {})
    started = state.get("running", {}).get("startedAt") or ended.get("startedAt")
    return RankSeen(
        rank=rank_of(pod),
        attempt=attempt_of(pod),
        name=metadata["name"],
        uid=metadata["uid"],
        node=str(pod.get("spec", {}).get("nodeName", "")),
        phase=str(status.get("phase", "Pending")),
        waiting=str(state.get("waiting", {}).get("reason", "")),
        message=str(
            state.get("waiting", {}).get("message", "") or ended.get("message", "") or status.get("message", "")
        ),
        exit_code=ended.get("exitCode"),
        started_at=_time(started),
        ended_at=_time(ended.get("finishedAt")),
        deleting="deletionTimestamp" in metadata,
        end_reason=end_reason(
            str(status.get("reason", "")), _disruption(status), str(ended.get("reason", "")) if ended else ""
        ),
    )


def _disruption(status: Object) -> str:
    """What took a pod off its node, if something did."""
    conditions: Iterable[Object] = status.get("conditions") or []
    return next((str(one.get("reason", "")) for one in conditions if one.get("type") == "DisruptionTarget"), "")


def rank_of(pod: Object) -> int:
    for container in pod.get("spec", {}).get("containers", []):
        for variable in container.get("env", []):
            if variable.get("name") == "RANK" and str(variable.get("value", "")).isdigit():
                return int(variable["value"])
    annotations = pod["metadata"].get("annotations", {})
    index = str(annotations.get("volcano.sh/task-index") or pod["metadata"]["name"].rpartition("-")[2])
    first = annotations.get("volcano.sh/task-spec") != "worker"
    return int(index) + (0 if first else 1) if index.isdigit() else 0


def attempt_of(pod: Object) -> int:
    """1 for the first run; Volcano counts restarts on each pod it makes."""
    count = str(pod["metadata"].get("annotations", {}).get(ATTEMPT_ANNOTATION, "0"))
    return int(count) + 1 if count.isdigit() else 1


def waiting_for(podgroup: Object | None, events: Iterable[Object]) -> Reason:
    """Why a job has no place yet, from its PodGroup's conditions and the events of both.

    Volcano leaves conditions empty for a group it has not let in, and says why in a Normal event only. That event stays
    when the group has been let in later and waits for nodes: then its conditions count.
    """
    status = (podgroup or {}).get("status", {})
    texts = [str(event.get("message", "")) for event in sorted(events, key=_event_time, reverse=True)]
    outside = status.get("phase", "Pending") == "Pending"
    for text in texts:
        if reason := _from_event(text) or (_at_the_door(text) if outside else None):
            return reason
    for condition in status.get("conditions", []) or []:
        if condition.get("type") == "Unschedulable" and condition.get("status") == "True":
            message = str(condition.get("message", ""))
            origin = _ORIGIN.search(message)
            return Reason("waiting.nodes", {"text": _cut(origin[1] if origin else message)})
    return Reason("waiting.scheduler")


def _at_the_door(text: str) -> Reason | None:
    """What keeps a group outside. The words are not the cause: both are said of gangs that will never fit, and the
    first of queues without any limit. `resources` are those they name; old versions of Volcano name none."""
    for words, code in _DOOR.items():
        if words in text:
            return Reason(code, {"text": _cut(text), "resources": _RESOURCE.findall(text.partition(words)[2])})
    return None


def _from_event(text: str) -> Reason | None:
    if "exceeded quota" in text or "failed quota" in text:
        return Reason("waiting.quota", {"text": _undumped(text)})
    if text.startswith(("PVC", "Failed to create PVC")) or (
        "persistentvolumeclaim" in text.lower() and "not found" in text
    ):
        return Reason("waiting.volume", {"text": _cut(text)})
    if text.startswith("Execute plugin when job"):
        return Reason("waiting.plugin", {"text": _cut(text.partition("err: ")[2] or text)})
    if "Error creating pods" in text:
        return Reason("waiting.pods", {"text": _undumped(text)})
    return None


def _undumped(text: str) -> str:
    """What the API server said, out of the dump of its answer that the event carries."""
    dump = _DUMP_MESSAGE.search(text)
    return _cut(dump[1].replace('\\"', '"') if dump else text)


def _event_time(event: Object) -> str:
    return str(event.get("eventTime") or event.get("lastTimestamp") or event["metadata"].get("creationTimestamp") or "")


def _main_state(status: Object) -> Mapping[str, Any]:
    statuses = status.get("containerStatuses") or [{}]
    state: Mapping[str, Any] = statuses[0].get("state", {}) or {}
    return state


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _cut(text: str) -> str:
    return text if len(text) <= 300 else text[:299] + "…"
