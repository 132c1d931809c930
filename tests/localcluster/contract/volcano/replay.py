"""One recorded case against one cluster."""

from __future__ import annotations

import copy
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from apps.localcluster.volcano.objects import CORE, name, path
from tests.localcluster.contract.exchange import Answer
from tests.localcluster.contract.replay import Refused
from tests.localcluster.contract.volcano import looking
from tests.localcluster.contract.volcano.cluster import (
    APPLY,
    JSON_PATCH,
    MERGE,
    NAMESPACE,
    Cluster,
    Object,
    Recorder,
    job_of,
    phase_of,
    until,
    where,
)
from tests.localcluster.contract.volcano.facts import Facts, Moment
from tests.localcluster.contract.volcano.judging import Judge, moved_on
from tests.localcluster.volcano_cases import created, let_in_at_once

NOWHERE = "00000000-0000-0000-0000-000000000000"
STUCK = "contract.test/silent-node"
"""A finalizer: a node that is silent cannot confirm that its pod is gone."""
WAIT_SECONDS, MANY_SECONDS, HOLD_SECONDS, STAY_SECONDS = 30.0, 180.0, 20.0, 2.0


class Replay:
    def __init__(self, cluster: Cluster, recorder: Recorder, case: Object) -> None:
        self.cluster, self.recorder, self.case = cluster, recorder, case
        self.outcome, self.judge = case["outcome"], Judge(case["varied"], at_once=let_in_at_once(case))
        self.facts = Facts(cluster, recorder)
        self.number = 0
        self._first: dict[str, Object] = {}
        self._over, self._pause = threading.Event(), threading.Event()

    def run(self) -> None:
        """Raises AssertionError with the first difference, Refused."""
        try:
            for number, step in enumerate(self.case["objects"], 1):
                self.number = number
                kind = next(key for key in step if hasattr(self, f"_do_{key}"))
                if "facts" in self.outcome and kind != "wait":
                    self.facts.moments.append(Moment.now(self.cluster, kind))
                getattr(self, f"_do_{kind}")(step)
            self._judge_end()
        finally:
            self._over.set()

    # --- steps ------------------------------------------------------------------------------------------------------

    def _do_create(self, step: Object) -> None:
        item = self._with_uids(step["create"])
        answer = self.cluster.create(item)
        if answer.status < 300:
            self._first.setdefault(f"{item['kind']}/{name(item)}", answer.json)
        self._judge_answer(answer)
        if answer.status >= 400 and "accepted_in_the_end" in self.outcome.get("facts", {}):
            accepted = until(lambda: self.cluster.create(item).status == 201, 10)
            self.facts.told["accepted_in_the_end"] = accepted

    def _with_uids(self, value: Any) -> Any:
        """`<uid of KIND/NAME>` is written out."""
        if isinstance(value, dict):
            return {key: self._with_uids(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._with_uids(each) for each in value]
        if isinstance(value, str) and (found := re.fullmatch(r"<uid of (\w+)/(.+)>", value)):
            return self.cluster.get(found[1], found[2]).get("metadata", {}).get("uid", NOWHERE)
        return value

    def _do_wait(self, step: Object) -> None:
        holds, text = condition(self, step["wait"]), step["wait"]
        if never := step.get("not_reached_within_s"):
            assert not until(holds, never), f"step {self.number}: {text}, which was never recorded"
            return
        many = "with all pods" in text or "jobs Running" in text
        seconds = max(step.get("within_s", 0), MANY_SECONDS if many else WAIT_SECONDS)
        if not until(holds, seconds):
            raise AssertionError(f"step {self.number}: not in {seconds:.0f} s: {text}; {looking.state(self.cluster)}")

    def _do_let_pass_s(self, step: Object) -> None:
        self._pause.wait(step["let_pass_s"])

    def _do_look(self, step: Object) -> None:
        self._judge_state(self.outcome.get("seen", {}).get(step["look"], {}), f"seen.{step['look']}")

    def _do_pods_end(self, step: Object) -> None:
        pods = [self.cluster.get("Pod", pod) for pod in step["pods_end"]]
        assert all(pods), f"step {self.number}: not all of these pods are there"
        with ThreadPoolExecutor(len(pods)) as pool:
            first, *others = pool.map(lambda pod: self._end(pod, step["exit_code"]), pods)
        # The first one to fail may have made the controller take the others away meanwhile.
        assert 200 in (first, *others), f"step {self.number}: these pods cannot end: {first}"

    def _end(self, pod: Object, exit_code: int) -> int:
        """The HTTP code: 404 or 409 if this pod is not there any more."""
        state = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}
        state |= {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
        ended = {"state": {"terminated": state}, "ready": False, "restartCount": 0, "imageID": ""}
        statuses = [{"name": c["name"], "image": c["image"], **ended} for c in pod["spec"]["containers"]]
        status = {"phase": "Failed" if exit_code else "Succeeded", "containerStatuses": statuses}
        change = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        return self.cluster.patch(where("Pod", name(pod), "status"), change).status

    def _do_patch(self, step: Object) -> None:
        kind = JSON_PATCH if isinstance(step["body"], list) else MERGE
        self._judge_answer(self.cluster.patch(where(*self._target(step["patch"])), step["body"], kind))

    def _target(self, text: str) -> tuple[str, str]:
        """Kind and name of `KIND/NAME` or `Node of pod NAME`; of the latter always the one that was meant at first."""
        if found := re.fullmatch(r"(?:the node|Node) of pod (\S+)", text):
            pod = self.cluster.get("Pod", found[1])
            self.facts.node = self.facts.node or pod["spec"]["nodeName"]
            return "Node", self.facts.node
        kind, _, label = text.partition("/")
        return kind, label

    def _do_put(self, step: Object) -> None:
        found = re.fullmatch(r"Job/(\S+) read before it ran, replicas (\d+)", step["put"])
        assert found, step
        job = copy.deepcopy(self._first[f"Job/{found[1]}"])
        job["spec"]["tasks"][0]["replicas"] = int(found[2])
        self._judge_answer(self.cluster.exchange.ask("PUT", where("Job", found[1]), job))

    def _do_server_side_apply(self, step: Object) -> None:
        item = step["server_side_apply"]
        target = f"{where(item['kind'], name(item))}?fieldManager=portal&force=true"
        self._judge_answer(self.cluster.patch(target, item, APPLY))

    def _do_delete(self, step: Object) -> None:
        self._judge_answer(self.cluster.delete(*self._target(step["delete"])))

    def _do_evict(self, step: Object) -> None:
        pod = step["evict"].removeprefix("Pod/")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
        self._judge_answer(self.cluster.exchange.ask("POST", where("Pod", pod, "eviction"), body))

    def _do_node_silent(self, step: Object) -> None:
        """Nobody plays it any more, its condition stays Unknown, and its pods cannot go."""
        _, node = self._target(step["node_silent"])
        for pod in self.cluster.list("Pod"):
            if pod["spec"].get("nodeName") == node:
                self.cluster.patch(where("Pod", name(pod)), {"metadata": {"finalizers": [STUCK]}})
        self.cluster.patch(where("Node", node), {"metadata": {"labels": {"type": None}}})
        threading.Thread(target=self._hold_silent, args=(node,), daemon=True).start()

    def _hold_silent(self, node: str) -> None:
        unknown = {
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
        while not self._over.wait(0.3):
            conditions = (self.cluster.get("Node", node).get("status") or {}).get("conditions") or []
            if any(c["type"] == "Ready" and c["status"] != "Unknown" for c in conditions):
                stamp = {"lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
                changed = [c | unknown | stamp if c["type"] == "Ready" else c for c in conditions]
                self.cluster.patch(path(CORE, "nodes", "", node, "status"), {"status": {"conditions": changed}})

    def _do_create_at_once(self, step: Object) -> None:
        found = re.fullmatch(r"(\d+) jobs j000\.\.j\d+, each like (\w+)", step["create_at_once"])
        assert found, step
        like = next(job for job in created(self.case) if name(job) == found[2])
        jobs = [{**like, "metadata": {**like["metadata"], "name": f"j{number:03d}"}} for number in range(int(found[1]))]
        with ThreadPoolExecutor(8) as pool:
            codes = set(pool.map(lambda job: self.cluster.create(job).status, jobs))
        self.facts.told |= {"all_accepted": codes == {201}, "all_running": True}  # or the next step fails

    def _do_for_each_delay(self, step: Object) -> None:
        """Two ranks of a gang fail some milliseconds apart, another job for each distance."""
        del step
        for key in self.outcome["facts"]:
            self.facts.told[key] = self._fail_apart(int(key.removesuffix(" ms")))

    def _fail_apart(self, milliseconds: int) -> Object:
        label = f"d{milliseconds}"
        self.cluster.create(_gang_of_two(label))
        runs = until(lambda: self.phase(label) == "Running" and self.running(label) == 2, WAIT_SECONDS)
        assert runs, f"Job/{label} does not run"
        self._pause.wait(1)
        pods = [self.cluster.get("Pod", f"{label}-w-{index}") for index in (0, 1)]
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(self._end, pods[0], 1)
            if milliseconds:
                first.result()
                self._pause.wait(milliseconds / 1000)
            second = pool.submit(self._end, pods[1], 1).result()
        self._pause.wait(4)
        status = self.cluster.get("Job", label)["status"]
        self.cluster.delete("Job", label)
        self._pause.wait(1.5)
        return {
            "second_pod": "failed too" if second == 200 else "pod already replaced",
            "retryCount": status.get("retryCount"),
            "phase": status["state"]["phase"],
        }

    # --- reading ----------------------------------------------------------------------------------------------------

    def phase(self, job: str) -> str | None:
        return phase_of("Job", self.cluster.get("Job", job))

    def pods(self, job: str) -> list[Object]:
        return [pod for pod in self.cluster.list("Pod") if job_of(pod) == job]

    def running(self, job: str) -> int:
        return looking.pods_by_phase(self.pods(job)).get(job, {}).get("Running", 0)

    # --- judging ----------------------------------------------------------------------------------------------------

    def _judge_answer(self, answer: Answer) -> None:
        wanted = self.outcome.get("answers", {}).get(f"step {self.number}", {})
        code = wanted.get("code")
        if code is None and self.judge.free(f"answers.step {self.number}"):
            return
        fine = answer.status == code if code is not None and code >= 300 else answer.status < 300
        if not fine:
            if answer.refuses:
                raise Refused(str(answer))
            raise AssertionError(f"step {self.number}: {answer}, not {code or 'accepted'}")

    def _judge_state(self, wanted: Object, place: str) -> None:
        """It has to come about, and to stay if it comes late."""
        look = looking.jobs_by_phase if "jobs_by_phase" in wanted else looking.state
        end, late = time.monotonic() + HOLD_SECONDS, False
        while True:
            got = look(self.cluster)
            found = self.judge.difference(moved_on(wanted, got), got, place)
            if not found and late:
                self._pause.wait(STAY_SECONDS)
                got = look(self.cluster)
                found = self.judge.difference(moved_on(wanted, got), got, place)
            if not found:
                return
            assert time.monotonic() < end, found
            late = True
            self._pause.wait(0.2)

    def _judge_end(self) -> None:
        last = self.case["objects"][-1]
        if "let_pass_s" not in last and "not_reached_within_s" not in last:
            self._pause.wait(1.6 if self.outcome.get("final") else 0.4)
        self._judge_state(self.outcome.get("final", {}), "final")
        self.facts.moments.append(Moment.now(self.cluster, "end"))
        if "jobs_by_phase" not in self.outcome.get("final", {}):
            until(lambda: not self._history_difference(), 2)  # the watch may be behind
            found = self._history_difference()
            assert found is None, found
        for key, wanted in self.outcome.get("facts", {}).items():
            self._judge_fact(key, wanted)

    def _history_difference(self) -> str | None:
        phases = self.judge.of_phases(self.outcome.get("phase_sequences", {}), self.recorder.sequences())
        lives = self.outcome.get("pods_created_more_than_once", {})
        return phases or self.judge.of_lives(lives, self.recorder.lives())

    def _judge_fact(self, key: str, wanted: Any) -> None:
        got = self.facts.read(self.case["id"][:2], key)
        if key == "pod_condition_PodScheduled":
            wanted = {pod: told["reason"] for pod, told in wanted.items()}
        if key == "commands_left" and isinstance(wanted, int):
            got = len(got)
        found = self.judge.difference(wanted, got, f"facts.{key}")
        assert found is None, found


def _gang_of_two(label: str) -> Object:
    resources = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "4"}
    container = {"name": "main", "image": "train:1", "resources": {"requests": resources, "limits": resources}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"schedulerName": "volcano", "maxRetry": 5, "policies": [{"event": "PodFailed", "action": "RestartJob"}]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": label, "namespace": NAMESPACE},
        "spec": {**spec, "tasks": [{"name": "w", "replicas": 2, "template": template}]},
    }


# --- what cases wait for --------------------------------------------------------------------------------------------

Holds = Callable[[], object]


def condition(replay: Replay, text: str) -> Holds:
    for pattern, holds in _CONDITIONS.items():
        if found := re.fullmatch(pattern, text):
            return holds(replay, *found.groups())
    raise KeyError(text)


def _new_pods(replay: Replay, count: str, job: str) -> Holds:
    """Of a job that was deleted and made again."""
    before: set[str] = set()
    for kind, change, item in replay.recorder.seen():
        if (kind, change) == ("Job", "DELETED"):
            break
        before |= {item["metadata"]["uid"]} if kind == "Pod" else set()

    def holds() -> bool:
        new = [pod for pod in replay.pods(job) if pod["metadata"]["uid"] not in before]
        return (
            [pod["status"]["phase"] for pod in new] == ["Running"] * int(count) == ["Running"] * len(replay.pods(job))
        )

    return holds


def _all_pods(replay: Replay, job: str) -> Holds:
    def holds() -> bool:
        item = replay.cluster.get("Job", job)
        return bool(item["status"].get("running") == sum(task["replicas"] for task in item["spec"]["tasks"]))

    return holds


_CONDITIONS: dict[str, Callable[..., Holds]] = {
    r"Job/(\S+) phase in (\S+)": lambda r, job, phases: lambda: r.phase(job) in phases.split("|"),
    r"(\d+) pods of (\S+) Running": lambda r, count, job: lambda: r.running(job) == int(count),
    r"(\d+) pods of (\S+) Running, Job/\S+ Running": lambda r, count, job: (
        lambda: r.running(job) == int(count) and r.phase(job) == "Running"
    ),
    r"(\d+) new pods of (\S+) Running": _new_pods,
    r"Job/(\S+) Running with all pods": _all_pods,
    r"Job/(\S+) retryCount (\d+)": lambda r, job, count: (
        lambda: r.cluster.get("Job", job)["status"].get("retryCount") == int(count)
    ),
    r"Job/(\S+) is gone": lambda r, job: lambda: not r.cluster.get("Job", job),
    r"Pod/(\S+) Running": lambda r, pod: lambda: r.cluster.get("Pod", pod)["status"]["phase"] == "Running",
    r"Queue/(\S+) (?:status\.)?state (?:== )?(\w+)": lambda r, queue, state: (
        lambda: phase_of("Queue", r.cluster.get("Queue", queue)) == state
    ),
    r"ResourceQuota/(\S+) has status": lambda r, quota: lambda: r.cluster.get("ResourceQuota", quota)["status"]["hard"],
    r"(\d+) jobs Running": lambda r, count: (
        lambda: sum(phase_of("Job", job) == "Running" for job in r.cluster.list("Job")) >= int(count)
    ),
}
