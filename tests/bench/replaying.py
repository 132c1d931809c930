"""A server that replays an API server's bytes: lists in pages, and a watch at a steady rate or at once.

`python -m tests.bench.replaying` serves on a free port, which it prints first, until its standard input is closed. It is a
process of its own, so that its work is not counted as the reader's.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

PODS, JOBS, ROWS = 5_000, 1_000, 100
PAGE = 500
PODS_PATH, JOBS_PATH = "/api/v1/pods", "/apis/batch.volcano.sh/v1alpha1/jobs"
STAMP = "1234567890" * 2


def pod(number: int, version: int) -> dict[str, Any]:
    """A worker of a Volcano job as kube-apiserver gives it: about 4.5 kB."""
    job, rank = divmod(number, 5)
    name = f"j-{job:026d}-worker-{rank}"
    volume = {
        "name": "kube-api-access-x7k2p",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    env = [
        {"name": key, "value": value}
        for key, value in (
            ("MASTER_ADDR", f"j-{job:026d}-worker-0.j-{job:026d}"), ("MASTER_PORT", "23456"), ("RANK", str(rank)),
            ("WORLD_SIZE", "5"), ("VK_TASK_INDEX", str(rank)), ("VC_TASK_INDEX", str(rank)), ("NCCL_DEBUG", "WARN"),
            ("NCCL_SOCKET_IFNAME", "eth0"), ("MAAS_RUN_DIR", "/runs"), ("VC_WORKER_NUM", "5"),
        )
    ]  # fmt: skip
    fields = {f"f:{part}": {".": {}, f'k:{{"name":"{part}-{n}"}}': {"f:value": {}, "f:name": {}}}
              for n, part in enumerate(("annotations", "labels", "containers", "env", "conditions"))}  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "tenant-nlp", "uid": f"7f3a9c1e-52b4-4d0b-9e11-{number:012d}",
            "resourceVersion": str(version), "creationTimestamp": "2026-11-30T01:02:03Z",
            "labels": {
                "maas.portal/job": f"{job % ROWS:026d}", "volcano.sh/job-name": f"j-{job:026d}",
                "volcano.sh/job-namespace": "tenant-nlp", "volcano.sh/queue-name": "tenant-nlp",
                "volcano.sh/task-index": str(rank), "volcano.sh/task-spec": "worker",
            },
            "annotations": {
                "scheduling.k8s.io/group-name": f"j-{job:026d}-7f3a9c1e", "volcano.sh/job-version": "0",
                "volcano.sh/task-index": str(rank), "volcano.sh/template-uid": f"j-{job:026d}-worker",
            },
            "ownerReferences": [{
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": f"j-{job:026d}",
                "uid": f"1b2c3d4e-0000-4000-8000-{job:012d}", "controller": True, "blockOwnerDeletion": True,
            }],
            "managedFields": [
                {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-11-30T01:02:03Z",
                 "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": fields}}
                for manager in ("vc-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "volumes": [{"name": volume["name"], "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ]}}],
            "containers": [{
                "name": "main", "image": "registry.example/train:2.4", "command": ["python", "train.py"], "env": env,
                "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "32", "memory": "256Gi"},
                              "requests": {"nvidia.com/gpu": "8", "cpu": "32", "memory": "256Gi"}},
                "volumeMounts": [volume], "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
            }],
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default", "nodeName": f"gpu-{number % 625:04d}", "schedulerName": "volcano",
            "hostname": f"worker-{rank}", "subdomain": f"j-{job:026d}", "securityContext": {}, "priority": 0,
            "tolerations": [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
                             "tolerationSeconds": 300} for key in ("not-ready", "unreachable")],
        },
        "status": {
            "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
            "startTime": "2026-11-30T01:02:04Z", "qosClass": "Guaranteed",
            "conditions": [{"type": kind, "status": "True", "lastProbeTime": None,
                            "lastTransitionTime": "2026-11-30T01:02:05Z"}
                           for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "PodScheduled")],
            "containerStatuses": [{
                "name": "main", "state": {"running": {"startedAt": "2026-11-30T01:02:05Z"}}, "lastState": {},
                "ready": True, "restartCount": 0, "image": "registry.example/train:2.4", "started": True,
                "imageID": f"registry.example/train@sha256:{number:064d}", "containerID": f"containerd://{number:064d}",
            }],
        },
    }  # fmt: skip


def job(number: int) -> dict[str, Any]:
    """A Volcano job with its pod template."""
    template = {"metadata": {"labels": {"maas.portal/job": f"{number:026d}"}}, "spec": pod(number, 1)["spec"]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {
            "name": f"j-{number:026d}", "namespace": "tenant-nlp", "uid": f"1b2c3d4e-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1), "creationTimestamp": "2026-11-30T01:02:03Z",
            "labels": {"maas.portal/job": f"{number % ROWS:026d}"},
        },
        "spec": {"minAvailable": 5, "queue": "tenant-nlp", "schedulerName": "volcano",
                 "tasks": [{"name": "worker", "replicas": 5, "template": template}]},
        "status": {"state": {"phase": "Running"}, "running": 5, "minAvailable": 5},
    }  # fmt: skip


@cache
def pages(path: str) -> list[bytes]:
    items = [pod(n, n + 1) for n in range(PODS)] if path == PODS_PATH else [job(n) for n in range(JOBS)]
    kind, version = ("PodList", "v1") if path == PODS_PATH else ("JobList", "batch.volcano.sh/v1alpha1")
    found = []
    for first in range(0, len(items), PAGE):
        more = str(first + PAGE) if first + PAGE < len(items) else ""
        metadata = {"resourceVersion": str(PODS), **({"continue": more} if more else {})}
        part = [
            {k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items[first : first + PAGE]
        ]
        body = {"kind": kind, "apiVersion": version, "metadata": metadata, "items": part}
        found.append(json.dumps(body, separators=(",", ":")).encode())
    return found


def event(number: int) -> bytes:
    """The line of an event, with `STAMP` where the time of its sending goes."""
    body = {"type": "MODIFIED", "object": pod(number % PODS, PODS + number + 1)}
    body["object"]["metadata"]["uid"] = STAMP
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            address = urlsplit(head.split(b" ")[1].decode())
            query = {key: values[0] for key, values in parse_qs(address.query).items()}
            if query.get("watch", "").lower() in ("true", "1"):
                await _watch(writer, query)
            elif address.path in (PODS_PATH, JOBS_PATH):
                await _answer(writer, pages(address.path)[int(query.get("continue", 0)) // PAGE])
            else:
                await _answer(writer, b'{"gitVersion":"v1.36.1","kind":"List","metadata":{"resourceVersion":"1"}}')
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _answer(writer: asyncio.StreamWriter, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    writer.write(head % len(body) + body)
    await writer.drain()


async def _watch(writer: asyncio.StreamWriter, query: dict[str, str]) -> None:
    """`labelSelector=rate=N,count=M` says how many events a second, and how many in all; rate 0 sends them at once."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    wish = dict(part.split("=") for part in query.get("labelSelector", "rate=0,count=0").split(","))
    rate, count = int(wish.get("rate", 0)), int(wish.get("count", 0))
    lines = [event(number) for number in range(count)]
    start = time.monotonic() + 0.5
    for number, line in enumerate(lines):
        if rate:
            await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
            line = line.replace(STAMP.encode(), f"{time.monotonic():020.9f}".encode(), 1)
        writer.write(b"%x\r\n%b\r\n" % (len(line), line))
        await writer.drain()
    await asyncio.sleep(3600)


async def main() -> None:
    for path in (PODS_PATH, JOBS_PATH):
        pages(path)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def replaying() -> Iterator[str]:
    """The address of a server of its own process."""
    command = [sys.executable, "-m", "tests.bench.replaying"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


if __name__ == "__main__":
    asyncio.run(main())
