"""The node agent against an API server: pods become processes, and survive the agent being killed.

Set TEST_KUBECONFIG to run it against another cluster whose API server reaches this machine's loopback.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.localcluster.client import Kubeconfig
from apps.localcluster.nodeagent import machine

ROOT = Path(__file__).resolve().parents[2]
TLS = bool(os.environ.get("TEST_KUBECONFIG"))  # as a kube-apiserver wants it
MOUNTS = machine.examine()
needs_mounts = pytest.mark.skipif(not MOUNTS.mounts, reason="this machine allows no private mounts")
Object = dict[str, Any]


def wait_for(what: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"did not come true in {seconds} s: {what()!r}")


class Cluster:
    """A thin view of the API server, for one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.kubeconfig, self.namespace = kubeconfig, namespace
        config = Kubeconfig.load(kubeconfig)
        headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}
        self.http = httpx.Client(base_url=config.server, verify=config.verify, headers=headers, trust_env=False)

    def send(self, method: str, path: str, body: Object | None = None, ok: tuple[int, ...] = (200, 201, 202)) -> Object:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code in ok, answer.text
        return {} if answer.status_code == 404 else dict(answer.json())

    def path(self, kind: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    def make(self, collection: str, name: str, **body: Any) -> Object:
        metadata = {"name": name, **body.pop("metadata", {})}
        return self.send("POST", self.path(collection), {"apiVersion": "v1", "metadata": metadata, **body})

    def run(self, name: str, *command: str, image: str = "maas/shell:1", **more: Any) -> Object:
        """Make a pod of one container bound to our first node."""
        container = {"name": "main", "image": image, "command": list(command), **more.pop("container", {})}
        spec = {
            "nodeName": more.pop("node", "test-0000"),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "containers": [container],
            **more.pop("spec", {}),
        }
        return self.make("pods", name, kind="Pod", spec=spec, **more)

    def pod(self, name: str) -> Object:
        return self.send("GET", self.path("pods", name), ok=(200, 404))

    def state(self, name: str) -> Object:
        statuses = self.pod(name).get("status", {}).get("containerStatuses") or [{}]
        return dict(statuses[0].get("state") or {})

    def ended(self, name: str) -> Object:
        return dict(wait_for(lambda: self.state(name).get("terminated")))

    def phase(self, name: str) -> str:
        return str(self.pod(name).get("status", {}).get("phase", ""))

    def events(self, name: str) -> list[Object]:
        found = self.send("GET", self.path("events"))["items"]
        return [e for e in found if e["involvedObject"]["name"] == name]

    def told(self, name: str, reason: str) -> Object:
        return dict(wait_for(lambda: next((e for e in self.events(name) if e["reason"] == reason), None)))

    def log(self, name: str, container: str = "main", **query: str) -> httpx.Response:
        """From the node's own log server, at the address the node object gives."""
        node = self.send("GET", f"/api/v1/nodes/{self.pod(name)['spec']['nodeName']}")["status"]
        address = next(a["address"] for a in node["addresses"] if a["type"] == "InternalIP")
        port = node["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        url = f"{'https' if TLS else 'http'}://{address}:{port}/containerLogs/{self.namespace}/{name}/{container}"
        return httpx.get(url, params=query, trust_env=False, timeout=20, verify=False)

    def delete(self, kind: str, name: str, **options: Any) -> None:
        self.send("DELETE", self.path(kind, name), options or None, ok=(200, 202, 404))

    def gone(self, name: str) -> bool:
        return not self.pod(name)


class Agent:
    """The agent as its own process, to be killed and started again."""

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str) -> None:
        fleet = [
            {
                "prefix": "test",
                "count": 2,
                "labels": {},
                "capacity": {"cpu": "8", "memory": "8Gi", "pods": "20", "nvidia.com/gpu": "8"},
            }
        ]
        folder.mkdir(exist_ok=True, parents=True)
        (folder.parent / "fleet.json").write_text(json.dumps(fleet))
        self.command = [
            sys.executable, "-m", "apps.localcluster.nodeagent", "--kubeconfig", str(kubeconfig),
            "--fleet", str(folder.parent / "fleet.json"), "--dir", str(folder), "--backoff", "0.4",
            *(["--tls"] if TLS else []),
        ]  # fmt: skip
        self.flags, self.folder = list(flags), folder
        self.log = (folder.parent / "agent.log").open("ab")
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "HOST_SECRET": "must-not-leak"}
        self.process = subprocess.Popen(
            self.command + self.flags, cwd=ROOT, stdout=self.log, stderr=self.log, env=environment
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)
        subprocess.run([*self.command, "--end"], cwd=ROOT, check=True, timeout=60)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if os.environ.get("TEST_KUBECONFIG"):
        yield Path(os.environ["TEST_KUBECONFIG"])
        return
    folder = tmp_path_factory.mktemp("api")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "apps.localcluster.apiserver", "--dir", str(folder), "--port", str(port)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    file = folder / "admin.kubeconfig"

    def up() -> bool:
        try:
            return file.exists() and Cluster(file, "x").http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_for(up, 30)
        yield file
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="module")
def agent(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    one = Agent(kubeconfig, tmp_path_factory.mktemp("agent") / "dir")
    yield one
    one.end()


@pytest.fixture
def cluster(kubeconfig: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    name = "n" + base64.b32encode(os.urandom(5)).decode().lower()
    one = Cluster(kubeconfig, name)
    one.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    wait_for(lambda: one.http.get(one.path("serviceaccounts", "default")).status_code == 200)
    yield one
    pods = one.send("GET", one.path("pods"))["items"]
    for pod in pods:
        one.delete("pods", pod["metadata"]["name"], gracePeriodSeconds=0)
    one.send("DELETE", f"/api/v1/namespaces/{name}", ok=(200, 202, 409))
    one.http.close()


def test_nodes_are_ready_with_a_lease(agent: Agent, cluster: Cluster) -> None:
    def ready() -> bool:
        node = cluster.send("GET", "/api/v1/nodes/test-0001", ok=(200, 404))
        conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or ()}
        return conditions.get("Ready") == "True"

    wait_for(ready)
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/test-0001"
    assert wait_for(lambda: cluster.send("GET", leases, ok=(200, 404)).get("spec"))["holderIdentity"] == "test-0001"


def test_a_pod_runs_with_its_environment_and_reports_its_exit_code(agent: Agent, cluster: Cluster) -> None:
    env = [
        {"name": "WHO", "value": "world"},
        {"name": "HELLO", "value": "hello $(WHO)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    resources = {"limits": {"nvidia.com/gpu": "2"}}
    cluster.run("p", "sh", "-c", "env; exit 3", container={"env": env, "resources": resources})
    assert cluster.ended("p")["exitCode"] == 3
    assert cluster.phase("p") == "Failed"
    lines = dict(line.split("=", 1) for line in cluster.log("p").text.splitlines() if "=" in line)
    assert lines["HELLO"] == "hello world"
    assert lines["IP"] == cluster.pod("p")["status"]["podIP"] != "127.0.0.1"
    assert len(lines["NVIDIA_VISIBLE_DEVICES"].split(",")) == 2
    assert "HOST_SECRET" not in lines
    assert {e["reason"] for e in cluster.events("p")} >= {"Pulled", "Created", "Started"}


def mounted(kind: str, **source: Any) -> tuple[Object, Object]:
    return {"name": "v", kind: source}, {"name": "v", "mountPath": "/etc/of/pod"}


@needs_mounts
def test_secrets_are_files_with_their_mode_at_their_path(agent: Agent, cluster: Cluster) -> None:
    secret = {name: base64.b64encode(value.encode()).decode() for name, value in (("a", "geheim"), ("b", "x"))}
    cluster.make("secrets", "s", kind="Secret", data=secret)
    items = [{"key": "a", "path": "sub/key", "mode": 0o440}, {"key": "b", "path": "plain"}]
    volume, mount = mounted("secret", secretName="s", defaultMode=0o400, items=items)
    script = "cat /etc/of/pod/sub/key; stat -c %a /etc/of/pod/sub/key /etc/of/pod/plain; touch /etc/of/pod/x || echo ro"
    cluster.run(
        "p", "sh", "-c", script, container={"volumeMounts": [{**mount, "readOnly": True}]}, spec={"volumes": [volume]}
    )
    assert cluster.ended("p")["exitCode"] == 0
    assert [line for line in cluster.log("p").text.split("\n") if line and "touch" not in line] == [
        "geheim440",
        "400",
        "ro",
    ]


@needs_mounts
def test_a_claim_outlives_its_pods_and_an_empty_dir_does_not(agent: Agent, cluster: Cluster) -> None:
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.make("persistentvolumeclaims", "ckpt", kind="PersistentVolumeClaim", spec=claim)
    volumes = [
        {"name": "c", "persistentVolumeClaim": {"claimName": "ckpt"}},
        {"name": "e", "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [{"name": "c", "mountPath": "/ckpt"}, {"name": "e", "mountPath": "/scratch"}]
    for name in ("first", "second"):
        script = f"ls /ckpt /scratch; echo x > /ckpt/{name}; echo x > /scratch/{name}"
        cluster.run(name, "sh", "-c", script, container={"volumeMounts": mounts}, spec={"volumes": volumes})
        assert cluster.ended(name)["exitCode"] == 0
    assert cluster.log("second").text.split() == ["/ckpt:", "first", "/scratch:"]


def test_a_missing_claim_keeps_the_pod_waiting_until_it_is_there(agent: Agent, cluster: Cluster) -> None:
    volume = {"name": "c", "persistentVolumeClaim": {"claimName": "late"}}
    cluster.run("p", "sh", "-c", "exit 0", spec={"volumes": [volume]})
    assert 'persistentvolumeclaim "late" not found' in cluster.told("p", "FailedMount")["message"]
    assert cluster.state("p")["waiting"]["reason"] == "ContainerCreating"
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.make("persistentvolumeclaims", "late", kind="PersistentVolumeClaim", spec=claim)
    assert cluster.ended("p")["exitCode"] == 0


def test_host_paths_are_refused(agent: Agent, cluster: Cluster) -> None:
    cluster.run("p", "true", spec={"volumes": [{"name": "h", "hostPath": {"path": "/"}}]})
    assert "gives no hostPath" in cluster.told("p", "FailedMount")["message"]


def test_a_missing_secret_of_env_is_a_config_error_until_it_is_there(agent: Agent, cluster: Cluster) -> None:
    env = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    cluster.run("p", "sh", "-c", "echo $X", container={"env": env})
    waiting = wait_for(lambda: cluster.state("p").get("waiting", {}).get("message"))
    assert waiting == 'secret "s" not found'
    assert cluster.state("p")["waiting"]["reason"] == "CreateContainerConfigError"
    cluster.make("secrets", "s", kind="Secret", data={"k": base64.b64encode(b"v").decode()})
    assert cluster.ended("p")["exitCode"] == 0
    assert cluster.log("p").text == "v\n"


def test_an_unknown_image_is_asked_for_again_and_again_with_growing_pauses(agent: Agent, cluster: Cluster) -> None:
    cluster.run("p", image="nobody/knows:1", spec={"restartPolicy": "Always"})
    reason = lambda: cluster.state("p").get("waiting", {}).get("reason")  # noqa: E731
    wait_for(lambda: reason() == "ErrImagePull")
    wait_for(lambda: reason() == "ImagePullBackOff")
    assert cluster.phase("p") == "Pending"
    wait_for(lambda: cluster.told("p", "Pulling").get("count", 1) >= 3)
    answer = cluster.log("p")
    assert answer.status_code == 400
    assert "is waiting to start: " in answer.text


def test_restarts_are_counted_and_the_previous_log_is_kept(agent: Agent, cluster: Cluster) -> None:
    volume = {"name": "e", "emptyDir": {}}
    script = (
        'n=$(cat "$1/n" 2>/dev/null || echo 0); echo run $n; echo $((n+1)) > "$1/n"; [ $n = 2 ] && sleep 60; exit 1'
    )
    container = {"args": ["x", "/e"], "volumeMounts": [{"name": "e", "mountPath": "/e"}]}
    cluster.run("p", "sh", "-c", script, container=container, spec={"volumes": [volume], "restartPolicy": "OnFailure"})
    status = wait_for(
        lambda: next(
            (
                s
                for s in cluster.pod("p")["status"].get("containerStatuses") or ()
                if s["restartCount"] == 2 and "running" in s["state"]
            ),
            None,
        )
    )
    assert status["lastState"]["terminated"]["exitCode"] == 1
    wait_for(lambda: cluster.log("p").text == "run 2\n")
    assert cluster.log("p", previous="true").text == "run 1\n"


def test_init_containers_run_one_after_another_before_the_others(agent: Agent, cluster: Cluster) -> None:
    mount = {"volumeMounts": [{"name": "e", "mountPath": "/e"}], "image": "maas/shell:1"}
    inits = [
        {"name": f"i{n}", "command": ["sh", "-c", f'sleep 0.2; echo {n} >> "$0/f"', "/e"], **mount} for n in (1, 2)
    ]
    spec = {"volumes": [{"name": "e", "emptyDir": {}}], "initContainers": inits}
    cluster.run("p", "sh", "-c", 'cat "$0/f"', "/e", container=mount, spec=spec)
    assert cluster.ended("p")["exitCode"] == 0
    assert cluster.log("p").text == "1\n2\n"
    assert [s["state"]["terminated"]["exitCode"] for s in cluster.pod("p")["status"]["initContainerStatuses"]] == [0, 0]


def test_deleting_a_pod_gives_it_its_grace_and_then_removes_it(agent: Agent, cluster: Cluster) -> None:
    script = "trap 'sleep 0.5; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    cluster.run("p", "sh", "-c", script)
    wait_for(lambda: "running" in cluster.state("p") and "up" in cluster.log("p").text)
    cluster.delete("pods", "p")
    text = cluster.log("p", follow="true").text
    assert text.endswith("saved\n")
    wait_for(lambda: cluster.gone("p"))
    cluster.run("stubborn", "sh", "-c", "trap '' TERM; sleep 60")
    wait_for(lambda: "running" in cluster.state("stubborn"))
    cluster.delete("pods", "stubborn", gracePeriodSeconds=1)
    began = time.monotonic()
    wait_for(lambda: cluster.gone("stubborn"))
    assert time.monotonic() - began > 0.8


MASTER = """
import socket
server = socket.create_server((socket.gethostbyname("job-master-0.job"), 23456))
peer, address = server.accept()
print("from", address[0])
peer.sendall(b"hello")
"""
WORKER = """
import socket, time
own = socket.gethostbyname(socket.gethostname())
for _ in range(100):
    try:
        master = socket.create_connection(("job-master-0.job", 23456), source_address=(own, 0))
        break
    except OSError:
        time.sleep(0.1)
print(master.recv(9).decode())
"""


@needs_mounts
def test_two_pods_of_a_job_find_each_other_by_name(agent: Agent, cluster: Cluster) -> None:
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job": "j"}}
    cluster.make("services", "job", kind="Service", spec=service)
    for node, name, program in (("test-0001", "job-worker-0", WORKER), ("test-0000", "job-master-0", MASTER)):
        spec = {"hostname": name, "subdomain": "job"}
        labels = {"labels": {"job": "j"}}
        cluster.run(name, "python", "-c", program, image="maas/python:3", spec=spec, metadata=labels, node=node)
    assert cluster.ended("job-worker-0")["exitCode"] == 0
    assert cluster.log("job-worker-0").text == "hello\n"
    assert cluster.log("job-master-0").text.split()[1] == cluster.pod("job-worker-0")["status"]["podIP"]


def test_only_so_many_run_at_once_and_the_rest_say_what_they_wait_for(agent: Agent, cluster: Cluster) -> None:
    for number in range(5):
        cluster.run(f"p{number}", "sleep", "60")
        wait_for(lambda n=number: cluster.state(f"p{n}"))
    wait_for(lambda: sum("running" in cluster.state(f"p{n}") for n in range(5)) == 4)
    waiting = next(f"p{n}" for n in range(5) if "running" not in cluster.state(f"p{n}"))
    assert "waits for a free process slot on this machine" in cluster.told(waiting, "WaitingForSlot")["message"]
    assert cluster.state(waiting)["waiting"]["reason"] == "ContainerCreating"
    other = next(f"p{n}" for n in range(5) if f"p{n}" != waiting)
    cluster.delete("pods", other, gracePeriodSeconds=1)
    wait_for(lambda: "running" in cluster.state(waiting))


def test_a_pod_bound_beyond_the_nodes_gpus_is_rejected(agent: Agent, cluster: Cluster) -> None:
    for name in ("first", "second"):
        cluster.run(name, "sleep", "60", container={"resources": {"limits": {"nvidia.com/gpu": "5"}}})
        wait_for(lambda n=name: cluster.phase(n) in ("Running", "Failed"))
    status = cluster.pod("second")["status"]
    assert status["reason"] == "OutOfnvidia.com/gpu"
    assert "requested: 5, used: 5, capacity: 8" in status["message"]


def test_a_followed_log_ends_with_its_container(agent: Agent, cluster: Cluster) -> None:
    cluster.run("p", "sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.3; done; printf end")
    wait_for(lambda: "running" in cluster.state("p"))
    assert cluster.log("p", follow="true", tailLines="10").text == "line 1\nline 2\nline 3\nend\n"
    assert cluster.log("p", container="nope").status_code == 404
    assert cluster.log("p", previous="true").status_code == 400


def test_killed_agents_neither_lose_nor_double_a_container(agent: Agent, cluster: Cluster) -> None:
    """Runs on over one kill, ends during a second, starts during a third."""
    cluster.run("long", "sh", "-c", "echo begin; sleep 3; echo end; exit 5")
    wait_for(lambda: "running" in cluster.state("long"))
    pid = cluster.log("long").status_code
    assert pid == 200
    agent.kill()
    agent.start()
    wait_for(
        lambda: cluster.log("long", follow="true").text == "begin\nend\n" if port_answers(cluster, "long") else False
    )
    assert cluster.ended("long")["exitCode"] == 5
    cluster.run("short", "sh", "-c", "sleep 0.7; exit 6")
    wait_for(lambda: "running" in cluster.state("short"))
    agent.kill()
    time.sleep(1)
    cluster.run("later", "sh", "-c", "echo once; exit 7")
    agent.start()
    assert cluster.ended("short")["exitCode"] == 6
    assert cluster.ended("later")["exitCode"] == 7
    assert cluster.log("later").text == "once\n"
    for name in ("long", "short", "later"):
        assert cluster.pod(name)["status"]["containerStatuses"][0]["restartCount"] == 0


def port_answers(cluster: Cluster, name: str) -> bool:
    try:
        return cluster.log(name).status_code == 200
    except httpx.TransportError:
        return False


def test_kills_at_any_moment_of_a_start_run_each_container_once(agent: Agent, cluster: Cluster) -> None:
    for number in range(8):
        cluster.run(f"p{number}", "sh", "-c", "echo ran; sleep 0.3; exit 4")
        time.sleep(0.04 * number)
        agent.kill()
        agent.start()
        assert cluster.ended(f"p{number}")["exitCode"] == 4
        wait_for(lambda n=number: port_answers(cluster, f"p{n}"))
        assert cluster.log(f"p{number}").text == "ran\n"


def test_a_pod_deleted_while_the_agent_was_down_is_stopped_and_cleared(agent: Agent, cluster: Cluster) -> None:
    cluster.run("p", "sleep", "60")
    uid = cluster.pod("p")["metadata"]["uid"]
    wait_for(lambda: "running" in cluster.state("p"))
    folder = agent.folder / "pods" / uid
    started = json.loads(next(folder.glob("containers/main/0/started.json")).read_text())
    agent.kill()
    cluster.delete("pods", "p", gracePeriodSeconds=0)
    agent.start()
    wait_for(lambda: not folder.exists())
    assert not Path(f"/proc/{started['pid']}").exists()


def test_the_agent_is_small_and_idle(agent: Agent, cluster: Cluster) -> None:
    def used() -> float:
        fields = Path(f"/proc/{agent.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    cluster.run("p", "sleep", "60")
    wait_for(lambda: "running" in cluster.state("p"))
    time.sleep(1)
    before = used()
    time.sleep(5)
    assert used() - before < 0.25  # seconds of CPU in five
    status = Path(f"/proc/{agent.process.pid}/status").read_text()
    assert int(status.split("VmRSS:")[1].split()[0]) < 60_000  # kB


def test_without_private_mounts_the_pod_is_told_what_was_done_instead(
    kubeconfig: Path, cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    one = Agent(kubeconfig, tmp_path / "x" / "dir", "--no-mounts")
    fleet = (tmp_path / "x" / "fleet.json").read_text().replace('"test"', '"plain"')
    one.kill()
    (tmp_path / "x" / "fleet.json").write_text(fleet)
    one.start()
    try:
        volume = {"name": "my-data", "emptyDir": {}}
        script = "echo hi > /data/f; cat $MAAS_VOLUME_MY_DATA/f $IN; grep -c p $MAAS_HOSTS_FILE"
        container = {
            "volumeMounts": [{"name": "my-data", "mountPath": "/data"}],
            "env": [{"name": "IN", "value": "/data/f"}],
        }
        cluster.run("p", "sh", "-c", script, container=container, spec={"volumes": [volume]}, node="plain-0000")
        assert cluster.ended("p")["exitCode"] == 0
        assert cluster.log("p").text.split()[:2] == ["hi", "hi"]
        assert "MAAS_HOSTS_FILE" in cluster.told("p", "NoPrivateMounts")["message"]
    finally:
        one.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_run_as_user_and_fs_group_are_honoured(agent: Agent, cluster: Cluster) -> None:
    context = {"runAsUser": 1234, "runAsGroup": 2345, "fsGroup": 3456, "runAsNonRoot": True}
    mount = {"volumeMounts": [{"name": "e", "mountPath": "/e"}]}
    spec = {"securityContext": context, "volumes": [{"name": "e", "emptyDir": {}}]}
    cluster.run(
        "p", "sh", "-c", 'id -u; id -g; id -G; touch "$0/f"; stat -c %g "$0/f"', "/e", container=mount, spec=spec
    )
    assert cluster.ended("p")["exitCode"] == 0
    assert cluster.log("p").text.split() == ["1234", "2345", "2345", "3456", "3456"]
    cluster.run("root", "true", spec={"securityContext": {"runAsNonRoot": True}})
    reason = lambda: cluster.state("root").get("waiting", {}).get("reason")  # noqa: E731
    wait_for(lambda: reason() == "CreateContainerConfigError")
