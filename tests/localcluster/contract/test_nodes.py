"""Commands in pods, their logs and the nodes themselves, as kubectl sees them; under both API servers."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
from pathlib import Path

import httpx
import pytest
from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config
from kubernetes.stream import stream

from tests.localcluster.contract.nodes import (
    STAY,
    Agent,
    Cluster,
    Kubectl,
    Server,
    agent,
    condition,
    entry,
    kubectl,
    log,
    pods,
    server,
    shell,
)
from tests.localcluster.test_nodeagent import needs_mounts, wait_for

__all__ = ["agent", "kubectl", "pods", "server", "shell"]


def test_exec_carries_streams_and_the_exit_code(kubectl: Kubectl, shell: str) -> None:
    done = kubectl("exec", shell, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert done.stderr == "err\ncommand terminated with exit code 7\n"
    much = "x" * 3_000_000
    assert kubectl("exec", "-i", shell, "--", "cat", text=much).stdout == much


def test_exec_tells_why_it_could_not(kubectl: Kubectl, pods: Cluster, shell: str) -> None:
    missing = kubectl("exec", shell, "--", "nonsense")
    assert missing.returncode == 1
    assert 'exec: "nonsense": executable file not found in $PATH' in missing.stderr
    assert 'pods "nobody" not found' in kubectl("exec", "nobody", "--", "true").stderr
    pods.run("over", "true")
    pods.ended("over")
    wait_for(lambda: pods.phase("over") == "Succeeded")
    assert "cannot exec into a container in a completed pod" in kubectl("exec", "over", "--", "true").stderr


def test_exec_speaks_the_older_protocol_too(pods: Cluster, server: Server, shell: str) -> None:
    """The Python client has v4.channel.k8s.io, in which stdin cannot be closed."""
    api = CoreV1Api(new_client_from_config(str(server.kubeconfig)))
    command = ["sh", "-c", "read word; echo got $word; echo err >&2; exit 4"]
    wanted = {"stdin": True, "stdout": True, "stderr": True, "tty": False, "_preload_content": False}
    asked = stream(api.connect_get_namespaced_pod_exec, shell, pods.namespace, command=command, **wanted)
    asked.write_stdin("in\n")
    asked.run_forever(timeout=30)
    assert (asked.read_stdout(), asked.read_stderr(), asked.returncode) == ("got in\n", "err\n", 4)
    asked.close()


def test_exec_on_a_terminal_has_its_size(kubectl: Kubectl, shell: str) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    command = [*kubectl.head, "exec", "-it", shell, "--", "sh", "-c", "sleep 1; stty size; test -t 2 && echo terminal"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as running:
        os.close(theirs)
        assert running.wait(30) == 0
    assert os.read(ours, 1000).split() == [b"33", b"77", b"terminal"]
    os.close(ours)


@needs_mounts
def test_cp_brings_files_both_ways(kubectl: Kubectl, shell: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(os.urandom(100_000))
    assert kubectl("cp", str(tmp_path / "there"), f"{shell}:/tmp/file").returncode == 0
    assert kubectl("cp", f"{shell}:/tmp/file", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()


def test_exec_asks_for_the_right_to_create_also_where_it_begins_with_a_get(kubectl: Kubectl, shell: str) -> None:
    kubectl("create", "serviceaccount", "viewer")
    kubectl("create", "role", "view", "--verb=get", "--resource=pods,pods/exec")
    kubectl("create", "rolebinding", "view", "--role=view", f"--serviceaccount={kubectl.namespace}:viewer")
    token = kubectl("create", "token", "viewer").stdout.strip()
    refused = kubectl("exec", shell, "--", "true", token=token)
    assert refused.returncode == 1
    assert 'cannot create resource "pods/exec" in API group ""' in refused.stderr
    kubectl("create", "role", "run", "--verb=create", "--resource=pods/exec")
    kubectl("create", "rolebinding", "run", "--role=run", f"--serviceaccount={kubectl.namespace}:viewer")
    wait_for(lambda: kubectl("exec", shell, "--", "true", token=token).returncode == 0)


def test_a_drained_node_lets_its_pods_end_as_they_wish(kubectl: Kubectl, pods: Cluster) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hooked > /tmp/mark"]}}}
    script = "exec 2>/dev/null; trap 'cat /tmp/mark; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    pods.run("p", "sh", "-c", script, container={"lifecycle": hook}, node="test-0001")
    wait_for(lambda: "running" in pods.state("p") and log(pods, "p") == "up\n")
    with subprocess.Popen([*kubectl.head, "logs", "-f", "p"], stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        assert follower.stdout.readline() == "up\n"
        drained = kubectl("drain", "test-0001", "--force", "--ignore-daemonsets", "--timeout=50s")
        assert drained.stdout.endswith("node/test-0001 drained\n"), drained.stderr
        assert follower.stdout.read() == "hooked\n"
    assert pods.gone("p")
    assert "SchedulingDisabled" in kubectl("get", "node", "test-0001").stdout
    assert kubectl("uncordon", "test-0001").stdout == "node/test-0001 uncordoned\n"


# --- the node itself


def ready(pods: Cluster, node: str) -> str:
    conditions = pods.send("GET", f"/api/v1/nodes/{node}")["status"]["conditions"]
    return next(each["status"] for each in conditions if each["type"] == "Ready")


def test_a_node_that_was_given_up_reports_itself_ready_again(pods: Cluster) -> None:
    wait_for(lambda: ready(pods, "test-0001") == "True")
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "no word from it"}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    body = {"status": {"conditions": [unknown]}}
    answer = pods.http.patch("/api/v1/nodes/test-0001/status", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert ready(pods, "test-0001") == "Unknown"
    wait_for(lambda: ready(pods, "test-0001") == "True")


def test_a_node_talks_to_nobody_without_a_certificate(pods: Cluster, shell: str) -> None:
    """Any pod of the machine could ask."""
    port = pods.send("GET", "/api/v1/nodes/test-0000")["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    for path in (f"/containerLogs/{pods.namespace}/{shell}/main", f"/exec/{pods.namespace}/{shell}/main"):
        with pytest.raises(httpx.TransportError):
            httpx.get(f"https://127.0.0.1:{port}{path}", verify=False, trust_env=False)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False)


@pytest.mark.prove
def test_a_node_whose_agent_is_killed_is_given_up_and_comes_back_with_its_pods(pods: Cluster, agent: Agent) -> None:
    pods.run("p", *STAY)
    wait_for(lambda: condition(pods, "p") == "True" and ready(pods, "test-0000") == "True")
    agent.kill()
    wait_for(lambda: ready(pods, "test-0000") == "Unknown" and condition(pods, "p") == "False", 120)
    taints = wait_for(lambda: pods.send("GET", "/api/v1/nodes/test-0000")["spec"].get("taints"))
    assert "node.kubernetes.io/unreachable" in {taint["key"] for taint in taints}
    agent.start()
    wait_for(lambda: ready(pods, "test-0000") == "True" and condition(pods, "p") == "True", 60)
    wait_for(lambda: not pods.send("GET", "/api/v1/nodes/test-0000")["spec"].get("taints"), 60)
    assert entry(pods, "p")["restartCount"] == 0
    assert log(pods, "p") == "up\n"


def test_the_log_of_what_has_not_begun_says_what_it_waits_for(kubectl: Kubectl, pods: Cluster) -> None:
    pods.run("p", image="nobody/knows:1")
    wait_for(lambda: entry(pods, "p").get("state", {}).get("waiting", {}).get("reason") == "ImagePullBackOff")
    head = 'Error from server (BadRequest): container "main" in pod "p" is waiting to start: '
    told = kubectl("logs", "p").stderr
    # It is tried again and again, and shows the one reason and the other in turn.
    assert told in (f"{head}trying and failing to pull image\n", f"{head}image can't be pulled\n")


def test_logs_have_the_options_of_kubectl(kubectl: Kubectl, pods: Cluster) -> None:
    second = {"name": "side", "image": "maas/shell:1", "command": ["sh", "-c", "echo aside"]}
    script = "echo one; sleep 3; echo two; echo three"
    pods.run(
        "p",
        "sh",
        "-c",
        script,
        spec={"containers": [{"name": "main", "image": "maas/shell:1", "command": ["sh", "-c", script]}, second]},
    )
    wait_for(lambda: pods.phase("p") == "Succeeded")
    assert kubectl("logs", "p", "-c", "main").stdout == "one\ntwo\nthree\n"
    assert kubectl("logs", "p", "-c", "main", "--tail=1").stdout == "three\n"
    assert kubectl("logs", "p", "-c", "main", "--limit-bytes=5").stdout == "one\nt"
    assert kubectl("logs", "p", "-c", "side", "--timestamps").stdout.split()[0].endswith("Z")
    stamp = kubectl("logs", "p", "-c", "main", "--timestamps", "--tail=1").stdout.split()[0]
    assert kubectl("logs", "p", "-c", "main", f"--since-time={stamp}").stdout == "two\nthree\n"
    both = kubectl("logs", "p", "--all-containers", "--prefix").stdout.splitlines()
    assert set(both) == {"[pod/p/main] one", "[pod/p/main] two", "[pod/p/main] three", "[pod/p/side] aside"}
    previous = kubectl("logs", "-p", "p", "-c", "main").stderr
    assert 'previous terminated container "main" in pod "p" not found' in previous
