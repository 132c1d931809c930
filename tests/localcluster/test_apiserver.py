"""What the API server owes beyond single answers: memory, order, rights, and a way out."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from apps.localcluster.client import ApiError, KubeClient, Kubeconfig, Reflector
from tests.small_cluster import SmallCluster, small_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SmallCluster]:
    with small_cluster(tmp_path) as running:
        yield running


@pytest.fixture
async def client(cluster: SmallCluster) -> AsyncIterator[KubeClient]:
    client = KubeClient(Kubeconfig.load(cluster.kubeconfig), "tester")
    yield client
    await client.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "example/train:1"}]
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


async def eventually(check: Any, seconds: float = 5) -> Any:
    end = time.monotonic() + seconds
    while not (found := await check()):
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.05)
    return found


async def test_state_and_tokens_survive_kill_9(cluster: SmallCluster, client: KubeClient) -> None:
    made = await client.create(MAPS, config_map("kept", k="1"))
    await client.create(MAPS, config_map("lost"))
    await client.delete(f"{MAPS}/lost")
    token = await client.create("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
    before = await client.get(MAPS)
    cluster.kill("apiserver")
    cluster.start("apiserver")
    after = await client.get(MAPS)  # the administrator's token still works
    assert after["items"] == before["items"]
    assert int(after["metadata"]["resourceVersion"]) >= int(before["metadata"]["resourceVersion"])
    changed = await client.merge_patch(f"{MAPS}/kept", {"data": {"k": "2"}})
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    account = KubeClient(
        Kubeconfig(cluster.server, token["status"]["token"], Kubeconfig.load(cluster.kubeconfig).verify), "pod"
    )
    with pytest.raises(ApiError, match="cannot list resource") as refused:
        await account.get(MAPS)
    assert refused.value.status == 403  # known, and without rights; a forgotten token would be 401
    await account.close()


async def test_watch_resumes_where_it_was_across_a_restart(cluster: SmallCluster, client: KubeClient) -> None:
    start = (await client.get(MAPS))["metadata"]["resourceVersion"]
    await client.create(MAPS, config_map("a", k="1"))
    await client.merge_patch(f"{MAPS}/a", {"data": {"k": "2"}})
    cluster.kill("apiserver")
    cluster.start("apiserver")
    await client.delete(f"{MAPS}/a")
    seen = []
    async for kind, item in client.watch(MAPS, start):
        seen.append((kind, item["data"].get("k")))
        if len(seen) == 3:
            break
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


async def test_version_that_is_forgotten_is_410(client: KubeClient) -> None:
    with pytest.raises(ApiError) as refused:
        async for _ in client.watch(MAPS, "1"):
            pass
    assert (refused.value.status, refused.value.reason) == (410, "Expired")


async def test_reflector_equals_a_list_after_many_writes_and_a_kill(cluster: SmallCluster, client: KubeClient) -> None:
    reflector = Reflector(client, MAPS, lambda old, new: None)
    running = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    for number in range(60):
        await client.create(MAPS, config_map(f"m-{number}"))
        if number % 3 == 0:
            await client.delete(f"{MAPS}/m-{number}")
        if number == 30:
            cluster.kill("apiserver")
            cluster.start("apiserver")
    listed = {
        item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in (await client.get(MAPS))["items"]
    }

    async def equal() -> bool:
        return {key[1]: item["metadata"]["resourceVersion"] for key, item in reflector.store.items()} == listed

    await eventually(equal, 10)
    running.cancel()


async def test_apply_tells_the_other_owner_and_force_takes_over(client: KubeClient) -> None:
    await client.apply(f"{MAPS}/a", config_map("a", k="1", mine="1"))
    other = {"fieldManager": "other"}
    headers = {"Content-Type": "application/apply-patch+yaml"}
    body = json.dumps(config_map("a", k="2"))
    answer = await client._http.request("PATCH", f"{MAPS}/a", params=other, content=body, headers=headers)
    assert answer.status_code == 409
    assert answer.json()["message"] == 'Apply failed with 1 conflict: conflict with "tester": .data.k'
    forced = other | {"force": "true"}
    answer = await client._http.request("PATCH", f"{MAPS}/a", params=forced, content=body, headers=headers)
    assert answer.json()["data"] == {"k": "2", "mine": "1"}
    # Given up by its first owner, a field stays while the other has it.
    again = await client.apply(f"{MAPS}/a", config_map("a"))
    assert again["data"] == {"k": "2"}


@contextmanager
def webhook(answer: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook on plain HTTP, and the requests it has seen."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(review["request"])
            response = {"uid": review["request"]["uid"], **answer}
            body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/check", seen
    finally:
        server.shutdown()
        server.server_close()


def configuration(kind: str, url: str, policy: str = "Fail") -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": "check.example.com",
        "clientConfig": {"url": url},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": policy,
        "timeoutSeconds": 2,
    }
    api = "admissionregistration.k8s.io/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "check"}, "webhooks": [hook]}


async def test_webhook_refuses_in_its_own_words(client: KubeClient) -> None:
    with webhook({"allowed": False, "status": {"message": "unable to find job queue: red"}}) as (url, seen):
        await client.create(
            f"{HOOKS}/validatingwebhookconfigurations", configuration("ValidatingWebhookConfiguration", url)
        )
        with pytest.raises(ApiError, match="denied the request: unable to find job queue: red") as refused:
            await client.create(MAPS, config_map("a", k="1"))
    assert refused.value.status == 400
    assert seen[0]["object"]["data"] == {"k": "1"}
    assert seen[0]["userInfo"]["username"] == "kubernetes-admin"
    with pytest.raises(ApiError, match="not found"):
        await client.get(f"{MAPS}/a")


async def test_webhook_changes_what_is_stored(client: KubeClient) -> None:
    patch = base64.b64encode(json.dumps([{"op": "add", "path": "/data/added", "value": "x"}]).encode()).decode()
    with webhook({"allowed": True, "patchType": "JSONPatch", "patch": patch}) as (url, _):
        await client.create(
            f"{HOOKS}/mutatingwebhookconfigurations", configuration("MutatingWebhookConfiguration", url)
        )
        made = await client.create(MAPS, config_map("a", k="1"))
    assert made["data"] == {"k": "1", "added": "x"}


@pytest.mark.parametrize(("policy", "passes"), [("Fail", False), ("Ignore", True)])
async def test_webhook_that_is_down(client: KubeClient, policy: str, passes: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/check"
    body = configuration("ValidatingWebhookConfiguration", url, policy)
    await client.create(f"{HOOKS}/validatingwebhookconfigurations", body)
    if passes:
        await client.create(MAPS, config_map("a"))
        return
    with pytest.raises(ApiError, match="failed calling webhook") as refused:
        await client.create(MAPS, config_map("a"))
    assert (refused.value.status, refused.value.reason) == (500, "InternalError")


async def test_rights_of_an_account_begin_and_end_with_its_binding(cluster: SmallCluster, client: KubeClient) -> None:
    await client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
    issued = await client.create("/api/v1/namespaces/default/serviceaccounts/reader/token", {"spec": {}})
    trust = Kubeconfig.load(cluster.kubeconfig).verify
    reader = KubeClient(Kubeconfig(cluster.server, issued["status"]["token"], trust), "reader")
    with pytest.raises(ApiError, match='cannot list resource "configmaps" in API group ""'):
        await reader.get(MAPS)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    await client.create(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "r"}, "rules": [rule]})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    binding = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
    await client.create(f"{RBAC}/namespaces/default/rolebindings", binding)
    assert (await reader.get(MAPS))["kind"] == "ConfigMapList"
    with pytest.raises(ApiError, match="cannot create resource"):
        await reader.create(MAPS, config_map("a"))
    await client.delete("/api/v1/namespaces/default/serviceaccounts/reader")
    with pytest.raises(ApiError) as refused:
        await reader.get(MAPS)
    assert refused.value.status == 401
    await reader.close()


async def test_pod_on_a_node_waits_for_its_agent(client: KubeClient) -> None:
    await client.create(PODS, pod("p", schedulerName="nobody"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    await client.create(f"{PODS}/p/binding", binding)
    found = (await client.get(PODS, fieldSelector="spec.nodeName=n1"))["items"]
    assert [item["metadata"]["name"] for item in found] == ["p"]
    await client.delete(f"{PODS}/p")
    marked = await client.get(f"{PODS}/p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    await client.delete(f"{PODS}/p", grace=0)
    with pytest.raises(ApiError, match="not found"):
        await client.get(f"{PODS}/p")


async def test_a_service_keeps_the_address_that_it_was_given(client: KubeClient) -> None:
    services, ports = "/api/v1/namespaces/default/services", [{"port": 80}]
    first = await client.create(services, {"metadata": {"name": "first"}, "spec": {"ports": ports}})
    address = first["spec"]["clusterIP"]
    again = await client.replace(
        f"{services}/first", {"metadata": {"name": "first"}, "spec": {"ports": [{"port": 81}]}}
    )
    assert again["spec"]["clusterIP"] == address
    with pytest.raises(ApiError, match="may not change once set"):
        await client.merge_patch(f"{services}/first", {"spec": {"clusterIP": "10.96.0.9"}})
    with pytest.raises(ApiError, match="already allocated"):
        await client.create(services, {"metadata": {"name": "b"}, "spec": {"clusterIP": address, "ports": ports}})
    headless = await client.create(services, {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": ports}})
    assert headless["spec"]["clusterIPs"] == ["None"]


async def test_children_go_with_their_owner_even_when_it_died_unseen(cluster: SmallCluster, client: KubeClient) -> None:
    owner = await client.create(MAPS, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [reference]
    await client.create(MAPS, child)
    await client.delete(f"{MAPS}/owner")
    cluster.kill("apiserver")
    cluster.start("apiserver")

    async def gone() -> bool:
        return "child" not in {item["metadata"]["name"] for item in (await client.get(MAPS))["items"]}

    await eventually(gone)


async def test_namespace_goes_with_everything_in_it(client: KubeClient) -> None:
    await client.create("/api/v1/namespaces", {"metadata": {"name": "team-a"}})

    async def filled() -> bool:
        accounts = await client.get("/api/v1/namespaces/team-a/serviceaccounts")
        return bool(accounts["items"])

    await eventually(filled)
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
    await client.create("/apis/scheduling.volcano.sh/v1beta1/namespaces/team-a/podgroups", group)
    await client.delete("/api/v1/namespaces/team-a")

    async def gone() -> bool:
        names = {item["metadata"]["name"] for item in (await client.get("/api/v1/namespaces"))["items"]}
        left = await client.get("/apis/scheduling.volcano.sh/v1beta1/podgroups")
        return "team-a" not in names and not left["items"]

    await eventually(gone)


class Agent(BaseHTTPRequestHandler):
    """A node's agent that tells what it was asked for."""

    def do_GET(self) -> None:
        body = f"asked for {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


async def test_log_comes_from_the_agent_of_the_node(client: KubeClient) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_address[1]}},
    }
    await client.create("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
    await client.create(PODS, pod("p", nodeName="n1"))
    answer = await client._http.get(f"{PODS}/p/log", params={"tailLines": "5", "timestamps": "true"})
    server.shutdown()
    server.server_close()
    assert answer.text == "asked for /containerLogs/default/p/main?timestamps=true&tailLines=5\n"
    down = await client._http.get(f"{PODS}/p/log")
    assert down.status_code == 500


async def test_body_over_three_mebibytes_is_413(client: KubeClient) -> None:
    answer = await client._http.post(MAPS, content=b"x" * (3 * 1024 * 1024 + 1))
    assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")


async def test_stop_is_quick_with_watches_open(cluster: SmallCluster, client: KubeClient) -> None:
    async def follow() -> None:
        async for _ in client.watch(MAPS, ""):
            pass

    watchers = [asyncio.create_task(follow()) for _ in range(5)]
    await asyncio.sleep(0.3)
    assert not any(watcher.done() for watcher in watchers)
    process = cluster.running.pop("apiserver")
    process.terminate()
    await asyncio.to_thread(process.wait, 5)  # it would go on for minutes if it waited for its watches
    assert await asyncio.wait_for(asyncio.gather(*watchers), 2) == [None] * 5  # each stream came to a clean end


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/apis/apps/v1/namespaces/default/statefulsets", 404),
        ("GET", f"{PODS}/p/exec", 404),
        ("PUT", MAPS, 405),
        ("GET", "/openapi/v2", 501),
    ],
)
async def test_what_is_not_offered_is_refused(client: KubeClient, method: str, path: str, status: int) -> None:
    assert (await client._http.request(method, path)).status_code == status


async def test_impersonation_is_refused_rather_than_ignored(client: KubeClient) -> None:
    answer = await client._http.get(MAPS, headers={"Impersonate-User": "somebody"})
    assert (answer.status_code, answer.json()["reason"]) == (501, "NotImplemented")
