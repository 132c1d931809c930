"""Logs: what programs print in colour, over itself, too long or out of spite; one line linked to; one that filters empty."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from apps.accounts.models import User
from apps.clusters import services as clusters
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.traininglog import LogReader
from apps.jobs.models import Job
from apps.streams import services as streams
from tests import factories

CASES = Path(__file__).parents[2] / "cases" / "logs"

PAGES = {
    "log-lines": ("data-scientist", "/jobs/{printing}/?line=20#log"),
    "log-found": ("data-scientist", "/jobs/{printing}/#find=loss&only=1"),
    "log-span": ("data-scientist", "/jobs/{printing}/#since=2026-03-02T08:00:00Z&until=2199-01-01T00:00:00Z"),
    "log-span-wrong": ("data-scientist", "/jobs/{printing}/#since=soon&until=2026-03-02T08:00:00Z"),
    "log-none-fits": ("data-scientist", "/jobs/{printing}/#find=nothing+like+it&only=1"),
}


def seed(world: factories.World, me: User) -> dict[str, Any]:
    job = factories.job(
        me, world.place, document={"name": "prints everything"}, phase=Phase.SUCCEEDED, ended_at=timezone.now()
    )
    for case in ("torchtitan_ansi", "hf_trainer_tqdm", "megatron", "maas_platform", "mmengine", "hostile"):
        printed(job, case)
    return {"printing": job.pk}


def printed(job: Job, case: str, rank: int = 0) -> list[Any]:
    """Lines of a recorded log, as a follower writes them."""
    at, reader, lines = timezone.now() - timedelta(minutes=1), LogReader(), []
    found = list(clusters.read_lines([(CASES / f"{case}.log").read_bytes()]))
    for number, line in enumerate(found):
        step = reader.read(line).step if line.step is None else line.step
        look = streams.Look(line.styles) if line.styles else None
        when = int((at + timedelta(milliseconds=number)).timestamp() * 1e9)
        lines.append(streams.LogLine(when, line.level, rank if line.rank is None else line.rank, step, line.text, look))
    streams.append(job.topic, streams.LogFrame(streams.Source(rank, 1, "master-0"), lines))
    return found
