"""The use-cases of training jobs: the one door for pages, REST, commands and other apps."""

from apps.jobs.domain.problems import InvalidDocument, Problem
from apps.jobs.models import Draft, Job
from apps.jobs.services.checkpoints import watch_of
from apps.jobs.services.control import NotNow, Quarantined, may_control, require_control, resume, stop, suspend
from apps.jobs.services.drafts import (
    StaleDraft,
    ask_dry_run,
    begin_draft,
    discard_draft,
    dry_run_of,
    problems_of,
    save_draft,
)
from apps.jobs.services.eventfiles import read_events
from apps.jobs.services.messages import problem_text, reason_text
from apps.jobs.services.pushing import NoAttempt, Pushed, push_points
from apps.jobs.services.reading import history_of, manifests_of, progress_of, ranks_of, reason_of, timeline_of
from apps.jobs.services.submit import KeyReused, submit, submit_draft
from apps.jobs.services.why import Why, why

__all__ = [
    "Draft",
    "InvalidDocument",
    "Job",
    "KeyReused",
    "NoAttempt",
    "NotNow",
    "Problem",
    "Pushed",
    "Quarantined",
    "StaleDraft",
    "Why",
    "ask_dry_run",
    "begin_draft",
    "discard_draft",
    "dry_run_of",
    "history_of",
    "manifests_of",
    "may_control",
    "problem_text",
    "problems_of",
    "progress_of",
    "push_points",
    "ranks_of",
    "read_events",
    "reason_of",
    "reason_text",
    "require_control",
    "resume",
    "save_draft",
    "stop",
    "submit",
    "submit_draft",
    "suspend",
    "timeline_of",
    "watch_of",
    "why",
]
