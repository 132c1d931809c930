"""Pages of training jobs."""

from apps.jobs.views.detail import clone, control, detail, stop
from apps.jobs.views.drafts import discard, drafts
from apps.jobs.views.eventfile import event_file
from apps.jobs.views.listing import jobs
from apps.jobs.views.log import log_download, log_line, log_lines
from apps.jobs.views.losswatch import loss_again, loss_dismiss, loss_watch
from apps.jobs.views.register import register
from apps.jobs.views.wizard import dry_run, gallery, review, step, submit

__all__ = [
    "clone",
    "control",
    "detail",
    "discard",
    "drafts",
    "dry_run",
    "event_file",
    "gallery",
    "jobs",
    "log_download",
    "log_line",
    "log_lines",
    "loss_again",
    "loss_dismiss",
    "loss_watch",
    "register",
    "review",
    "step",
    "stop",
    "submit",
]
