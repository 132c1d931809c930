"""Reading what the cluster shows of a deployment: its Deployment and pods, as dicts, into `Seen`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apps.serving.domain.lifecycle import Reason, ReplicaSeen, Seen
from apps.serving.domain.manifests import MARK
from apps.serving.domain.phases import Phase

Object = Mapping[str, Any]

_PULL_FAILURES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_ENDED = frozenset({"Succeeded", "Failed"})


def read_seen(deployment: Object | None, pods: Iterable[Object]) -> Seen:
    """Put the answers together. Unknown states are read as the earliest stage, never an error.

    A pod that has ended does not come back: its ReplicaSet makes another, and it counts no more.
    """
    here = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _ENDED]
    replicas = tuple(sorted((read_replica(pod) for pod in here), key=lambda replica: replica.name))
    if deployment is None:
        return Seen(replicas=replicas)
    metadata = deployment["metadata"]
    return Seen(
        uid=metadata["uid"],
        mark=str((metadata.get("annotations") or {}).get(MARK, "")),
        deleting="deletionTimestamp" in metadata,
        replicas=replicas,
    )


def read_replica(pod: Object) -> ReplicaSeen:
    """One pod."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    inits, mains = status.get("initContainerStatuses") or [], status.get("containerStatuses") or []
    stage, reason = _stage(pod, inits, mains)
    return ReplicaSeen(
        uid=metadata["uid"],
        name=metadata["name"],
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        ip=str(status.get("podIP") or ""),
        stage=stage,
        reason=reason,
        restarts=sum(int(entry.get("restartCount", 0)) for entry in (*inits, *mains)),
        started_at=str(status.get("startTime") or ""),
        going="deletionTimestamp" in metadata,
    )


def _stage(pod: Object, inits: list[Object], mains: list[Object]) -> tuple[Phase, Reason]:
    if not (pod.get("spec") or {}).get("nodeName"):
        return Phase.ASKING, _unplaced(pod.get("status") or {})
    for entry in (*inits, *mains):
        waiting = (entry.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _PULL_FAILURES:
            return Phase.PULLING, Reason("pulling.image", {"text": _cut(waiting.get("message") or waiting["reason"])})
        if crash := _crash(entry):
            return Phase.FAILED, crash
    main = mains[0] if mains else {}
    if (main.get("state") or {}).get("running") is not None:
        if main.get("ready"):
            return Phase.READY, Reason()
        return (Phase.WARMING, Reason()) if main.get("started") else (Phase.LOADING, Reason("loading.memory"))
    if any((entry.get("state") or {}).get("running") is not None for entry in inits):
        return Phase.LOADING, Reason("loading.files")
    if inits and all(_went_well(entry) for entry in inits):
        return Phase.LOADING, Reason("loading.memory")
    return Phase.PULLING, Reason()


def _crash(entry: Object) -> Reason | None:
    """A container that ended badly and waits for its next run, or has just ended so."""
    state, last = entry.get("state") or {}, entry.get("lastState") or {}
    ended = state.get("terminated") or (last.get("terminated") if "waiting" in state else None)
    if not ended or not ended.get("exitCode"):
        return None
    params = {"code": ended["exitCode"], "text": _cut(ended.get("message") or ended.get("reason") or "")}
    return Reason("loading.crash", params)


def _went_well(entry: Object) -> bool:
    return ((entry.get("state") or {}).get("terminated") or {}).get("exitCode") == 0


def _unplaced(status: Object) -> Reason:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False" and condition.get("message"):
            return Reason("asking.unplaced", {"text": _cut(condition["message"])})
    return Reason("asking.scheduler")


def _cut(text: str) -> str:
    return text if len(text) <= 300 else text[:299] + "…"
