"""What pages and REST say of reading a job's event files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.jobs.domain.harvest import Harvest
from apps.jobs.domain.templates import CHECKPOINTS, may_write_events
from apps.jobs.models import EventReader, Job

REASONS: dict[str, Promise] = {
    "events.waits-cluster": _("The cluster does not answer; its volume is read when it is back."),
    "events.waits-secrets": _(
        "The secrets server does not answer, so the cluster cannot be asked; this goes on by itself."
    ),
    "events.waits-right": _(
        "The tenant's account in the cluster is missing or lacks a right. Restore the tenant's objects on its page; if"
        " that changes nothing, tell a platform operator."
    ),
    "events.one-at-a-time": _(
        "The job's volume can be mounted on one node at a time, so its event files are read when the job has ended."
    ),
    "events.no-volume": _("The volume {claim} is not in the tenant's namespace any more: there is nothing to read."),
    "events.name-taken": _("Something else in the cluster has the name of the pod that would read them."),
    "events.leaving": _("The tenant is leaving the cluster."),
    "events.refused": _("The cluster refused the pod that would read them: {text}"),
    "events.pod-gone": _("The pod that read them was deleted in the cluster; another one is sent."),
    "events.pod-ended": _("The pod that read them ended without a word (exit code {code}); another one is sent."),
    "events.pod-pending": _(
        "The pod that would read them did not begin within 15 minutes ({text}); another one is sent later."
    ),
    "events.pod-waits": _("The pod that reads them is not running yet: {text}"),
    "torn": _("The last record of one of them is not whole; what came before it counts."),
    "too-many": _("More than 5 million points came from them; reading has ended."),
}
GIVEN_UP: Promise = _("Tried four times; nothing more is tried. Give the job its files with the button above instead.")


@dataclass(frozen=True)
class EventFiles:
    """How the reading of a job's event files stands: `state` is one of `Harvest`'s, or "off" where nobody looks;
    `problem` what is in the way, in words."""

    state: str
    said: str
    problem: str = ""
    files: int = 0
    points: int = 0
    left_out: int = 0
    looked_at: datetime | None = None
    next_at: datetime | None = None


def event_files_of(job: Job) -> EventFiles | None:
    """None where there is nothing to say: what the job runs writes no event files, or it has not run yet."""
    if not may_write_events(job.document):
        return None
    row: EventReader | None = getattr(job, "event_reader", None)
    if row is None:
        off = gettext("Event files in the job's volume are not looked for here: the operators have switched it off.")
        return None if settings.EVENTS_IMAGE else EventFiles("off", off)
    return EventFiles(
        row.phase, _said(row), _problem(row), len(row.files), row.points, row.left_out, row.looked_at, row.next_at
    )


def _said(row: EventReader) -> str:
    count = len(row.files)
    text = ngettext(
        "{n} TensorBoard event file in {folder}: {points} points that the log does not tell.",
        "{n} TensorBoard event files in {folder}: {points} points that the log does not tell.",
        count,
    )
    if not count:
        match row.state:
            case Harvest.DONE:
                text = gettext("The job left no TensorBoard event files in {folder}.")
            case Harvest.FAILED:
                text = gettext("Whether there are TensorBoard event files in {folder} is not known.")
            case _ if row.looked_at is None:
                text = gettext("TensorBoard event files in {folder} are looked for a minute after the job began.")
            case _:
                text = gettext("No TensorBoard event files in {folder} yet.")
    return text.format(n=count, folder=CHECKPOINTS, points=f"{row.points:,}")


def _problem(row: EventReader) -> str:
    if not row.reason:
        return ""
    sentence = str(REASONS.get(row.reason, REASONS["events.waits-cluster"]))
    told = sentence.format_map({"text": "", "code": "", "claim": ""} | row.reason_params)
    return f"{told} {GIVEN_UP}" if row.broken and row.state is Harvest.FAILED else told
