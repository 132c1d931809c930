"""Reading a cluster's Prometheus at a fixed pace: the accelerators of our pods, and the metrics that jobs expose."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from django.db import Error as DatabaseError

from apps.adapters.errors import OutsideError, Unavailable
from apps.adapters.prometheus import Prometheus, Series
from apps.adapters.source import Address
from apps.clusters.domain import exporters
from apps.clusters.domain.exporters import Sample
from apps.clusters.models import ClusterSource
from apps.clusters.services import devices, sources
from apps.clusters.services.connect import Credential
from apps.clusters.services.devices import PodRead
from apps.clusters.services.registry import WorkloadKind
from apps.clusters.watch.database import Writer, in_thread
from apps.clusters.watch.projections import Pod
from apps.streams import services as streams

log = structlog.get_logger(__name__)

FIRST_SECONDS, PACE_SECONDS = 5.0, 15.0
"""How soon it is looked whether there is something to read, and how far apart it is read."""
REFUSED_SECONDS = 60.0
WINDOW_SECONDS = 120
"""An exporter is scraped at least once in so long; older samples tell nothing of now."""
AT_ONCE = 100
"""Pods that are asked for in one question."""


@dataclass(frozen=True)
class Watched:
    """A pod of ours whose main container runs, `since` so many seconds after 1970. `exposed` are metrics that it
    exposes, by series."""

    namespace: str
    name: str
    uid: str
    topic: str
    rank: int
    attempt: int
    since: float
    exposed: Mapping[str, str]

    @property
    def key(self) -> exporters.Pod:
        return self.namespace, self.name


Ours = tuple[Pod, WorkloadKind, str]


def watched(found: Iterable[Ours]) -> list[Watched]:
    """Those whose main container runs, with what they expose."""
    running = [(pod, kind, row_id) for pod, kind, row_id in found if pod.main.running is not None]
    exposed: dict[str, Mapping[str, Mapping[str, str]]] = {}
    for kind in {kind.label: kind for _pod, kind, _row_id in running}.values():
        ids = {row_id for _pod, other, row_id in running if other.label == kind.label}
        exposed[kind.label] = kind.exposed(ids) if kind.exposed else {}
    return [
        Watched(
            pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, kind.topic(row_id), pod.rank, pod.attempt,
            _since(pod), exposed[kind.label].get(row_id, {}),
        )
        for pod, kind, row_id in running
    ]  # fmt: skip


def _since(pod: Pod) -> float:
    started = pod.main.running.startedAt if pod.main.running else None
    return started.timestamp() if started else 0.0


class DeviceWatch:
    """Reads for one cluster. `pods` tells those of ours, each with its kind and the id of its row."""

    def __init__(self, cluster_id: int, pods: Callable[[], list[Ours]], write: Writer) -> None:
        self._cluster_id, self._pods, self._write = cluster_id, pods, write
        self._open: tuple[int, Prometheus] | None = None
        # A thread of its own: a Prometheus that hangs must not hold up what else is done in threads.
        self._thread = ThreadPoolExecutor(1, "prometheus")

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            while True:
                begun, pause = time.monotonic(), FIRST_SECONDS
                try:
                    source = await in_thread(sources.in_use, self._cluster_id, ClusterSource.Kind.PROMETHEUS)
                    pause = await self._read(source) if source else pause
                except DatabaseError as error:
                    log.warning("devices_unwritten", cluster=self._cluster_id, error=str(error)[:200])
                await asyncio.sleep(max(1.0, pause - (time.monotonic() - begun)))
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _read(self, source: ClusterSource) -> float:
        """One reading; how long to wait for the next."""
        pods = await in_thread(watched, self._pods())
        try:
            loop, found = asyncio.get_running_loop(), list[Series]()
            for part in _parts(pods):
                found += await loop.run_in_executor(self._thread, self._ask, source, part)
        except OutsideError as error:
            log.info("prometheus_unread", cluster=self._cluster_id, error=error.text)
            await self._write(sources.note_source, source.pk, error.text)
            return max(PACE_SECONDS, error.retry_after) if isinstance(error, Unavailable) else REFUSED_SECONDS
        if pods:
            await self._write(sources.note_source, source.pk, "")
            await self._keep(pods, found)
        return PACE_SECONDS if pods else FIRST_SECONDS

    def _ask(self, source: ClusterSource, pods: Sequence[Watched]) -> list[Series]:
        if self._open is None or self._open[0] != source.pk:
            if self._open is not None:
                self._open[1].close()
            token = Credential(source.path) if source.has_token else None
            self._open = source.pk, Prometheus(Address(source.url, source.ca_pem, token))
        table = devices.table()
        exposed = {metric for pod in pods for metric in pod.exposed.values()}
        metrics = exposed.union(exporters.metrics_of(table))
        pairs = exporters.label_pairs(table) | {("namespace", "pod")}
        selectors = exporters.selectors(metrics, [pod.key for pod in pods], pairs)
        return [one for selector in selectors for one in self._open[1].samples(selector, WINDOW_SECONDS)]

    async def _keep(self, pods: Sequence[Watched], found: Sequence[Series]) -> None:
        now = datetime.now(UTC)
        newest = [_newest(one) for one in found]
        by_pod, since = {pod.key: pod for pod in pods}, {pod.key: pod.since for pod in pods}
        read = [
            PodRead(
                pod.topic, pod.uid, pod.name, pod.rank, pod.attempt,
                datetime.fromtimestamp(max(one.at for one in told), UTC), told,
            )
            for key, told in exporters.devices_of(newest, devices.table(), since).items()
            for pod in (by_pod[key],)
        ]  # fmt: skip
        if read:
            await self._write(devices.note_devices, self._cluster_id, read, now)
        for topic, attempt, readings in exposed_readings(pods, found):
            await self._write(record_exposed, topic, attempt, readings)


def record_exposed(topic: str, attempt: int, readings: list[streams.Reading]) -> None:
    """Keep points that a job exposed, and tell open pages where there are new ones."""
    if streams.record_points(topic, attempt, readings, origin=streams.Origin.PROMETHEUS):
        streams.tell_points(topic, attempt, readings)


def exposed_readings(
    pods: Iterable[Watched], found: Iterable[Series]
) -> Iterator[tuple[str, int, list[streams.Reading]]]:
    """What jobs expose, as points: values of one scrape belong to the step that the same scrape tells. Of several ranks
    that tell of one step, the lowest counts."""
    told: dict[exporters.Pod, dict[str, dict[float, float]]] = {}
    for seen in found:
        pod = (seen.labels.get("namespace", ""), seen.labels.get("pod", ""))
        values = told.setdefault(pod, {}).setdefault(seen.name, {})
        for at, value in seen.samples:
            values.setdefault(at, value)
    points: dict[tuple[str, int], dict[tuple[str, int], streams.Reading]] = {}
    for one in sorted(pods, key=lambda pod: pod.rank):
        steps = told.get(one.key, {}).get(one.exposed.get("step", ""), {})
        for series, metric in one.exposed.items():
            if series == "step":
                continue
            kept = points.setdefault((one.topic, one.attempt), {})
            for at, value in sorted(told.get(one.key, {}).get(metric, {}).items()):
                step = steps.get(at, -1.0)
                if at >= one.since and 0 <= step < streams.STEP_LIMIT and step.is_integer():
                    kept.setdefault((series, int(step)), (series, int(step), value, datetime.fromtimestamp(at, UTC)))
    for (topic, attempt), kept in points.items():
        if kept:
            yield topic, attempt, list(kept.values())


def _newest(series: Series) -> Sample:
    at, value = series.samples[-1]
    return Sample(series.labels, at, value)


def _parts(pods: Sequence[Watched]) -> Iterator[Sequence[Watched]]:
    return (pods[first : first + AT_ONCE] for first in range(0, len(pods), AT_ONCE))
