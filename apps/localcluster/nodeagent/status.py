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
    """One container: its attempts (oldest first) and, where it is not running, what it waits for.

    `started` and `healthy` are what its startup and readiness probes say of a run; `init` ones come before the others,
    and a `sidecar` among them stays.
    """

    name: str
    image: str
    attempts: Sequence[Attempt] = ()
    waiting: Waiting | None = None
    init: bool = False
    sidecar: bool = False
    started: bool = True
    healthy: bool = True

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

    @property
    def done(self) -> bool:
        """Of an init container: the next ones may begin."""
        return self.running and self.started if self.sidecar else self.code == 0 and not self.waiting

    @property
    def ready(self) -> bool:
        return self.done if self.init and not self.sidecar else self.running and self.started and self.healthy


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
        "imageID": f"local/{seen.image}" if last else "",
        "state": state,
        "lastState": {"terminated": _terminated(uid, seen.name, previous)} if previous and previous.ended else {},
        "ready": seen.ready,
        "started": seen.running and seen.started,
        "restartCount": last.number if last else 0,
    }
    if last and (last.started or last.ended):
        status["containerID"] = container_id(uid, seen.name, last)
    return status


def entries(pod: Object) -> list[Object]:
    """What the API knows of a pod's containers."""
    known = pod.get("status") or {}
    return [*(known.get("initContainerStatuses") or ()), *(known.get("containerStatuses") or ())]


def begun(containers: Sequence[Seen]) -> bool:
    """Whether any container proper has ever run: then the pod has been initialized, whatever its sidecars do."""
    return any(seen.attempts for seen in containers)


def phase(policy: str, inits: Sequence[Seen], containers: Sequence[Seen]) -> str:
    """Pending, Running, Succeeded or Failed."""
    if not begun(containers) and not all(seen.done for seen in inits):
        failed = any(seen.code not in (None, 0) and not seen.waiting for seen in inits if not seen.sidecar)
        return "Failed" if failed and policy == "Never" else "Pending"
    if any(seen.code is None and not seen.running for seen in containers):
        return "Pending"  # one has not begun yet
    if any(seen.running for seen in containers) or policy == "Always":
        return "Running"
    if any(seen.running for seen in inits):
        return "Running"  # until the sidecars have been ended
    if all(seen.code == 0 for seen in containers):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def final_phase(containers: Sequence[Seen]) -> str:
    """Of a pod whose containers were all ended from outside."""
    return "Succeeded" if containers and all(seen.code == 0 for seen in containers) else "Failed"


def _conditions(name: str, pod: Object, inits: Sequence[Seen], containers: Sequence[Seen]) -> list[Object]:
    """Initialized, ContainersReady and Ready, without times."""
    pending = [] if begun(containers) else [seen.name for seen in inits if not seen.done]
    initialized: Object = {"type": "Initialized", "status": "False" if pending else "True"}
    if name == "Succeeded":
        initialized["reason"] = "PodCompleted"
    elif pending:
        initialized["reason"] = "ContainersNotInitialized"
        initialized["message"] = f"containers with incomplete status: [{' '.join(pending)}]"
    unready = [seen.name for seen in (*inits, *containers) if not seen.ready and (seen.sidecar or not seen.init)]
    ready: Object = {"status": "False" if unready else "True"}
    if name in ENDED:
        ready = {"status": "False", "reason": "PodCompleted" if name == "Succeeded" else "PodFailed"}
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready |= {"reason": "ContainersNotReady", "message": message}
    gates = _gates(pod) if ready["status"] == "True" else {}
    return [initialized, {"type": "ContainersReady", **ready}, {"type": "Ready", **ready, **gates}]


def _gates(pod: Object) -> Object:
    """What keeps a pod unready whose containers are ready: conditions that others have to set."""
    known = {each["type"]: each["status"] for each in (pod.get("status") or {}).get("conditions") or ()}
    told = []
    for gate in (each["conditionType"] for each in pod["spec"].get("readinessGates") or ()):
        if gate not in known:
            told.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif known[gate] != "True":
            told.append(f'the status of pod readiness gate "{gate}" is not "True", but {known[gate]}')
    return {"status": "False", "reason": "ReadinessGatesNotReady", "message": ", ".join(told)} if told else {}


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
    wanted = _conditions(name, report.pod, report.inits, report.containers)
    wanted.append(
        {"type": "PodReadyToStartContainers", "status": "True" if report.ip and name not in ENDED else "False"}
    )
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
