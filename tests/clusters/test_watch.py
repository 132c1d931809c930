"""The watch process on a real API: what it sees, whom it wakes, what it says when the cluster is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from apps.adapters.broker import ASKED, SEEN
from apps.adapters.kubernetes import object_path
from apps.adapters.kubernetes.stream import StreamReader
from apps.clusters import services
from apps.clusters.models import Cluster
from apps.clusters.services import lease
from apps.clusters.watch import cluster as watching
from apps.clusters.watch import projections, reflect
from apps.clusters.watch.cluster import ClusterWatch
from apps.clusters.watch.database import in_thread
from apps.clusters.watch.reflect import Reflector
from apps.clusters.watch.wakes import Wakes
from apps.jobs.models import Job
from apps.streams.services import LiveBuffer
from apps.tenants.models import Placement
from tests import factories
from tests.clusters.smallcluster import SmallCluster
from tests.factories import World

pytestmark = pytest.mark.django_db(transaction=True)

LABEL = "maas.portal/job"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    one = SmallCluster(tmp_path_factory.mktemp("cluster")).start()
    try:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
        one.api.apply(object_path(namespace), namespace)
        yield one
    finally:
        one.stop()


@pytest.fixture
def row() -> Cluster:
    return Cluster.objects.create(slug="small", name="Small", server="https://127.0.0.1:1")


def jobs_kind() -> services.WorkloadKind:
    return next(kind for kind in services.workloads() if kind.label == LABEL)


class Heard(Wakes):
    """Wake-ups that stay here."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[Any] = []

    def add(self, task: str, row_id: Any, *, asked: bool = False) -> None:
        assert task == "jobs.reconcile_job"
        self.ids.append(row_id)


@asynccontextmanager
async def watch(small: SmallCluster, row: Cluster) -> AsyncIterator[Heard]:
    wakes, buffer = Heard(), LiveBuffer()
    task = asyncio.create_task(ClusterWatch(row.pk, small.endpoint, wakes, buffer).run())
    try:
        yield wakes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await buffer.close()


async def until(condition: Callable[[], Any], seconds: float = 8) -> None:
    async with asyncio.timeout(seconds):
        while not await in_thread(condition):
            await asyncio.sleep(0.05)


def job(name: str, row_id: str) -> dict[str, Any]:
    task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}
    metadata = {"name": name, "namespace": "team-a", "labels": {LABEL: row_id}}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": {"tasks": [task]}}


def pod(name: str, row_id: str = "", node: str = "", gpus: str = "0") -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    metadata: dict[str, Any] = {"name": name, "namespace": "team-a", "labels": {LABEL: row_id} if row_id else {}}
    spec = {"containers": [container]} | ({"nodeName": node} if node else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team-a"}}


def node(name: str, gpus: int, *, ready: str = "True") -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "A800-80G"}
    status = {"allocatable": {"nvidia.com/gpu": str(gpus)}, "conditions": [{"type": "Ready", "status": ready}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def send(small: SmallCluster, manifest: dict[str, Any]) -> dict[str, Any]:
    collection = object_path({**manifest, "metadata": {**manifest["metadata"], "name": ""}})
    return small.api.create(collection, manifest).object


async def test_each_change_of_our_objects_wakes_its_row(small: SmallCluster, row: Cluster) -> None:
    async with watch(small, row) as heard:
        made = await in_thread(send, small, job("j-1", "ROW1"))
        await until(lambda: "ROW1" in heard.ids)
        await in_thread(send, small, pod("p-2", "ROW2"))
        await in_thread(send, small, pod("somebody-elses"))
        await until(lambda: "ROW2" in heard.ids)

        heard.ids.clear()
        owner = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "j-1",
            "uid": made["metadata"]["uid"],
        }
        group = {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"minMember": 1},
            "metadata": {"name": "j-1-x", "namespace": "team-a", "ownerReferences": [owner]},
        }  # fmt: skip
        await in_thread(send, small, group)
        await until(lambda: "ROW1" in heard.ids)

        heard.ids.clear()
        about = {"kind": "Job", "namespace": "team-a", "name": "j-1"}
        event = {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e-1", "namespace": "team-a"},
            "involvedObject": about, "message": "queue resource quota insufficient", "reason": "Unschedulable",
        }  # fmt: skip
        await in_thread(send, small, event)
        await until(lambda: "ROW1" in heard.ids)

        heard.ids.clear()
        await in_thread(small.api.delete, object_path(job("j-1", "")))
        await in_thread(small.api.delete, object_path(pod("p-2")))
        await until(lambda: {"ROW1", "ROW2"} <= set(heard.ids))
        assert set(heard.ids) == {"ROW1", "ROW2"}


async def test_how_a_pod_ended_is_told_though_the_pod_is_gone_at_once(
    small: SmallCluster, row: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[services.PodEnd] = []
    kind = replace(jobs_kind(), ended=ends.append)
    monkeypatch.setattr(watching, "workloads", lambda: (kind,))
    async with watch(small, row) as heard:
        made = await in_thread(send, small, pod("e-1", "ROW7", "n-9"))
        await until(lambda: "ROW7" in heard.ids)
        heard.ids.clear()
        path = object_path(pod("e-1"))
        state = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-26T12:00:00Z"}}
        status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}
        await in_thread(small.api.merge_patch, f"{path}/status", {"status": status})
        await in_thread(small.api.delete, path, grace=0)
        await until(lambda: "ROW7" in heard.ids and ends)
    (end,) = ends
    assert (end.pod_uid, end.exit_code, end.node, end.attempt) == (made["metadata"]["uid"], 137, "n-9", 1)
    assert end.reason.container == "OOMKilled"


async def test_how_pods_stand_is_told_beside_the_look(
    small: SmallCluster, row: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, services.PodSeen] = {}
    kind = replace(jobs_kind(), seen=lambda pods: told.update({pod.pod_uid: pod for pod in pods}))
    monkeypatch.setattr(watching, "workloads", lambda: (kind,))
    async with watch(small, row) as heard:
        made = [await in_thread(send, small, pod(f"s-{number}", "ROW8", "n-9")) for number in (1, 2)]
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        for name, state in (("s-1", waiting), ("s-2", {"running": {"startedAt": "2026-11-26T12:00:00Z"}})):
            status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": state}]}
            path = f"{object_path(pod(name))}/status"
            await in_thread(small.api.merge_patch, path, {"status": status})
        first, second = (one["metadata"]["uid"] for one in made)
        await until(lambda: first in told and told[first].waiting and second in told and told[second].started_at)
        await until(lambda: "ROW8" in heard.ids)
    shown = told[first]
    assert (shown.row_id, shown.phase, shown.node) == ("ROW8", "Running", "n-9")
    assert (shown.waiting, shown.message) == ("ImagePullBackOff", "no such image")


def said(name: str, about: dict[str, Any], reason: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team-a"}
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": {"namespace": "team-a", **about},
        "type": "Warning", "reason": reason, "message": f"{reason} of {name}", **fields,
    }  # fmt: skip


async def test_what_is_said_of_a_pod_is_told_whenever_it_is_said(
    small: SmallCluster, row: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the watch began, before the pod came, while it is there, after it is gone, and of an earlier one of its
    name; of a pod of somebody else, or of what every pod does, nothing."""
    told: dict[str, services.PodEventSeen] = {}
    kind = replace(jobs_kind(), said=lambda events: told.update({event.message: event for event in events}))
    monkeypatch.setattr(watching, "workloads", lambda: (kind,))

    def about(made: dict[str, Any]) -> dict[str, Any]:
        return {"kind": "Pod", "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}

    stamps = {"firstTimestamp": "2026-11-26T12:00:00Z", "lastTimestamp": "2026-11-26T12:09:00Z", "count": 31}
    first = await in_thread(send, small, pod("v-1", "ROW9", "n-9"))
    await in_thread(send, small, said("early", about(first), "BackOff", **stamps))
    async with watch(small, row) as heard:
        await until(lambda: "BackOff of early" in told)
        seen = told["BackOff of early"]
        assert (seen.row_id, seen.count, seen.pod_name, seen.node, seen.attempt) == ("ROW9", 31, "v-1", "n-9", 1)
        assert (seen.at - seen.first).total_seconds() == 540

        late = {"kind": "Pod", "name": "v-2", "uid": ""}
        await in_thread(send, small, said("before", late, "FailedScheduling", eventTime="2026-11-26T12:00:00.000000Z"))
        await asyncio.sleep(1.5)
        await in_thread(send, small, pod("v-2", "ROW9", "n-7"))
        await until(lambda: "FailedScheduling of before" in told)

        await in_thread(small.api.delete, object_path(pod("v-1")), grace=0)
        again = await in_thread(send, small, pod("v-1", "ROW9", "n-8"))
        await until(lambda: heard.ids.count("ROW9") > 2)
        await in_thread(send, small, said("after", about(first), "Evicted"))
        await in_thread(send, small, said("anew", about(again), "FailedMount"))
        await in_thread(send, small, said("usual", about(again), "Pulled") | {"type": "Normal"})
        await in_thread(send, small, job("v", "ROW9"))
        await in_thread(send, small, said("whole", {"kind": "Job", "name": "v"}, "PluginError"))
        stranger = await in_thread(send, small, pod("strange"))
        await in_thread(send, small, said("strange", about(stranger), "Failed"))
        await until(lambda: {"Evicted of after", "FailedMount of anew", "PluginError of whole"} <= told.keys())
        await asyncio.sleep(1.5)
    assert (told["Evicted of after"].node, told["FailedMount of anew"].node) == ("n-9", "n-8")
    assert (told["PluginError of whole"].rank, told["PluginError of whole"].pod_name) == (None, "")
    assert len(told) == 5


async def test_nodes_and_what_runs_on_them_are_counted(small: SmallCluster, row: Cluster) -> None:
    async with watch(small, row):
        for name, gpus, ready in (("n-1", 8, "True"), ("n-2", 8, "True"), ("n-3", 8, "False")):
            await in_thread(send, small, node(name, gpus, ready=ready))
        await in_thread(send, small, pod("q-1", "ROW3", "n-1", "4"))
        await until(lambda: [s.used for s in services.nodes(row)] == [4, 0, 0])
        capacity = await in_thread(services.capacity, row)
        assert (capacity.total, capacity.used, capacity.whole_free, capacity.largest_gang) == (24, 4, 1, 8)
        assert [p.product for p in capacity.products] == ["A800-80G"]

        await in_thread(small.api.delete, object_path(pod("q-1")), grace=0)
        await in_thread(small.api.delete, object_path(node("n-3", 8)))
        await until(lambda: [(s.name, s.used) for s in services.nodes(row)] == [("n-1", 0), ("n-2", 0)])


async def test_a_silent_cluster_is_said_and_forgotten(
    small: SmallCluster, row: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "PROBE_SECONDS", 1.0)

    def seen() -> Cluster:
        return Cluster.objects.get(pk=row.pk)

    async with watch(small, row) as heard:
        await until(lambda: seen().version.startswith("v1."))
        await in_thread(send, small, job("j-4", "ROW4"))
        await until(lambda: "ROW4" in heard.ids)
        await in_thread(small.stop)
        await until(lambda: seen().unreachable_since)
        then = await in_thread(seen)
        assert "stream broke" in then.unreachable_reason
        await asyncio.sleep(1)
        assert (await in_thread(seen)).unreachable_since == then.unreachable_since

        heard.ids.clear()
        await in_thread(small.start)
        await until(lambda: seen().unreachable_since is None)
        await in_thread(small.api.delete, object_path(job("j-4", "")))
        await until(lambda: "ROW4" in heard.ids, 12)


@pytest.fixture
def two_jobs(row: Cluster) -> tuple[Job, Job]:
    """In the cluster that is watched."""
    world = World.make()
    Placement.objects.filter(pk=world.place.pk).update(cluster=row)
    waits, quiet = (factories.job(world.scientist, world.place, document={"name": name}) for name in ("waits", "quiet"))
    return waits, quiet


async def test_a_cluster_that_is_back_wakes_what_waited_for_it_and_nothing_else(
    small: SmallCluster, row: Cluster, two_jobs: tuple[Job, Job]
) -> None:
    """A pause that grew while the cluster was away must not run on after its return."""
    waits, quiet = two_jobs
    jobs = Job.objects.for_system().filter(pk=waits.pk)

    def wait() -> None:
        jobs.update(failures=9, due_at=timezone.now() + timedelta(hours=1))

    await in_thread(wait)
    async with watch(small, row) as heard:
        await until(lambda: waits.pk in heard.ids)
        assert quiet.pk not in heard.ids
        assert (await in_thread(jobs.get)).failures == 0
        await in_thread(small.stop)
        await until(lambda: Cluster.objects.get(pk=row.pk).unreachable_since)
        heard.ids.clear()
        await in_thread(wait)
        await in_thread(small.start)
        await until(lambda: waits.pk in heard.ids)


async def test_the_sweep_finds_what_events_missed_and_what_nobody_owns(
    small: SmallCluster, row: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans: list[services.WorkloadObject] = []
    kind = replace(
        jobs_kind(), known=lambda ids: ids - {"NOROW"}, unsettled=lambda ids: ids & {"ROW5"}, orphan=orphans.append
    )
    monkeypatch.setattr(watching, "workloads", lambda: (kind,))
    monkeypatch.setattr(watching, "SWEEP_SECONDS", 0.5)
    async with watch(small, row) as heard:
        await in_thread(send, small, job("j-5", "ROW5"))
        stray = await in_thread(send, small, job("j-6", "NOROW"))
        await in_thread(send, small, job("j-7", "SETTLED"))
        await until(lambda: {"ROW5", "SETTLED"} <= set(heard.ids))
        for _ in range(2):
            heard.ids.clear()
            await until(lambda: "ROW5" in heard.ids, 3)
            assert set(heard.ids) == {"ROW5"}
    found = orphans[0]
    assert (found.name, found.row_id, found.uid) == ("j-6", "NOROW", stray["metadata"]["uid"])
    for name in ("j-5", "j-6", "j-7"):
        await in_thread(small.api.delete, object_path(job(name, "")))


async def test_an_unreadable_authority_is_a_silence_not_a_crash(small: SmallCluster, row: Cluster) -> None:
    broken = replace(small.endpoint, ca_pem="-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----")
    task = asyncio.create_task(ClusterWatch(row.pk, broken, Heard(), LiveBuffer()).run())
    await until(lambda: Cluster.objects.get(pk=row.pk).unreachable_since)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_comparison_finds_what_the_watch_did_not_tell(
    small: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And takes nothing for missed that is only on its way."""
    monkeypatch.setattr(reflect, "LATE_SECONDS", 0.5)
    told: list[tuple[str, bool]] = []
    reader = StreamReader(small.endpoint)
    reflector = Reflector(
        reader, "/api/v1/configmaps", projections.OBJECTS,
        lambda _old, new: told.append((new.metadata.name if new else "", new is None)), lambda: None,
    )  # fmt: skip
    task = asyncio.create_task(reflector.run())
    try:
        await reflector.synced.wait()
        comparing = asyncio.create_task(reflector.compare())
        for number in range(20):
            await in_thread(send, small, config_map(f"c-{number}"))
        assert await comparing == 0
        await until(lambda: ("team-a", "c-19") in reflector.store)
        ghost, unseen = reflector.store["team-a", "c-0"], reflector.store.pop(("team-a", "c-1"))
        reflector.store["team-a", "ghost"] = msgspec.structs.replace(
            ghost, metadata=msgspec.structs.replace(ghost.metadata, name="ghost")
        )
        told.clear()
        assert await reflector.compare() == 2
        assert sorted(told) == [("", True), ("c-1", False)]
        assert reflector.store["team-a", "c-1"] == unseen
        assert await reflector.compare() == 0
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reader.close()


def test_a_former_holder_writes_nothing(row: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    first = lease.take("w", "a")
    assert first
    with lease.fence("w", first):
        services.note_silence(row.pk, "while it holds the lease")
    monkeypatch.setattr(lease, "LEASE", timedelta(seconds=-1))
    lease.renew("w", "a", first)
    assert lease.take("w", "b") == first + 1
    with pytest.raises(lease.LeaseLost), lease.fence("w", first):
        services.note_answer(row.pk, "v1")
    row.refresh_from_db()
    assert (row.unreachable_reason, row.version) == ("while it holds the lease", "")


def test_one_watch_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first = lease.take("w", "a")
    assert first == 1
    assert lease.take("w", "b") is None
    assert lease.renew("w", "a", first)
    monkeypatch.setattr(lease, "LEASE", timedelta(seconds=-1))
    assert lease.renew("w", "a", first)  # its time is over now
    second = lease.take("w", "b")
    assert second == 2
    assert not lease.renew("w", "a", first)
    lease.give_up("w", "b", second)
    assert lease.take("w", "c") == 3


async def test_wakes_are_gathered_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, Any]] = []
    monkeypatch.setattr("apps.clusters.watch.wakes.send", lambda task, row_id, **_: sent.append((task, row_id)))
    wakes = Wakes()
    task = asyncio.create_task(wakes.run())
    for _ in range(100):
        wakes.add("t", 1)
        wakes.add_due("t", [1, 2])
    await asyncio.sleep(0.15)
    assert sorted(sent) == [("t", 1), ("t", 2)]
    wakes.add_due("t", [1, 2])  # still due, as no worker runs
    wakes.add("t", 1)
    await asyncio.sleep(0.15)
    assert sorted(sent) == [("t", 1), ("t", 1), ("t", 2)]
    task.cancel()


async def test_what_is_asked_for_keeps_its_place_whoever_tells_of_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that has not gone in yet and tries again must not stand behind the looks at thousands that have."""
    sent: dict[Any, int] = {}
    monkeypatch.setattr("apps.clusters.watch.wakes.send", lambda _task, row, priority: sent.update({row: priority}))
    wakes = Wakes()
    wakes.add_due("t", [1], asked=True)
    wakes.add_due("t", [1, 2])
    wakes.add("t", 1)
    wakes.add("t", 2)
    task = asyncio.create_task(wakes.run())
    await asyncio.sleep(0.15)
    assert sent == {1: ASKED, 2: SEEN}
    task.cancel()
