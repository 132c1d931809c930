"""The whole way on a live small cluster: a rank finds its secrets as files, and nothing of them is left afterwards."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from apps.adapters.kubernetes import KubeApi, objects
from apps.clusters.services.connect import connect
from apps.jobs.domain import manifests
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job
from apps.jobs.reconcile.job import reconcile_job
from apps.secrets import services
from apps.secrets.domain import Values
from apps.secrets.models import Loan
from apps.secrets.services import store
from tests import factories
from tests.canaries import Canaries, database_dump
from tests.factories import World
from tests.jobs.test_reconcile import Cluster
from tests.small_cluster import SmallCluster, small_cluster

LOOK = """
import glob, hashlib, json, os, stat
found = {}
for path in sorted(glob.glob("/run/secrets/maas/*/*")):
    raw = open(path, "rb").read()
    found[path] = [len(raw), hashlib.sha256(raw).hexdigest(), oct(stat.S_IMODE(os.stat(path).st_mode) & 0o007)]
try:
    open("/run/secrets/maas/hub/new", "w")
    found["writable"] = True
except OSError:
    pass
print("FOUND", json.dumps(found))
"""


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    """A cluster with a scheduler and nodes, in place of the API server alone."""
    with small_cluster(tmp_path_factory.mktemp("live"), "volcano", "nodeagent") as cluster:
        yield cluster


@pytest.fixture
def outside_calls() -> Iterator[None]:
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


def until_nodes_are_there(api: KubeApi, seconds: float = 30) -> None:
    """A claim that is made before the nodes' storage class gets none."""
    end = time.monotonic() + seconds
    while not (api.list("/apis/storage.k8s.io/v1/storageclasses") and api.list("/api/v1/nodes")):
        assert time.monotonic() < end
        time.sleep(0.2)


def nodes_forget(folder: Path, seconds: float = 10) -> None:
    """The pods stay for their logs; the files of their volumes do not."""
    end = time.monotonic() + seconds
    while [*folder.glob("pods/*/volumes")]:
        assert time.monotonic() < end
        time.sleep(0.2)


def until_ended(job: Job, seconds: float = 60) -> Phase:
    end = time.monotonic() + seconds
    while not job.state.is_final:
        assert time.monotonic() < end, (job.phase, job.reason, job.reason_params)
        row = Job.objects.select_related("placement__tenant", "placement__cluster").get(pk=job.pk)
        reconcile_job(row)
        job.refresh_from_db()
        time.sleep(0.2)
    return job.state


def test_a_rank_reads_its_secrets_as_files_and_nothing_is_left(
    outside_calls: None, connected: World, api_server: SmallCluster, canaries: Canaries
) -> None:
    until_nodes_are_there(connect(connected.place.cluster))
    me = connected.scientist.actor()
    token, key = canaries.plant("hub token", "hf_"), "-----BEGIN " + f"PRIVATE KEY-----\r\n{canaries.plant('key')}"
    for name, values in {"hub": {"token": token}, "git": {"id_ed25519": key, "user": "li"}}.items():
        services.enter(me, tenant_id=connected.nlp.pk, name=name, entry=services.Entry(Values(values), "ssh"))
    document = {
        "template": "command", "image": "maas/python:1", "command": ["python", "-c", LOOK], "environment": {},
        "secrets": ["hub", "git"], "ranks": 2, "cpus_per_rank": 0.1, "memory_gib_per_rank": 0.1,
    }  # fmt: skip
    job = factories.job(connected.scientist, connected.place, document=document)
    Job.objects.filter(pk=job.pk).update(
        document={k: v for k, v in {**job.document, **document}.items() if k != "steps"}
    )
    job.refresh_from_db()
    assert until_ended(job) is Phase.SUCCEEDED
    cluster = Cluster(job)
    pods = cluster.api.list(
        objects.path(objects.POD, cluster.namespace), label_selector=f"{manifests.JOB_LABEL}={job.pk}"
    )
    lines = [cluster.api.pod_log(objects.object_path(pod), "main") or b"" for pod in pods]
    kept = key.replace("\r\n", "\n") + "\n"
    sums = {f"/run/secrets/maas/{path}": [len(text), hashlib.sha256(text.encode()).hexdigest(), "0o0"]
            for path, text in {"hub/token": token, "git/id_ed25519": kept, "git/user": "li"}.items()}  # fmt: skip
    found = [json.loads(line.split(b"FOUND ")[1].splitlines()[0]) for line in lines]
    assert found == [sums, sums]
    for stored in manifests.secret_names(job.pk, job.spec).values():
        assert stored not in [
            one["metadata"]["name"] for one in cluster.api.list(objects.path(objects.SECRET, cluster.namespace))
        ]
    for pk in services.due_loans():
        store.tend(pk)
    assert Loan.objects.get().due_at is None
    nodes_forget(api_server.directory / "nodes")
    rooms = b"".join(path.read_bytes() for path in api_server.directory.glob("*.log"))
    canaries.expect_none(database=database_dump(), rooms=rooms or b"none", pods=json.dumps(pods))
