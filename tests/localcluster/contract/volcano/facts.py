"""What a case looked at besides the state: each fact has its reader, by name or by topic and name."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apps.localcluster.volcano.objects import deleting, name
from tests.localcluster import volcano_made as made
from tests.localcluster.contract.volcano.cluster import Cluster, Object, Recorder, clean, job_of, phase_of, until
from tests.localcluster.contract.volcano.judging import lasting
from tests.localcluster.contract.volcano.looking import pods_by_phase

_KEPT = ("Pod", "Job", "PodGroup", "Queue", "Node", "Command")
_LEAF = {"n-0000": 1, "n-0001": 1, "n-0002": 2, "n-0003": 2}


@dataclass(frozen=True)
class Moment:
    """What was there before a step."""

    step: str
    items: dict[str, list[Object]]

    @classmethod
    def now(cls, cluster: Cluster, step: str) -> Moment:
        return cls(step, {kind: cluster.list(kind) for kind in _KEPT})

    def one(self, kind: str, label: str) -> Object:
        return next((item for item in self.items[kind] if name(item) == label), {})

    @property
    def pods(self) -> list[Object]:
        return self.items["Pod"]

    @property
    def uids(self) -> dict[str, str]:
        return {name(pod): pod["metadata"]["uid"] for pod in self.pods}

    @property
    def phases(self) -> dict[str, str]:
        return {name(pod): pod["status"]["phase"] for pod in self.pods}

    def nodes_of(self, job: str) -> list[str]:
        return sorted(pod["spec"].get("nodeName", "") for pod in self.pods if job_of(pod) == job)

    def count(self, kind: str, phase: str) -> int:
        return sum(phase_of(kind, item) == phase for item in self.items[kind])


@dataclass
class Facts:
    """`told`: facts that a step brought itself. `node`: the one that a step spoke of as that of a pod."""

    cluster: Cluster
    recorder: Recorder
    moments: list[Moment] = field(default_factory=list)
    told: Object = field(default_factory=dict)
    node: str = ""

    @property
    def end(self) -> Moment:
        return self.moments[-1]

    @property
    def job(self) -> Object:
        return self.end.one("Job", "a")

    @property
    def first_pod(self) -> Object:
        return self.end.pods[0]

    def before(self, step: str) -> Moment:
        """What was there before the last step of that sort."""
        return next((moment for moment in reversed(self.moments) if moment.step == step), self.end)

    def read(self, topic: str, key: str) -> Any:
        if key in self.told:
            return self.told[key]
        reader = _READERS.get(f"{topic}:{key}") or _READERS[key]
        return json.loads(json.dumps(reader(self)))

    def same_pods_as_before(self, step: str) -> bool:
        return self.before(step).uids == self.end.uids


def _running_by_job(facts: Facts) -> dict[str, int]:
    found = pods_by_phase(facts.end.pods)
    return {job: counts["Running"] for job, counts in found.items() if counts["Running"]}


def _starts(facts: Facts) -> int:
    phases = facts.recorder.sequences().get("Job/a", [])
    return lasting([phase if phase == "Running" else "another" for phase in phases]).count("Running")


def _left(facts: Facts) -> dict[str, list[str]]:
    kinds = ("Pod", "PodGroup", "Service", "Secret", "ConfigMap", "NetworkPolicy")
    return {kind: [clean(name(item)) for item in facts.cluster.strangers(kind)] for kind in kinds}


def _made(facts: Facts) -> Object:
    kinds = ("ConfigMap", "Secret", "Service", "NetworkPolicy")
    items = [{"kind": kind, **item} for kind in kinds for item in facts.cluster.strangers(kind)]
    return {f"{item['kind']}/{clean(name(item))}": made.object_facts(item) for item in items}


def _why_waiting(facts: Facts) -> Object:
    """Its words are not judged."""
    return {
        re.sub(r"-\d+$", "-*", name(pod)): condition.get("reason")
        for pod in facts.end.pods
        for condition in pod["status"].get("conditions", [])
        if (condition["type"], condition["status"]) == ("PodScheduled", "False")
    }


def _pod_states(facts: Facts) -> Object:
    found = {}
    for pod in facts.end.pods:
        reasons = [c.get("reason") for c in pod["status"].get("conditions", []) if c["type"] == "DisruptionTarget"]
        found[name(pod)] = [pod["status"]["phase"], "being deleted" if deleting(pod) else "", (reasons or [""])[0]]
    return found


def _node(facts: Facts) -> Object:
    node = facts.end.one("Node", facts.node)
    ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
    return {"taints": sorted([t["key"], t["effect"]] for t in node["spec"].get("taints", [])), "ready": ready[0]}


def _without(spec: Object, key: str) -> Object:
    return {each: value for each, value in spec.items() if each != key}


def _annotations(pod: Object) -> Object:
    return {key: clean(value) for key, value in pod["metadata"].get("annotations", {}).items()}


def _group_priorities(moment: Moment) -> dict[str, str | None]:
    return {clean(name(group)): group["spec"].get("priorityClassName") for group in moment.items["PodGroup"]}


def _on_its_node(facts: Facts, job: str) -> bool:
    return facts.node in facts.end.nodes_of(job)


def _leaves(facts: Facts) -> list[int]:
    return sorted(Counter(_LEAF[node] for node in facts.end.nodes_of("a") if node).values(), reverse=True)


def _hypernodes(facts: Facts) -> Object:
    return {name(item): _without(item.get("status") or {}, "conditions") for item in facts.cluster.list("HyperNode")}


def _generation(moment: Moment) -> int:
    return int(moment.one("Job", "a")["metadata"]["generation"])


def _queue(moment: Moment, label: str, *keys: str) -> Any:
    value: Any = moment.one("Queue", label)
    for key in keys:
        value = (value or {}).get(key)
    return value


def _opens_again(facts: Facts) -> bool:
    return until(lambda: phase_of("Queue", facts.cluster.get("Queue", "default")) == "Open", 15)


_READERS: dict[str, Callable[[Facts], Any]] = {
    # gangs
    "pod_annotations": lambda f: _annotations(f.first_pod),
    "podgroup_spec": lambda f: [group["spec"] for group in f.end.items["PodGroup"]],
    "podgroup_owner_kinds": lambda f: [
        owner["kind"] for group in f.end.items["PodGroup"] for owner in group["metadata"]["ownerReferences"]
    ],
    "running_pods_per_job_sorted": lambda f: sorted(_running_by_job(f).values()),
    "which": _running_by_job,
    # queues
    "job_queue": lambda f: f.job["spec"]["queue"],
    "default_spec": lambda f: _queue(f.end, "default", "spec"),
    "default_state": lambda f: _queue(f.end, "default", "status", "state"),
    "default_allocated": lambda f: _queue(f.end, "default", "status", "allocated"),
    "root_spec": lambda f: _queue(f.end, "root", "spec"),
    "root_state": lambda f: _queue(f.end, "root", "status", "state"),
    "open_again": _opens_again,
    "accepted_in_the_end": lambda _: True,  # at the first try
    "allocated_while_running": lambda f: _queue(f.before("pods_end"), "qa", "status", "allocated"),
    "reservation": lambda f: _queue(f.before("pods_end"), "qa", "status", "reservation"),
    "queue_spec_after_defaults": lambda f: _queue(f.before("pods_end"), "qa", "spec"),
    "podgroup_minResources": lambda f: f.before("pods_end").items["PodGroup"][0]["spec"].get("minResources"),
    "allocated_after_end": lambda f: _queue(f.end, "qa", "status", "allocated"),
    "a_jobs_still_running": lambda f: sum(n for job, n in _running_by_job(f).items() if job.startswith("a")),
    "b_running": lambda f: _running_by_job(f).get("b", 0),
    "04:running": lambda f: f.end.count("Job", "Running"),
    "04:pending": lambda f: f.end.count("Job", "Pending"),
    # the life of a job
    "phase": lambda f: phase_of("Job", f.job),
    "retryCount": lambda f: f.job["status"].get("retryCount"),
    "maxRetry_after_defaults": lambda f: f.job["spec"]["maxRetry"],
    "times_the_gang_ran": _starts,
    "pods_at_end": lambda f: f.end.phases,
    "05:pods": lambda f: f.end.phases,
    "commands_left": lambda f: sorted(map(name, f.end.items["Command"])),
    "left": _left,
    "restartPolicy": lambda f: [pod["spec"]["restartPolicy"] for pod in f.end.pods],
    "name": lambda f: name(f.first_pod),
    "labels": lambda f: f.first_pod["metadata"]["labels"],
    "annotations": lambda f: _annotations(f.first_pod),
    "owner": lambda f: [
        [o["kind"], o["name"], o.get("controller")] for o in f.first_pod["metadata"]["ownerReferences"]
    ],
    "schedulerName": lambda f: f.first_pod["spec"]["schedulerName"],
    "task_defaults": lambda f: _without(f.job["spec"]["tasks"][0], "template"),
    "job_spec_defaults": lambda f: _without(f.job["spec"], "tasks"),
    "job_status_keys": lambda f: sorted(f.job["status"]),
    "job_finalizers": lambda f: f.job["metadata"].get("finalizers"),
    # plugins
    "plugins_after_defaults": lambda f: f.job["spec"].get("plugins"),
    "controlledResources": lambda f: f.job["status"].get("controlledResources"),
    "06:pods": lambda f: {name(pod): made.pod_facts(pod) for pod in f.end.pods},
    "objects_made": _made,
    # waiting, nodes
    "pod_condition_PodScheduled": _why_waiting,
    "b_on_cordoned_node": lambda f: _on_its_node(f, "b"),
    "cordoned_node_used": lambda f: _on_its_node(f, "a"),
    "tainted_node_used": lambda f: _on_its_node(f, "a"),
    "08:pods": _pod_states,
    "node": _node,
    # updates
    "same_pods": lambda f: f.same_pods_as_before("server_side_apply"),
    "generation_unchanged": lambda f: _generation(f.before("server_side_apply")) == _generation(f.end),
    "pod_kept": lambda f: f.same_pods_as_before("patch"),
    "first_pod_kept": lambda f: f.before("patch").uids.items() <= f.end.uids.items(),
    "left_ones_kept": lambda f: f.end.uids.items() <= f.before("patch").uids.items(),
    "pods_left": lambda f: sorted(f.end.uids),
    "task": lambda f: _without(f.job["spec"]["tasks"][0], "template"),
    "pod_has_preemptable": lambda f: "volcano.sh/preemptable" in f.first_pod["metadata"]["annotations"],
    "pod_has_owner_label": lambda f: "portal/owner" in f.first_pod["metadata"]["labels"],
    "10:podgroup_priorityClassName": lambda f: _group_priorities(f.before("pods_end")),
    # topology and limits
    "11:nodes": lambda f: f.end.nodes_of("a"),
    "soft_on": lambda f: f.end.nodes_of("s"),
    "pods_per_leaf": _leaves,
    "11:status": _hypernodes,
    "networkTopology_after_defaults": lambda f: f.job["spec"].get("networkTopology"),
    "12:pods": lambda f: len(f.end.pods),
    "12:running": lambda f: f.end.count("Pod", "Running"),
    "longest_pod_name": lambda f: max(map(len, f.end.uids), default=0),
}
