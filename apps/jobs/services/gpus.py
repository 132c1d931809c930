"""The accelerators of a job as its cluster's Prometheus tells of them, or why nothing is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.clusters.services import devices
from apps.jobs.models import Job
from apps.streams import services as streams

SHOWN = 60
"""The readings that the small lines are made of."""


@dataclass(frozen=True)
class Device:
    """One accelerator of a rank; memory in bytes, temperature in °C, power in W, None for what is not told. `fault` is
    the vendor's code of the last fault since the rank began, None for none."""

    rank: int
    pod: str
    device: str
    model: str
    exporter: str
    at: datetime
    use: float | None
    memory: int | None
    memory_total: int | None
    temperature: float | None
    power: float | None
    fault: int | None

    @property
    def fault_text(self) -> str:
        """The code with the vendor's name for it, "" for none."""
        name = devices.fault_name(self.exporter)
        return "" if self.fault is None else f"{name} {self.fault}".strip()

    @property
    def memory_share(self) -> float:
        return self.memory / self.memory_total if self.memory and self.memory_total else 0.0


@dataclass(frozen=True)
class Gpus:
    """`devices` by rank, of the newest attempt. Without any, `why` says why, and "" that there is nothing to say.

    `trends` are the last readings of each of `SERIES`, oldest first, by the part of its name behind the colon."""

    devices: list[Device] = field(default_factory=list)
    trends: dict[str, list[float]] = field(default_factory=dict)
    why: str = ""

    @property
    def at(self) -> datetime:
        """The newest scrape."""
        return max(one.at for one in self.devices)

    @property
    def exporters(self) -> str:
        return ", ".join(sorted({devices.exporter_name(one.exporter) for one in self.devices}))

    @property
    def models(self) -> str:
        return ", ".join(sorted({one.model for one in self.devices if one.model}))

    @property
    def use(self) -> float | None:
        """Of all of them, in percent."""
        known = _known(self.devices, "use")
        return sum(known) / len(known) if known else None

    @property
    def idlest(self) -> Device | None:
        """The one that is used least."""
        known = [one for one in self.devices if one.use is not None]
        return min(known, key=lambda one: one.use or 0.0, default=None)

    @property
    def fullest(self) -> Device | None:
        known = [one for one in self.devices if one.memory is not None]
        return max(known, key=lambda one: (one.memory_share, one.memory or 0), default=None)

    @property
    def hottest(self) -> Device | None:
        known = [one for one in self.devices if one.temperature is not None]
        return max(known, key=lambda one: one.temperature or 0.0, default=None)

    @property
    def power(self) -> float | None:
        """Of all of them together."""
        known = _known(self.devices, "power")
        return sum(known) if known else None

    @property
    def faults(self) -> list[Device]:
        return [one for one in self.devices if one.fault is not None]


def _known(found: Iterable[Device], name: str) -> list[float]:
    return [value for one in found if (value := getattr(one, name)) is not None]


def gpus_of(job: Job) -> Gpus:
    """What is known of a job's accelerators; it stays when its pods are gone."""
    pods = [pod for pod in devices.pods_read(job.topic) if pod.attempt == job.attempt]
    found = [_device(pod, row) for pod in pods for row in pod.devices]
    if not found:
        return Gpus(why=_why(job))
    trends = {}
    for name in devices.SERIES:
        points = streams.recent([job.topic], name, SHOWN).get(job.topic, [])
        trends[name.partition(":")[2]] = [one.value for one in points if one.attempt == job.attempt]
    return Gpus(found, trends)


def by_rank(found: Sequence[Device]) -> dict[int, dict[str, Any]]:
    """Of each rank: mean use, memory of the fullest, the hottest, and its faults."""
    ranks: dict[int, list[Device]] = {}
    for one in found:
        ranks.setdefault(one.rank, []).append(one)
    told = {}
    for rank, some in ranks.items():
        all_of = Gpus(some)
        told[rank] = {
            "use": all_of.use, "memory": all_of.fullest, "temperature": all_of.hottest, "faults": all_of.faults,
        }  # fmt: skip
    return told


def _device(pod: Any, row: dict[str, Any]) -> Device:
    fault = row.get("fault")
    is_new = bool(fault) and fault != row.get("fault_before")
    return Device(
        rank=pod.rank,
        pod=pod.pod_name,
        device=row["device"],
        model=row["model"],
        exporter=row["exporter"],
        at=pod.at,
        use=row.get("use"),
        memory=_whole(row.get("memory")),
        memory_total=_whole(row.get("memory_total")),
        temperature=row.get("temperature"),
        power=row.get("power"),
        fault=int(fault) if is_new and fault is not None else None,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _why(job: Job) -> str:
    if job.running_at is None:
        return ""
    cluster = job.placement.cluster
    source = devices.prometheus_of(cluster)
    if source is None:
        text = _("Devices: nothing is known, for no Prometheus is registered for {cluster}.")
    elif source.state != source.State.READY:
        text = _("Devices: nothing is known, for the Prometheus of {cluster} was not taken into use.")
    elif source.error:
        text = _("Devices: nothing is known, for the Prometheus of {cluster} does not answer.")
    else:
        text = _("Devices: the Prometheus of {cluster} has nothing of this job's pods; no exporter tells of them.")
    return text.format(cluster=cluster.name)
