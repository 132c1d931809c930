"""From a change in the cluster to the frame that tells an open page of it: alone, and among 500 changes a second.

The page follows 20 jobs. Each of their pods changes about every other second, so that the next frame of a job's topic is
that of its change; the rest of the changes are of the pods of 20 other jobs. Every change shows in its job's row.
"""

from __future__ import annotations

import base64
import itertools
import json
import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import yaml
from ulid import ULID

from apps.jobs.domain import manifests
from deploy.local.testing import RunningDemo, demo
from tests.bench.door import Door, Request
from tests.bench.figure import Figure
from tests.prove.frames import Frames
from tests.prove.stack import SCIENTIST, Stack

FOLLOWED, OTHERS, RANKS = 20, 20, 24
RATE, SECONDS, WRITERS, EVERY = 500, 20, 12, 2.0
NAMESPACE = "tenant-nlp"
PODS, JOBS = f"/api/v1/namespaces/{NAMESPACE}/pods", f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"

ROWS = """
from django.conf import settings
from apps.accounts.models import User
from apps.jobs.models import Job
from apps.tenants.models import Placement
place = Placement.objects.get(tenant__slug="nlp")
owner, _ = User.objects.get_or_create(iss=settings.OIDC_ISSUER, sub="bench", defaults={"name": "Bench"})
document = {"template": "command", "image": "i", "command": "true", "name": "bench", "ranks": 1}
for pk in IDS:
    Job.objects.create(pk=pk, tenant=place.tenant, owner=owner, placement=place, document=document, name="bench",
                       gpus=1, phase="running")
"""

Change = tuple[float, float, str]
"""When it was sent and when the API server had answered (`time.monotonic`), and the job."""


def figures() -> Iterator[Figure]:
    with demo(None, "--port", "8420", "--without", "volcano,nodeagent,gateway") as running:
        yield from measured(running)


def measured(running: RunningDemo) -> Iterator[Figure]:
    stack = Stack(running)
    with stack.browser(SCIENTIST) as client:
        session = client.cookies["sessionid"]
    ids = [str(ULID()) for _ in range(FOLLOWED + OTHERS)]
    door = _door(running)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as writer:
        writer.submit(fill, door, ids).result()
        running.manage("shell", "-v0", "-c", f"IDS = {ids}\n{ROWS}")
        page = Page(stack.url, session, [f"job.{job_id}" for job_id in ids[:FOLLOWED]])
        page.start()
        time.sleep(10)  # until the looks at what was filled in are over
        for name, rate in (("alone", 0), ("crowd", RATE)):
            page.heard.clear()
            changes, took, made = writer.submit(change, door, ids, rate).result()
            time.sleep(10)
            late = list(lateness(changes, page.heard))
            for since, values in (("", [both[0] for both in late]), ("answer-", [both[1] for both in late])):
                values.sort()
                for part, at in (("p50", len(values) // 2), ("p99", len(values) * 99 // 100)):
                    yield Figure(f"watch-hint-{name}-{since}{part}", values[at] * 1000, "ms", None, 50)
            yield Figure(
                f"watch-hint-{name}-between",
                took * 1000 / made,
                "ms between two",
                None,
                1050 / (rate or FOLLOWED / EVERY),
            )
        page.stop()


class Page(Frames):
    """Notes when each frame came."""

    def __init__(self, url: str, session: str, topics: list[str]) -> None:
        super().__init__(url, session, topics)
        self.heard: list[tuple[float, str]] = []
        self.kept = _Noted(self.heard)


class _Noted(list[str]):
    def __init__(self, heard: list[tuple[float, str]]) -> None:
        super().__init__()
        self._heard = heard

    def append(self, frame: str) -> None:
        self._heard.append((time.monotonic(), json.loads(frame).get("topic", "").removeprefix("job.")))


def lateness(changes: list[Change], heard: list[tuple[float, str]]) -> Iterator[tuple[float, float]]:
    """Seconds from each change's sending, and from its answer (0 for one that was quicker), to the first frame of its job
    after the sending, or to now where none came."""
    now = time.monotonic()
    for sent, answered, changed in changes:
        told = next((at for at, job_id in heard if job_id == changed and at >= sent), now)
        yield told - sent, max(0.0, told - answered)


def _door(running: RunningDemo) -> Door:
    document = yaml.safe_load(running.kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Door(cluster["server"], document["users"][0]["user"]["token"], authority)


def fill(door: Door, ids: list[str]) -> None:
    """Every job with its object and its pods, all running."""

    def one(job_id: str) -> None:
        requests: list[Request] = []
        labels, name = {manifests.JOB_LABEL: job_id}, manifests.object_name(job_id)
        container = {"name": "main", "image": "i"}
        task = {"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}}
        requests += [
            ("POST", JOBS, {
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name, "labels": labels},
                "spec": {"tasks": [task], "queue": NAMESPACE},
            }),
            ("PATCH", f"{JOBS}/{name}/status", {"status": {"state": {"phase": "Running"}, "running": 1}}),
        ]  # fmt: skip
        for pod in _pods(ids, job_id):
            metadata = {"name": pod, "labels": labels}
            requests += [
                ("POST", PODS, {"metadata": metadata, "spec": {"containers": [container], "nodeName": "n"}}),
                ("PATCH", f"{PODS}/{pod}/status", {"status": {"phase": "Running"} | _waiting(0)}),
            ]
        door.ask(requests)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(one, ids))


def _pods(ids: list[str], job_id: str) -> list[str]:
    """One of a job that is followed."""
    count = 1 if job_id in ids[:FOLLOWED] else RANKS
    return [f"{manifests.object_name(job_id)}-worker-{rank}" for rank in range(count)]


def _waiting(number: int) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": f"S{number}"}}}]}


def change(door: Door, ids: list[str], rate: int) -> tuple[list[Change], float, int]:
    """Change pods, at this rate in all. Gives the changes of the jobs that are followed, seconds, and how many."""
    changes: list[Change] = []
    lock, ended, made = threading.Lock(), threading.Event(), itertools.count()
    own = [(job_id, _pods(ids, job_id)[0]) for job_id in ids[:FOLLOWED]]
    other = itertools.cycle([(job_id, pod) for job_id in ids[FOLLOWED:] for pod in _pods(ids, job_id)])
    start = time.monotonic()

    def due(targets: Iterator[tuple[str, str]], every: float, offset: float, noted: bool) -> Iterator[Request]:
        for turn in itertools.count():
            if ended.wait(max(0.0, start + offset + turn * every - time.monotonic())):
                return
            with lock:
                number, (job_id, pod) = next(made), next(targets)
            sent = time.monotonic()
            yield "PATCH", f"{PODS}/{pod}/status", {"status": _waiting(number + 1)}
            if noted:
                changes.append((sent, time.monotonic(), job_id))

    def write(*plan: Any) -> None:
        door.ask(due(*plan))

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        step = EVERY / FOLLOWED
        writing = [pool.submit(write, itertools.cycle(own), step, 0.0, True)]
        if rest := rate and rate - FOLLOWED / EVERY:
            every = WRITERS / rest
            writing += [pool.submit(write, other, every, n * every / WRITERS, False) for n in range(WRITERS)]
        ended.wait(SECONDS)
        took = time.monotonic() - start
        ended.set()
        for each in writing:
            each.result()
    return changes, took, next(made)
