"""The REST door of jobs, a file for each kind of thing."""

from apps.jobs.api import boards, elsewhere, events, gpus, jobs, loss, points, readers, timeline, why

__all__ = ["boards", "elsewhere", "events", "gpus", "jobs", "loss", "points", "readers", "timeline", "why"]
