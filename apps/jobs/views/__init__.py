"""Pages of training jobs."""

from apps.jobs.views.detail import clone, control, detail, stop
from apps.jobs.views.drafts import discard, drafts
from apps.jobs.views.listing import jobs
from apps.jobs.views.log import log_download, log_lines
from apps.jobs.views.register import register
from apps.jobs.views.wizard import dry_run, gallery, review, step, submit

__all__ = [
    "clone",
    "control",
    "detail",
    "discard",
    "drafts",
    "dry_run",
    "gallery",
    "jobs",
    "log_download",
    "log_lines",
    "register",
    "review",
    "step",
    "stop",
    "submit",
]
