"""A pod's status from what its containers are doing, by the kubelet's rules. Pure: time comes in as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.localcluster.nodeagent.records import Attempt

Object = dict[str, Any]
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Waiting:
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Seen:
    """One container: its attempts (oldest first) and, where it is not running, what it waits for."""

    name: str
    image: str
    attempts: Sequence[Attempt] = ()
    waiting: Waiting | None = None
    known: bool = True

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def running(self) -> bool:
        return self.waiting is None and self.last is not None and self.last.running

    @property
    def code(self) -> int | None:
        """Exit code of the newest attempt, None while it runs or has not begun."""
        return int(self.last.ended["code"]) if self.last and self.last.ended else None


def seconds(stamp: str) -> str:
    """RFC 3339 without the fraction: the precision of the API."""
    return stamp.partition(".")[0].rstrip("Z") + "Z"


def container_id(uid: str, name: str, attempt: Attempt) -> str:
    return f"process://{uid}-{name}-{attempt.number}"


def _terminated(uid: str, name: str, attempt: Attempt) -> Object:
    ended = attempt.ended or {}
    state = {
        "exitCode": ended["code"],
        "reason": ended["reason"],
        "startedAt": seconds(ended["started"]),
        "finishedAt": seconds(ended["ended"]),
        "containerID": container_id(uid, name, attempt),
    }
    return state | ({"message": ended["message"]} if ended.get("message") else {})


def container_status(uid: str, seen: Seen) -> Object:
    """One entry of containerStatuses."""
    last, before = seen.last, seen.attempts[-2] if len(seen.attempts) > 1 else None
    state: Object = {"waiting": {"reason": "ContainerCreating"}}
    previous = before
    if seen.waiting:
        state = {"waiting": {k: v for k, v in vars(seen.waiting).items() if v}}
        previous = last if last and last.ended else before
    elif last and last.ended:
        state = {"terminated": _terminated(uid, seen.name, last)}
    elif last and last.started:
        state = {"running": {"startedAt": seconds(last.started["started"])}}
    status: Object = {
        "name": seen.name,
        "image": seen.image,
        "imageID": f"local/{seen.image}" if seen.known and last else "",
        "state": state,
        "lastState": {"terminated": _terminated(uid, seen.name, previous)} if previous and previous.ended else {},
        "ready": seen.running,
        "started": seen.running,
        "restartCount": last.number if last else 0,
    }
    if last and (last.started or last.ended):
        status["containerID"] = container_id(uid, seen.name, last)
    return status


def init_done(inits: Sequence[Seen]) -> bool:
    return all(seen.code == 0 and not seen.waiting for seen in inits)


def phase(policy: str, inits: Sequence[Seen], containers: Sequence[Seen]) -> str:
    """Pending, Running, Succeeded or Failed."""
    if not init_done(inits):
        failed = any(seen.code not in (None, 0) and not seen.waiting for seen in inits)
        return "Failed" if failed and policy == "Never" else "Pending"
    if any(seen.code is None and not seen.running for seen in containers):
        return "Pending"  # one has not begun yet
    if any(seen.running for seen in containers) or policy == "Always":
        return "Running"
    if all(seen.code == 0 for seen in containers):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def final_phase(containers: Sequence[Seen]) -> str:
    """Of a pod whose containers were all ended from outside."""
    return "Succeeded" if containers and all(seen.code == 0 for seen in containers) else "Failed"


def _conditions(name: str, inits: Sequence[Seen], containers: Sequence[Seen]) -> list[Object]:
    """Initialized, ContainersReady and Ready, without times."""
    pending = [seen.name for seen in inits if not (seen.code == 0 and not seen.waiting)]
    initialized: Object = {"type": "Initialized", "status": "False" if pending else "True"}
    if pending:
        initialized["reason"] = "ContainersNotInitialized"
        initialized["message"] = f"containers with incomplete status: [{' '.join(pending)}]"
    unready = [seen.name for seen in containers if not seen.running]
    ready: Object = {"status": "False" if unready else "True"}
    if name in ENDED:
        ready = {"status": "False", "reason": "PodCompleted" if name == "Succeeded" else "PodFailed"}
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready |= {"reason": "ContainersNotReady", "message": message}
    return [initialized, {"type": "ContainersReady", **ready}, {"type": "Ready", **ready}]


def conditions(before: Sequence[Object], wanted: Sequence[Object], now: str) -> list[Object]:
    """Existing conditions with ours put in; a time changes only with the status it belongs to."""
    own = {condition["type"]: condition for condition in wanted}
    kept = [condition for condition in before if condition["type"] not in own]
    known = {condition["type"]: condition for condition in before}
    for kind, condition in own.items():
        old = known.get(kind, {})
        same = old.get("status") == condition["status"]
        changed = old.get("lastTransitionTime", now) if same else now
        kept.append({"lastProbeTime": None, "lastTransitionTime": changed, **condition})
    return kept


@dataclass(frozen=True)
class Report:
    """What the agent knows about a pod when it writes its status. `failure` is (reason, message) of a pod given up."""

    pod: Object
    ip: str
    host_ip: str
    accepted: str
    inits: Sequence[Seen]
    containers: Sequence[Seen]
    ending: bool = False
    failure: tuple[str, str] | None = None


def pod_status(report: Report, now: str) -> Object:
    """The status fields this node owns. `now` is RFC 3339."""
    spec, metadata = report.pod["spec"], report.pod["metadata"]
    name = phase(spec.get("restartPolicy", "Always"), report.inits, report.containers)
    if report.failure:
        name = "Failed"
    elif report.ending and not any(seen.running for seen in (*report.inits, *report.containers)):
        name = final_phase(report.containers)
    before = (report.pod.get("status") or {}).get("conditions") or ()
    wanted = _conditions(name, report.inits, report.containers)
    if not any(condition["type"] == "PodScheduled" for condition in before):
        wanted.append({"type": "PodScheduled", "status": "True"})
    status: Object = {
        "phase": name,
        "conditions": conditions(before, wanted, seconds(now)),
        "hostIP": report.host_ip,
        "hostIPs": [{"ip": report.host_ip}],
        "startTime": seconds(report.accepted),
        "containerStatuses": [container_status(metadata["uid"], seen) for seen in report.containers],
    }
    if report.ip:
        status |= {"podIP": report.ip, "podIPs": [{"ip": report.ip}]}
    if report.inits:
        status["initContainerStatuses"] = [container_status(metadata["uid"], seen) for seen in report.inits]
    if report.failure:
        status |= {"reason": report.failure[0], "message": report.failure[1]}
    return status


def differs(wanted: Any, stored: Any) -> bool:
    """Whether a merge of `wanted` would change `stored`; null, empty and missing are the same."""
    if isinstance(wanted, dict):
        stored = stored if isinstance(stored, dict) else {}
        return any(differs(value, stored.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(stored, list):
        return len(wanted) != len(stored) or any(differs(a, b) for a, b in zip(wanted, stored, strict=True))
    if wanted in (None, "", {}, []):
        return stored not in (None, "", {}, [], False)
    return bool(wanted != stored)
