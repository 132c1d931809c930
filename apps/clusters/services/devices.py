"""Accelerators of pods as exporters tell of them: written by the watch process, read by pages."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.db import transaction

from apps.clusters.domain import exporters
from apps.clusters.domain.exporters import Device, Exporter
from apps.clusters.models import Cluster, ClusterSource, PodDevices
from apps.streams import services as streams

SHIPPED = Path(__file__).parent.parent / "exporters.yaml"
SERIES = exporters.SERIES


@functools.cache
def table() -> tuple[Exporter, ...]:
    """The exporters that are known: what the release ships, and what MAAS_EXPORTERS_FILE adds or replaces. Raises
    Wrong, OSError."""
    document = yaml.safe_load(SHIPPED.read_text())
    if settings.EXPORTERS_FILE:
        document |= yaml.safe_load(Path(settings.EXPORTERS_FILE).read_text()) or {}
    return tuple(exporters.read_table(document))


@dataclass(frozen=True)
class PodRead:
    """What was read of a pod of the stream `topic`."""

    topic: str
    pod_uid: str
    pod_name: str
    rank: int
    attempt: int
    at: datetime
    devices: Sequence[Device]


def device_topic(topic: str) -> str:
    """The name under which open pages hear of the devices behind a stream: those come oftener than anything else."""
    return f"devices.{topic.partition('.')[2]}"


@transaction.atomic
def note_devices(cluster_id: int, pods: Sequence[PodRead], now: datetime) -> None:
    """Keep how the devices of some pods stand, and a point of each of SERIES for each stream. `pods` are all there are
    of a stream. A step of these series is a second since 1970."""
    known = dict(PodDevices.objects.filter(pod_uid__in=[pod.pod_uid for pod in pods]).values_list("pod_uid", "devices"))
    rows = [
        PodDevices(
            cluster_id=cluster_id, topic=pod.topic, pod_uid=pod.pod_uid, pod_name=pod.pod_name, rank=pod.rank,
            attempt=pod.attempt, at=pod.at, devices=_rows(pod.devices, known.get(pod.pod_uid, [])),
        )
        for pod in pods
    ]  # fmt: skip
    PodDevices.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["topic", "pod_uid"],
        update_fields=["at", "devices", "attempt", "rank"],
        batch_size=500,
    )
    grouped: dict[tuple[str, int], list[Device]] = {}
    for pod in pods:
        grouped.setdefault((pod.topic, pod.attempt), []).extend(pod.devices)
    for (topic, attempt), devices in sorted(grouped.items()):
        readings = [(name, int(now.timestamp()), value, now) for name, value in exporters.totals(devices).items()]
        streams.record_points(topic, attempt, readings, origin=streams.Origin.PROMETHEUS)
        streams.hint(device_topic(topic))


def _rows(devices: Sequence[Device], known: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """An exporter goes on telling a device's last fault: which it told first is kept, to know what came since."""
    before = {(row["exporter"], row["device"]): row.get("fault_before") for row in known}
    rows = [device.to_row() for device in devices]
    for row in rows:
        earlier = before.get((row["exporter"], row["device"]))
        row["fault_before"] = row.get("fault") if earlier is None else earlier
    return rows


def pods_read(topic: str) -> list[PodDevices]:
    """What is known of the pods of a stream, by attempt and rank."""
    return list(PodDevices.objects.filter(topic=topic).order_by("attempt", "rank"))


def prometheus_of(cluster: Cluster) -> ClusterSource | None:
    """The one in use, else the one that was entered."""
    rows = ClusterSource.objects.filter(cluster=cluster, kind=ClusterSource.Kind.PROMETHEUS)
    found = {row.state == ClusterSource.State.READY: row for row in rows.exclude(state=ClusterSource.State.DROPPED)}
    return found.get(True) or found.get(False)


def fault_name(exporter: str) -> str:
    """What an exporter's vendor calls the codes of faults."""
    return next((one.fault for one in table() if one.key == exporter), "")


def exporter_name(exporter: str) -> str:
    return next((one.name for one in table() if one.key == exporter), exporter)
