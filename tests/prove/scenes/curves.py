"""The chart card in all it can show: every curve, another job beside, a stretch; and points under the keyboard."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.jobs.domain.boards import Stage
from apps.jobs.domain.harvest import Harvest
from apps.jobs.domain.phases import Phase
from apps.jobs.models import Board, EventReader, Job
from apps.streams import services as streams
from tests import factories

S = "data-scientist"
PAGES: dict[str, tuple[str, str]] = {
    "curves-all": (S, "/jobs/{restarted}/#curves=loss,learning_rate,grad_norm,tokens_per_second&with={running}"),
    "curves-events": (S, "/jobs/{boarded}/"),
    "curves-stretch": (S, "/jobs/{restarted}/#steps=140-220&scale=log&smooth=0.9"),
}


def seed(world: factories.World, me: User) -> dict[str, Any]:
    """A job whose event files are read, with a TensorBoard that is open."""
    now = timezone.now()
    job = factories.job(me, world.place, document={"name": "bert with events"}, phase=Phase.RUNNING, running_at=now)
    own = {"template": "command", "name": job.name, "ranks": 1, "image": "maas/python:1", "command": "python train.py"}
    Job.objects.for_system().filter(pk=job.pk).update(document=own)
    files = {f"runs/{n}/events.out.tfevents.{n}": {"next": 4000, "attempt": 1, "points": 620} for n in (1, 2)}
    EventReader.objects.create(
        job=job, phase=Harvest.READING, files=files, points=1240, left_out=3, looked_at=now,
        reason="events.waits-cluster",
    )  # fmt: skip
    Board.objects.create(job=job, phase=Stage.READY, ip="127.9.9.9", used_at=now, until=now + timedelta(hours=4))
    points = [("loss", step, 3.0 / step, now) for step in range(1, 60)]
    streams.record_points(job.topic, 1, points, origin=streams.Origin.TENSORBOARD)
    return {"boarded": job.pk}
