"""Jobs whose devices a Prometheus tells of, and one of which nothing is known."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.clusters.domain.exporters import Device
from apps.clusters.services import devices
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Job, JobPhase, JobRank
from apps.streams import services as streams
from tests import factories
from tests.factories import World

PAGES = {
    "devices": ("data-scientist", "/jobs/{told}/"),
    "devices-none": ("data-scientist", "/jobs/{untold}/"),
}
GIB = 1 << 30


def seed(world: World, me: User) -> dict[str, Any]:
    return {"told": _job(world, me, told=True).pk, "untold": _job(world, me, told=False).pk}


def _job(world: World, me: User, *, told: bool) -> Job:
    now = timezone.now()
    document = {"name": "llama-7b-sft" if told else "llama-7b-sft, untold", "steps": 4000}
    job = factories.job(me, world.place, document=document, phase=Phase.RUNNING, running_at=now - timedelta(minutes=30))
    JobPhase.objects.filter(job=job).delete()
    for minutes, phase in ((34, Phase.SUBMITTED), (33, Phase.STARTING), (30, Phase.RUNNING)):
        JobPhase.objects.create(job=job, phase=phase, at=now - timedelta(minutes=minutes))
    for rank in range(2):
        JobRank.objects.create(
            job=job, pod_uid=f"{job.pk}{rank}", pod_name=f"j-d-{rank}", attempt=1, rank=rank, node=f"gpu-000{rank + 1}",
            phase="Running", started_at=now - timedelta(minutes=30),
        )  # fmt: skip
    losses = [("loss", step, 3.8 - step / 400, now - timedelta(minutes=30 - step / 30)) for step in range(0, 800, 10)]
    streams.record_points(job.topic, 1, losses)
    if told:
        exposed = [("accuracy", step, step / 1000, at) for _loss, step, _value, at in losses]
        streams.record_points(job.topic, 1, exposed, origin=streams.Origin.PROMETHEUS)
        for reading in range(60):
            _read(job, reading, now - timedelta(seconds=15 * (59 - reading)))
    return job


def _read(job: Job, reading: int, at: Any) -> None:
    pods = [
        devices.PodRead(
            job.topic, f"{job.pk}{rank}", f"j-d-{rank}", rank, 1, at,
            [
                Device(
                    "nvidia-dcgm", str(gpu), "NVIDIA A800-SXM4-80GB", at.timestamp(),
                    {
                        "use": 97.0 - (reading * 7 + gpu * 3 + rank) % 9, "memory": (48.2 + gpu / 10) * GIB,
                        "memory_free": (31.4 - gpu / 10) * GIB, "temperature": 66.0 + reading // 12 + gpu % 3,
                        "power": 290.0 + (reading * 5 + gpu) % 31,
                        "fault": 79.0 if (rank, gpu) == (1, 3) and reading > 40 else 0.0,
                    },
                )
                for gpu in range(8)
            ],
        )
        for rank in range(2)
    ]  # fmt: skip
    devices.note_devices(job.placement.cluster_id, pods, at)
