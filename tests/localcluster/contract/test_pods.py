"""Pods on our node agent, under the small API server and under a real one: what a kubelet does with them is seen."""

from __future__ import annotations

from tests.localcluster.contract.nodes import STAY, Agent, Cluster, agent, condition, entry, log, pods, said, server
from tests.localcluster.test_nodeagent import needs_mounts, wait_for

__all__ = ["agent", "pods", "server"]

FAST = {"periodSeconds": 1, "failureThreshold": 1}


# --- probes


def test_a_pod_is_ready_while_its_readiness_probe_succeeds(pods: Cluster) -> None:
    probe = {"exec": {"command": ["sh", "-c", "cat /tmp/ready"]}, **FAST}
    command = ("sh", "-c", "sleep 3; echo yes > /tmp/ready; sleep 4; rm /tmp/ready; sleep 100")
    pods.run("p", *command, container={"readinessProbe": probe})
    said(pods, "p", "Unhealthy", "Readiness probe failed: cat: /tmp/ready: No such file or directory")
    assert entry(pods, "p")["ready"] is False
    assert entry(pods, "p")["started"] is True
    wait_for(lambda: entry(pods, "p")["ready"] and condition(pods, "p") == "True")
    wait_for(lambda: condition(pods, "p") == "False")
    assert entry(pods, "p")["restartCount"] == 0


def test_a_failed_liveness_probe_restarts_the_container_with_the_grace_it_names(pods: Cluster) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/alive"]}, **FAST, "terminationGracePeriodSeconds": 1}
    command = ("sh", "-c", "trap '' TERM; echo begin; touch /tmp/alive; sleep 2; rm /tmp/alive; sleep 100 & wait; wait")
    spec = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 60}
    pods.run("p", *command, container={"livenessProbe": probe}, spec=spec)
    said(pods, "p", "Unhealthy", "Liveness probe failed: ")
    said(pods, "p", "Killing", "Container main failed liveness probe, will be restarted")
    wait_for(lambda: entry(pods, "p").get("restartCount", 0) >= 1)
    assert entry(pods, "p")["lastState"]["terminated"]["exitCode"] == 137
    assert log(pods, "p", previous="true") == "begin\n"
    pods.delete("pods", "p", gracePeriodSeconds=1)
    wait_for(lambda: pods.gone("p"))


def test_a_startup_probe_holds_the_others_back_and_condemns_by_itself(pods: Cluster) -> None:
    startup = {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 30}
    liveness = {"exec": {"command": ["test", "-e", "/tmp/up"]}, **FAST}
    probes = {"startupProbe": startup, "livenessProbe": liveness}
    pods.run("slow", "sh", "-c", "sleep 3; touch /tmp/up; sleep 100", container=probes)
    wait_for(lambda: "running" in pods.state("slow"))
    assert (entry(pods, "slow")["started"], entry(pods, "slow")["ready"]) == (False, False)
    wait_for(lambda: entry(pods, "slow")["started"] and entry(pods, "slow")["ready"])
    assert not [event for event in pods.events("slow") if "Liveness" in event["message"]]
    pods.run("never", *STAY, container={"startupProbe": {**startup, "failureThreshold": 2}})
    said(pods, "never", "Killing", "Container main failed startup probe")
    assert pods.ended("never")["exitCode"] == 143
    assert pods.phase("never") == "Failed"


@needs_mounts
def test_probes_ask_urls_and_ports_of_the_pods_own_address(pods: Cluster) -> None:
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    container = {
        "env": env,
        "ports": [{"name": "web", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/page", "port": "web"}, **FAST},
        "livenessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 9},
    }
    script = "sleep 2; cd /tmp; python -m http.server --bind $IP 8080 & sleep 5; touch /tmp/page; wait"
    pods.run("p", "sh", "-c", script, image="maas/python:3", container=container)
    address = wait_for(lambda: pods.pod("p").get("status", {}).get("podIP"))
    refused = f"dial tcp {address}:8080: connect: connection refused"
    said(pods, "p", "Unhealthy", f'Readiness probe failed: Get "http://{address}:8080/page": {refused}')
    said(pods, "p", "Unhealthy", f"Liveness probe failed: {refused}")
    said(pods, "p", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404")
    wait_for(lambda: condition(pods, "p") == "True")


def test_a_probe_that_takes_too_long_has_failed(pods: Cluster) -> None:
    pods.run("p", *STAY, container={"readinessProbe": {"exec": {"command": ["sleep", "50"]}, **FAST}})
    said(pods, "p", "Unhealthy", 'Readiness probe failed: command timed out: "sleep 50" timed out after 1s')


def test_a_probe_of_a_kind_that_is_not_done_says_so_and_condemns_nobody(pods: Cluster) -> None:
    probe = {"grpc": {"port": 9000}, **FAST}
    pods.run("p", *STAY, container={"readinessProbe": probe, "livenessProbe": probe})
    said(pods, "p", "Unhealthy", "Liveness probe errored and resulted in unknown state: this node does not do grpc")
    assert entry(pods, "p")["ready"] is False
    assert entry(pods, "p")["restartCount"] == 0


def test_a_new_agent_finds_a_ready_pod_ready(pods: Cluster, agent: Agent) -> None:
    pods.run("p", *STAY, container={"readinessProbe": {"exec": {"command": ["true"]}, **FAST}})
    wait_for(lambda: condition(pods, "p") == "True")
    since = [c for c in pods.pod("p")["status"]["conditions"] if c["type"] == "Ready"]
    agent.kill()
    agent.start()
    pods.run("next", "true")
    pods.ended("next")
    assert [c for c in pods.pod("p")["status"]["conditions"] if c["type"] == "Ready"] == since


def test_a_readiness_gate_waits_for_its_condition(pods: Cluster) -> None:
    pods.run("p", *STAY, spec={"readinessGates": [{"conditionType": "example.com/open"}]})
    wait_for(lambda: condition(pods, "p", "ContainersReady") == "True")
    assert condition(pods, "p") == "False"
    opened = {"status": {"conditions": [{"type": "example.com/open", "status": "True"}]}}
    path = pods.path("pods", "p") + "/status"
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    assert pods.http.patch(path, json=opened, headers=headers).status_code == 200
    wait_for(lambda: condition(pods, "p") == "True")


# --- hooks, sidecars, deadlines


def test_a_pod_runs_once_its_post_start_hook_is_done(pods: Cluster) -> None:
    hook = {"exec": {"command": ["sh", "-c", "sleep 2; echo hook > /tmp/mark"]}}
    pods.run(
        "p",
        "sh",
        "-c",
        "while ! cat /tmp/mark; do sleep 0.2; done; sleep 100",
        container={"lifecycle": {"postStart": hook}},
    )
    wait_for(lambda: "waiting" in pods.state("p"))
    assert pods.state("p")["waiting"]["reason"] == "ContainerCreating"
    wait_for(lambda: "running" in pods.state("p"))
    wait_for(lambda: "hook" in log(pods, "p"))


def test_a_container_whose_post_start_hook_fails_is_ended(pods: Cluster) -> None:
    pods.run("p", *STAY, container={"lifecycle": {"postStart": {"exec": {"command": ["false"]}}}})
    said(pods, "p", "FailedPostStartHook", "PostStartHook failed")
    said(pods, "p", "Killing", "FailedPostStartHook")
    assert pods.ended("p")["exitCode"] == 143


PATIENT = ("sh", "-c", "exec 2>/dev/null; trap 'echo asked; kill $!; exit 0' TERM; echo up; sleep 1000 & wait")
"""The shell hears the signal at once: what it waits for need not end first."""


def test_the_pre_stop_hook_comes_before_sigterm_and_counts_towards_the_grace(pods: Cluster) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook > /tmp/mark; sleep 1; echo hooked > /tmp/mark"]}}}
    script = "exec 2>/dev/null; trap 'cat /tmp/mark; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    pods.run("p", "sh", "-c", script, container={"lifecycle": hook}, spec={"terminationGracePeriodSeconds": 30})
    endless = {"preStop": {"sleep": {"seconds": 60}}}
    pods.run("q", *PATIENT, container={"lifecycle": endless}, spec={"terminationGracePeriodSeconds": 61})
    failing = {"preStop": {"exec": {"command": ["false"]}}}
    pods.run("r", *PATIENT, container={"lifecycle": failing})
    for name in ("p", "q", "r"):
        wait_for(lambda n=name: "running" in pods.state(n))
        wait_for(lambda n=name: "up" in log(pods, n))
    pods.delete("pods", "p")
    assert log(pods, "p", follow="true") == "up\nhooked\n"
    pods.delete("pods", "q", gracePeriodSeconds=2)
    assert log(pods, "q", follow="true") == "up\nasked\n"
    pods.delete("pods", "r")
    said(pods, "r", "FailedPreStopHook", "PreStopHook failed")
    for name in ("p", "q", "r"):
        wait_for(lambda n=name: pods.gone(n))


def test_a_second_delete_shortens_an_end_whose_hook_is_over(pods: Cluster) -> None:
    hook = {"preStop": {"exec": {"command": ["true"]}}}
    deaf = ("sh", "-c", "trap 'echo asked' TERM; echo up; while :; do sleep 0.1; done")
    pods.run("p", *deaf, container={"lifecycle": hook}, spec={"terminationGracePeriodSeconds": 600})
    wait_for(lambda: "running" in pods.state("p") and log(pods, "p") == "up\n")
    pods.delete("pods", "p")
    wait_for(lambda: "asked" in log(pods, "p"))
    pods.delete("pods", "p", gracePeriodSeconds=1)
    wait_for(lambda: pods.gone("p"))


def test_a_new_agent_goes_on_with_an_end_that_has_begun(pods: Cluster, agent: Agent) -> None:
    pods.run("p", *PATIENT, container={"lifecycle": {"preStop": {"sleep": {"seconds": 2}}}})
    wait_for(lambda: "running" in pods.state("p") and log(pods, "p") == "up\n")
    folder = agent.folder / "pods" / pods.pod("p")["metadata"]["uid"]
    pods.delete("pods", "p")
    said(pods, "p", "Killing", "Stopping container main")
    agent.kill()
    kept = (folder / "containers/main/0/log").open()
    agent.start()
    wait_for(lambda: pods.gone("p"))
    assert [line.split()[-1] for line in kept] == ["up", "asked"]
    kept.close()


def test_a_sidecar_starts_first_stays_and_ends_last(pods: Cluster) -> None:
    sidecar = {
        "name": "side",
        "image": "maas/shell:1",
        "restartPolicy": "Always",
        "command": [
            "sh",
            "-c",
            "exec 2>/dev/null; trap 'echo bye; exit 0' TERM; touch /both/side; while :; do sleep 0.1; done",
        ],
        "startupProbe": {"exec": {"command": ["test", "-e", "/both/side"]}, "periodSeconds": 1},
        "volumeMounts": [{"name": "both", "mountPath": "/both"}],
    }
    container = {"volumeMounts": sidecar["volumeMounts"]}
    spec = {"initContainers": [sidecar], "volumes": [{"name": "both", "emptyDir": {}}]}
    pods.run("p", "sh", "-c", "cat /both/side && echo there; sleep 1", container=container, spec=spec)
    wait_for(lambda: "running" in entry(pods, "p", "side").get("state", {}))
    assert pods.ended("p")["exitCode"] == 0
    wait_for(lambda: pods.phase("p") == "Succeeded")
    assert log(pods, "p", container="main") == "there\n"
    assert log(pods, "p", container="side") == "bye\n"
    assert entry(pods, "p", "side")["state"]["terminated"]["exitCode"] == 0


def test_a_sidecar_that_fails_is_restarted_while_the_pod_goes_on(pods: Cluster) -> None:
    sidecar = {
        "name": "side",
        "image": "maas/shell:1",
        "restartPolicy": "Always",
        "command": ["sh", "-c", "sleep 1; exit 3"],
    }
    pods.run("p", *STAY, spec={"initContainers": [sidecar]})
    wait_for(lambda: entry(pods, "p", "side").get("restartCount", 0) >= 2)
    assert entry(pods, "p", "side")["lastState"]["terminated"]["exitCode"] == 3
    assert pods.phase("p") == "Running"
    assert condition(pods, "p", "Initialized") == "True"
    assert entry(pods, "p")["restartCount"] == 0


def test_a_pod_is_given_up_at_its_deadline(pods: Cluster) -> None:
    pods.run("p", *PATIENT, spec={"activeDeadlineSeconds": 2})
    wait_for(lambda: pods.phase("p") == "Failed")
    status = pods.pod("p")["status"]
    assert status["reason"] == "DeadlineExceeded"
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert pods.ended("p")["exitCode"] == 0
    assert pods.phase("p") == "Failed"
    said(pods, "p", "DeadlineExceeded", status["message"])


@needs_mounts
def test_last_words_are_read_from_where_the_container_says(pods: Cluster) -> None:
    pods.run("p", "sh", "-c", "echo why > /tmp/last; exit 2", container={"terminationMessagePath": "/tmp/last"})
    assert pods.ended("p")["message"] == "why\n"
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    pods.run("q", "sh", "-c", "echo from the log; exit 2", container=policy)
    assert pods.ended("q")["message"] == "from the log"


def test_a_container_past_its_memory_limit_is_oom_killed(pods: Cluster) -> None:
    grow = "import time; data = bytearray(b'x') * (200 << 20); time.sleep(60)"
    limits = {"resources": {"limits": {"memory": "100Mi"}}}
    pods.run("p", "python", "-c", grow, image="maas/python:3", container=limits)
    ended = pods.ended("p")
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
