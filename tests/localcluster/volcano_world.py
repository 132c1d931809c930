"""A cluster in memory: the stand-in's decisions are carried out at once, pods run and end as the test says."""

from __future__ import annotations

import copy
from typing import Any

from apps.localcluster.volcano import lifecycle, pods
from apps.localcluster.volcano.lifecycle import Trigger
from apps.localcluster.volcano.objects import OUT_OF_SYNC, controller_of, group_name, name, replicas, tasks, uid
from apps.localcluster.volcano.scheduler import session
from apps.localcluster.volcano.scheduler.model import Snapshot
from apps.localcluster.volcano.scheduler.settings import Settings
from tests.localcluster.volcano_cases import Object, admitted, nodes, open_queue

READY = {"type": "Ready", "status": "True"}


class World:
    """`settle()` repeats controller and scheduler until nothing changes any more."""

    def __init__(self, fleet: str = "4x8", **parts: Any) -> None:
        self.nodes = nodes(fleet)
        self.queues = {"default": open_queue(), "root": open_queue("root")}
        self.jobs: dict[str, Object] = {}
        self.groups: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.services: list[Object] = parts.get("services", [])
        self.claims: dict[tuple[str, str], Object] = parts.get("claims", {})
        self.priorities: dict[str, int] = parts.get("priorities", {})
        self.polite: set[str] = set()
        self.hypernodes: list[Object] = []
        self.settings: Settings = parts.get("settings") or Settings.load()
        self.told: set[tuple[str, str, str]] = set()
        self.made = 0
        self.commands: dict[str, str] = {}
        self.phases: dict[str, list[str]] = {}

    def create(self, item: Object) -> None:
        if item["kind"] == "Queue":
            self.queues[name(item)] = open_queue(name(item), **item["spec"])
        elif item["kind"] == "PriorityClass":
            self.priorities[name(item)] = item["value"]
            self.polite |= {name(item)} if item.get("preemptionPolicy") == "Never" else set()
        elif item["kind"] == "PersistentVolumeClaim":
            self.claims["team-a", name(item)] = item
        elif item["kind"] == "HyperNode":
            self.hypernodes.append(item)
        elif item["kind"] == "Job":
            job = admitted(item)
            job["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{len(self.jobs):02d}Z"
            self.jobs[name(job)] = job
        elif item["kind"] == "Command":
            self.commands[item["target"]["name"]] = item["action"]

    def follow(self, step: Object) -> None:
        """Do one step of a recorded case and let the cluster come to rest."""
        if "create" in step:
            self.create(step["create"])
        elif "pods_end" in step:
            for pod in step["pods_end"]:
                self.end(pod, step["exit_code"])
        elif "patch" in step:
            kind, _, label = step["patch"].partition("/")
            items = self.queues if kind == "Queue" else {name(node): node for node in self.nodes}
            items[label]["spec"] |= step["body"]["spec"]
        elif "delete" in step:
            kind, _, label = step["delete"].partition("/")
            del {"Pod": self.pods, "Queue": self.queues}[kind][label]
        self.settle()

    def end(self, pod: str, exit_code: int) -> None:
        terminated = {"terminated": {"exitCode": exit_code}}
        self.pods[pod]["status"] |= {
            "phase": "Failed" if exit_code else "Succeeded",
            "containerStatuses": [{"state": terminated}],
        }

    def settle(self) -> None:
        for _ in range(30):
            before = copy.deepcopy((self.jobs, self.groups, self.pods))
            for job in self.jobs.values():
                self._control(job)
            self._schedule()
            if before == (self.jobs, self.groups, self.pods):
                return
        raise AssertionError("the world does not come to rest")

    def mine(self, job: Object) -> list[Object]:
        return [pod for pod in self.pods.values() if (controller_of(pod) or {}).get("uid") == uid(job)]

    def _act(self, job: Object) -> None:
        mine, group = self.mine(job), self.groups.get(group_name(job), {})
        phase = (group.get("status") or {}).get("phase", "")
        found = list(lifecycle.triggers(job, mine, lifecycle.missing_pods(job, mine), phase))
        command = self.commands.pop(name(job), None)
        for trigger in ([Trigger(command)] if command else [t for t in found if not t.delay])[:1]:
            status = lifecycle.begun(job, trigger.action, mine)
            for pod in lifecycle.targets(trigger, job, mine) if status else []:
                pod["metadata"]["annotations"][OUT_OF_SYNC] = "true"
            job["status"] = status or job["status"]

    def _note(self, job: Object) -> None:
        seen, phase = self.phases.setdefault(name(job), []), lifecycle.phase_of(job)
        if seen[-1:] != [phase]:
            seen.append(phase)

    def _control(self, job: Object) -> None:
        self._act(job)
        self._note(job)
        self._follow(job)
        self._note(job)

    def _follow(self, job: Object) -> None:
        if lifecycle.phase_of(job) not in lifecycle.ACTIVE:
            for pod in lifecycle.doomed(job, self.mine(job)):
                del self.pods[name(pod)]
            self.groups.pop(group_name(job), None)
            job["status"] = lifecycle.settled(job, self.mine(job))
            return
        group = pods.group(job, self.priorities)
        known = self.groups.setdefault(name(group), group)
        group["metadata"] |= {"uid": f"g-{name(group)}", "creationTimestamp": job["metadata"]["creationTimestamp"]}
        if (known.get("status") or {}).get("phase", "Pending") != "Pending":
            for pod in lifecycle.doomed(job, self.mine(job)):
                del self.pods[name(pod)]
            for task in tasks(job):
                if not lifecycle.ready_to_start(job, task, self.mine(job)):
                    continue
                for index in range(replicas(task)):
                    pod = pods.build(job, task, index)
                    self.made += 1
                    pod["metadata"] |= {"uid": f"p-{self.made}", "creationTimestamp": "2026-01-01T00:01:00Z"}
                    pod["status"] = {"phase": "Pending"}
                    called = pod["spec"].get("priorityClassName", "")
                    pod["spec"] |= {"priority": self.priorities.get(called, 0)}
                    pod["spec"] |= {"preemptionPolicy": "Never"} if called in self.polite else {}
                    self.pods.setdefault(name(pod), pod)
        job["status"] = lifecycle.counted(job, self.mine(job))

    def _schedule(self) -> None:
        snapshot = Snapshot(
            self.nodes,
            list(self.pods.values()),
            list(self.groups.values()),
            list(self.queues.values()),
            self.claims,
            self.services,
            self.priorities,
            self.hypernodes,
        )
        self.decisions = session.run(copy.deepcopy(snapshot), self.settings)
        for pod, node in self.decisions.bindings:
            self.pods[name(pod)]["spec"]["nodeName"] = node
            self.pods[name(pod)]["status"] = {"phase": "Running"}
        for eviction in self.decisions.evictions:
            del self.pods[name(eviction.pod)]
            self.told.add((name(eviction.group), "Evict", eviction.reason))
        for report in self.decisions.reports:
            self.groups[name(report.group)]["status"] = report.status
            self.told |= {(name(report.group), reason, words) for _, reason, words in report.events}
            for pod, message in [waiting for waiting in report.pods if name(waiting[0]) in self.pods]:
                condition = {"type": "PodScheduled", "status": "False", "message": message}
                self.pods[name(pod)]["status"]["conditions"] = [condition]

    # --- in the form of the recordings

    def seen(self) -> Object:
        state = {
            "jobs": {name(job): self._job(job) for job in self.jobs.values()},
            "podgroups": {self._clean(group): self._group(group) for group in self.groups.values()},
            "gpus_per_node_sorted": sorted(self.gpus().values(), reverse=True),
            "queues": {key: self._queue(key) for key in self.queues if key not in ("default", "root")},
        }
        return {key: value for key, value in state.items() if value}

    def gpus(self) -> dict[str, int]:
        used: dict[str, int] = {}
        for pod in self.pods.values():
            node = pod["spec"].get("nodeName")
            if node and pod["status"]["phase"] == "Running":
                requests = (c["resources"]["requests"] for c in pod["spec"]["containers"])
                used[node] = used.get(node, 0) + sum(int(given.get("nvidia.com/gpu", 0)) for given in requests)
        return used

    def _clean(self, group: Object) -> str:
        return name(group).partition("-uid-")[0] + "-<uid>"

    def _queue(self, key: str) -> Object:
        allocated = self.decisions.allocated[key].get("nvidia.com/gpu")
        return {"state": self.queues[key]["status"]["state"], "allocated_gpu": allocated}

    def _job(self, job: Object) -> Object:
        status = job["status"]
        keys = ("minAvailable", "pending", "running", "succeeded", "failed", "retryCount")
        return {"phase": lifecycle.phase_of(job), **{key: status[key] for key in keys if status.get(key)}}

    def _group(self, group: Object) -> Object:
        status, spec = group["status"], group["spec"]
        wanted = {"phase": status["phase"], "minMember": spec.get("minMember"), "minTaskMember": spec["minTaskMember"]}
        rest = {key: status[key] for key in ("conditions", "running", "succeeded", "failed") if status.get(key)}
        return wanted | rest
