"""What exporters tell of accelerators, through a real Prometheus, and what jobs expose."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from apps.adapters.kubernetes import object_path
from apps.adapters.prometheus import Series
from apps.clusters.domain import exporters
from apps.clusters.domain.exporters import Sample
from apps.clusters.models import Cluster, ClusterSource, PodDevices
from apps.clusters.services import devices
from apps.clusters.services.registry import workloads
from apps.clusters.watch import devices as devices_watch
from apps.clusters.watch import projections
from apps.clusters.watch.database import Writer, in_thread
from apps.clusters.watch.devices import DeviceWatch, Ours, Watched, exposed_readings
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobRank
from apps.jobs.services.curves import series_of
from apps.jobs.services.gpus import gpus_of
from apps.jobs.services.incidents import incidents_of
from apps.streams import services as streams
from tests import factories
from tests.adapters.scripted import scripted
from tests.clusters import test_watch
from tests.clusters.smallcluster import SmallCluster
from tests.clusters.test_watch import small  # noqa: F401 (fixture)
from tests.factories import World
from tests.pages import browser
from tests.prometheus import prometheus

NOW = datetime.now(UTC)


def pod(name: str, rank: int, *, since: datetime = NOW - timedelta(minutes=5), retries: int = 0) -> projections.Pod:
    """A running pod as the watch keeps it."""
    return projections.PODS.decode(
        json.dumps(
            {
                "metadata": {
                    "name": name, "namespace": "tenant-nlp", "uid": f"uid-{name}",
                    "annotations": {"volcano.sh/task-index": str(rank), "volcano.sh/job-retry-count": str(retries)},
                },
                "status": {"containerStatuses": [{"name": "main", "state": {"running": {"startedAt": since.isoformat()}}}]},
            }
        )
    )  # fmt: skip


def ours(job: Job, *pods: projections.Pod) -> list[Ours]:
    (kind,) = [kind for kind in workloads() if kind.task == "jobs.reconcile_job"]
    return [(one, kind, job.pk) for one in pods]


def dcgm(pod: str, gpu: int, **values: float) -> dict[str, float]:
    names = {"use": "GPU_UTIL", "used": "FB_USED", "free": "FB_FREE", "temp": "GPU_TEMP", "power": "POWER_USAGE",
             "xid": "XID_ERRORS"}  # fmt: skip
    labels = f'gpu="{gpu}",modelName="NVIDIA A800",namespace="tenant-nlp",pod="{pod}"'
    return {f"DCGM_FI_DEV_{names[key]}{{{labels}}}": value for key, value in values.items()}


@pytest.fixture
def job(world: World) -> Job:
    metrics = {"step": "train_step", "loss": "train_loss"}
    return factories.job(
        world.scientist, world.place, phase=Phase.RUNNING, running_at=NOW, document={"metrics": metrics}
    )


def source(job: Job, url: str) -> ClusterSource:
    return ClusterSource.objects.create(
        cluster=job.placement.cluster, kind="prometheus", url=url, state=ClusterSource.State.READY
    )


async def read(job: Job, row: ClusterSource, *pods: projections.Pod) -> float:
    one = DeviceWatch(job.placement.cluster_id, lambda: ours(job, *pods), Writer())
    return await one._read(row)


@pytest.mark.django_db(transaction=True)
async def test_devices_and_what_a_job_exposes(world: World, job: Job, tmp_path: Path) -> None:
    with prometheus(tmp_path) as exposed:
        exposed.values |= dcgm("w-0", 0, use=97, used=50_790, free=31_130, temp=71, power=311.5, xid=31)
        exposed.values |= dcgm("w-0", 1, use=91, used=50_000, free=31_920, temp=69, power=300, xid=0)
        exposed.values |= dcgm("stranger-0", 0, use=3, temp=99)
        exposed.values |= {
            'train_step{namespace="tenant-nlp",pod="w-0"}': 120, 'train_loss{namespace="tenant-nlp",pod="w-0"}': 2.25,
            'train_step{namespace="tenant-x",pod="w-0"}': 9, 'train_loss{namespace="tenant-x",pod="w-0"}': 9.9,
        }  # fmt: skip
        exposed.wait_for('train_loss{namespace="tenant-nlp"}', 2.25)
        row = await in_thread(source, job, exposed.url)
        assert await read(job, row, pod("w-0", 0), pod("w-1", 1)) == 15.0
        exposed.values |= dcgm("w-0", 1, xid=79)
        exposed.wait_for('DCGM_FI_DEV_XID_ERRORS{gpu="1"}', 79)
        await read(job, row, pod("w-0", 0), pod("w-1", 1))

    def look() -> None:
        row.refresh_from_db()
        assert (row.error, row.read_at is not None) == ("", True)
        gpus = gpus_of(job)
        assert [(one.rank, one.device, one.use, one.temperature) for one in gpus.devices] == [
            (0, "0", 97.0, 71.0), (0, "1", 91.0, 69.0),
        ]  # fmt: skip
        assert (gpus.use, gpus.power) == (94.0, 611.5)
        assert gpus.fullest is not None
        assert (gpus.fullest.memory, gpus.fullest.memory_total) == (50_790 << 20, (50_790 + 31_130) << 20)
        # An exporter goes on telling the last code for ever: 31 was there before the job was.
        assert [one.fault_text for one in gpus.faults] == ["Xid 79"]
        assert gpus.trends["use"][-1] == 94.0
        # The loss came another way than by a log: it is drawn and said so, and no verdict is built on it.
        assert [(one.name, one.source) for one in series_of(job)] == [("loss", "read from Prometheus")]
        assert [(one.series, one.step, one.value) for one in streams.told(job.topic, ["loss"])] == [("loss", 120, 2.25)]
        assert streams.logged(job.topic, ("loss", *devices.SERIES), limit=10) == []
        page = browser(world.scientist).get(f"/jobs/{job.pk}/").content.decode()
        assert "DCGM · last scraped" in page
        assert "NVIDIA A800" in page
        assert "Xid 79" in page
        rest = browser(world.people[factories.Role.VIEWER]).get(f"/api/v1/jobs/{job.pk}/gpus").json()
        assert [one["use"] for one in rest["devices"]] == [97.0, 91.0]

    await in_thread(look)


@pytest.mark.django_db(transaction=True)
async def test_a_busy_server_is_asked_when_it_says(world: World, job: Job) -> None:
    with scripted(lambda exchange: exchange.answer(429, b"slow down", Retry_After="44")) as server:
        row = await in_thread(source, job, server.url)
        assert await read(job, row, pod("w-0", 0)) == 44
        server.script = lambda exchange: exchange.answer(400, b"odd")
        assert await read(job, row, pod("w-0", 0)) == 60
    assert await read(job, row, pod("w-0", 0)) == 15
    assert await read(job, row) == 5  # nothing runs: nobody is asked

    def look() -> None:
        row.refresh_from_db()
        assert "did not answer" in row.error
        page = browser(world.scientist).get(f"/jobs/{job.pk}/").content.decode()
        assert "the Prometheus of Train A does not answer" in page

    await in_thread(look)


@pytest.mark.django_db
def test_the_page_says_in_words_why_there_is_nothing(world: World, job: Job) -> None:
    client, path = browser(world.scientist), f"/jobs/{job.pk}/?part=gpus"
    assert "no Prometheus is registered for Train A" in client.get(path).content.decode()
    row = source(job, "https://prometheus.example")
    assert "no exporter tells of them" in client.get(path).content.decode()
    ClusterSource.objects.filter(pk=row.pk).update(state=ClusterSource.State.FAILED)
    assert "was not taken into use" in client.get(path).content.decode()
    Job.objects.for_system().update(running_at=None)
    assert "Devices" not in client.get(path).content.decode()


def sample(name: str, value: float, at: float = 100.0, **labels: str) -> Sample:
    return Sample({"__name__": name, **labels}, at, value)


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (
            [sample("npu_chip_info_utilization", 40, namespace="n", pod_name="p", id="3", model_name="910B4"),
             sample("npu_chip_info_hbm_used_memory", 1000, namespace="n", pod_name="p", id="3", model_name="910B4"),
             sample("npu_chip_info_hbm_total_memory", 65536, namespace="n", pod_name="p", id="3", model_name="910B4")],
            [("ascend-npu", "3", "910B4", {"use": 40, "memory": 10**9}, 65536 * 10**6)],
        ),
        (
            [sample("gpu_junction_temperature", 60, namespace="n", pod="p", gpu_id="0", card_model="MI300X"),
             sample("gpu_edge_temperature", 50, namespace="n", pod="p", gpu_id="0", card_model="MI300X")],
            [("amd-device-metrics", "0", "MI300X", {"temperature": 60}, None)],
        ),
        (  # Prometheus puts the exporter's own pod into the labels it wants for itself.
            [sample("DCGM_FI_DEV_GPU_UTIL", 5, namespace="gpu-operator", pod="dcgm-x", exported_namespace="n",
                    exported_pod="p", gpu="0", modelName="A800")],
            [("nvidia-dcgm", "0", "A800", {"use": 5}, None)],
        ),
        ([sample("DCGM_FI_DEV_GPU_UTIL", float("nan"), namespace="n", pod="p", gpu="0")], []),
        ([sample("DCGM_FI_DEV_GPU_UTIL", 5, at=9.0, namespace="n", pod="p", gpu="0")], []),  # of a pod of that name before
        ([sample("DCGM_FI_DEV_GPU_UTIL", 5, namespace="m", pod="p", gpu="0")], []),
    ],
)  # fmt: skip
def test_exporters_of_any_vendor(samples: list[Sample], told: list[Any]) -> None:
    found = exporters.devices_of(samples, devices.table(), {("n", "p"): 50.0})
    rows = [(d.exporter, d.device, d.model, d.to_row(), d.memory_total) for some in found.values() for d in some]
    assert [(e, n, m, t) for e, n, m, _row, t in rows] == [(e, n, m, t) for e, n, m, _figures, t in told]
    for (*_same, row, _total), (_e, _n, _m, figures, _t) in zip(rows, told, strict=True):
        assert {key: row[key] for key in figures} == figures


def test_operators_add_exporters(tmp_path: Path, settings: Any) -> None:
    text = """
mx-exporter: {name: MX, fault: code, memory_unit: MiB, pod: [pod], namespace: [namespace], device: [uuid],
  model: [model], figures: {use: [mx_gpu_usage]}}
"""
    (tmp_path / "more.yaml").write_text(text)
    settings.EXPORTERS_FILE = str(tmp_path / "more.yaml")
    devices.table.cache_clear()
    try:
        assert "mx_gpu_usage" in exporters.metrics_of(devices.table())
        assert "DCGM_FI_DEV_GPU_UTIL" in exporters.metrics_of(devices.table())
        with pytest.raises(exporters.Wrong):
            exporters.read_table(
                {"x": {"name": "X", "pod": ['pod"}'], "namespace": [], "device": [], "model": [], "figures": {}}}
            )
    finally:
        devices.table.cache_clear()
    assert django_settings.EXPORTERS_FILE


def test_names_are_asked_for_to_the_letter() -> None:
    (asked,) = exporters.selectors(["up"], [("n.a", "p-0")], [("namespace", "pod")])
    assert asked == r'{__name__=~"up",namespace=~"n\\.a",pod=~"p\\-0"}'


def exposing(rank: int, since: float = 0.0) -> Watched:
    metrics = {"step": "s", "loss": "l"}
    return Watched("n", f"p-{rank}", f"uid-{rank}", "job.1", rank, 2, since, metrics)


def scraped(name: str, rank: int, *samples: tuple[float, float]) -> Series:
    return Series(
        {"__name__": name, "namespace": "n", "pod": f"p-{rank}"}, [(at, float(value)) for at, value in samples]
    )


def test_a_value_belongs_to_the_step_of_its_own_scrape() -> None:
    found = [
        scraped("s", 1, (10.0, 5), (25.0, 6)), scraped("l", 1, (10.0, 2.5), (25.0, 2.4)),
        scraped("s", 0, (12.0, 5), (27.0, 7.5)), scraped("l", 0, (12.0, 2.0), (27.0, 1.9), (42.0, 1.8)),
    ]  # fmt: skip
    ((topic, attempt, readings),) = exposed_readings([exposing(1), exposing(0)], found)
    assert (topic, attempt) == ("job.1", 2)
    # Rank 0 counts where both tell of a step; half a step, and a value without one, are none.
    assert [(series, step, value) for series, step, value, _at in readings] == [("loss", 5, 2.0), ("loss", 6, 2.4)]


def test_what_a_pod_of_the_same_name_said_before_is_not_of_this_attempt() -> None:
    found = [scraped("s", 0, (10.0, 500), (40.0, 3)), scraped("l", 0, (10.0, 1.0), (40.0, 3.0))]
    ((_topic, _attempt, readings),) = exposed_readings([exposing(0, since=30.0)], found)
    assert [(step, value) for _series, step, value, _at in readings] == [(3, 3.0)]


@pytest.mark.django_db
def test_ranks_of_which_little_or_nothing_is_told(world: World, job: Job) -> None:
    for rank in range(3):
        JobRank.objects.create(job=job, pod_uid=f"u{rank}", pod_name=f"w-{rank}", attempt=1, rank=rank, phase="Running")
    told = [exporters.Device("nvidia-dcgm", "0", "A800", time.time(), {"use": 0.0})]
    some = [exporters.Device("nvidia-dcgm", "0", "A800", time.time(), {"temperature": 61.0, "memory": 2.0**30})]
    pods = [devices.PodRead(job.topic, f"u{n}", f"w-{n}", n, 1, NOW, one) for n, one in enumerate((told, some))]
    devices.note_devices(job.placement.cluster_id, pods, NOW)
    page = browser(world.scientist).get(f"/jobs/{job.pk}/?part=ranks").content.decode()
    cells = [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r'<td class="num(?: \w+)*">(.*?)</td>', page)]
    rows = [cells[first : first + 3] for first in range(0, len(cells), 4)]
    assert rows == [["0", "–", "–"], ["–", "1.0 GiB", "61"], ["–", "–", "–"]]
    whole = browser(world.scientist).get(f"/jobs/{job.pk}/")
    assert whole.status_code == 200


@pytest.mark.django_db
def test_what_pods_told_stays_when_they_are_gone(world: World, job: Job) -> None:
    device = exporters.Device("nvidia-dcgm", "0", "A800", time.time(), {"use": 50.0})
    one = devices.PodRead(job.topic, "uid", "w-0", 0, 1, NOW, [device])
    devices.note_devices(job.placement.cluster_id, [one], NOW)
    Job.objects.for_system().update(phase=Phase.SUCCEEDED, ended_at=NOW)
    job.refresh_from_db()
    assert gpus_of(job).use == 50.0
    assert PodDevices.objects.count() == 1
    told = incidents_of(job)
    assert told is not None
    assert [(curve.name, curve.low) for curve in told.curves] == [("GPU use", 50.0)]


@pytest.mark.django_db(transaction=True)
async def test_the_watch_reads_for_the_pods_that_it_sees(
    small: SmallCluster,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices_watch, "FIRST_SECONDS", 0.2)

    def enter(url: str) -> None:
        ClusterSource.objects.create(cluster=cluster, kind="prometheus", url=url, state=ClusterSource.State.READY)

    cluster = await in_thread(Cluster.objects.create, slug="small", name="Small", server="https://127.0.0.1:1")
    with prometheus(tmp_path) as exposed:
        exposed.values['DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="team-a",pod="g-1"}'] = 42
        exposed.wait_for("DCGM_FI_DEV_GPU_UTIL", 42)
        async with test_watch.watch(small, cluster):
            made = await in_thread(test_watch.send, small, test_watch.pod("g-1", "ROWG", "n-1"))
            state = {"running": {"startedAt": (NOW - timedelta(minutes=1)).isoformat()}}
            status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]}
            path = object_path(test_watch.pod("g-1"))
            await in_thread(small.api.merge_patch, f"{path}/status", {"status": status})
            await in_thread(enter, exposed.url)
            await test_watch.until(lambda: PodDevices.objects.filter(topic="job.ROWG").exists())
        await in_thread(small.api.delete, path, grace=0)

    def look() -> None:
        kept = PodDevices.objects.get()
        assert (kept.pod_uid, kept.pod_name, kept.attempt) == (made["metadata"]["uid"], "g-1", 1)
        assert kept.devices[0]["use"] == 42.0

    await in_thread(look)
