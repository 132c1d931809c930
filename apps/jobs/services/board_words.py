"""What pages and REST say of a job's TensorBoard."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.jobs.domain.boards import OVER, Stage
from apps.jobs.models import Board, Job
from apps.jobs.services.boards import board_of, why_none

STAGES: dict[Stage, Promise] = {
    Stage.ASKED: _("TensorBoard is asked for."),
    Stage.STARTING: _("TensorBoard is starting."),
    Stage.READY: _("TensorBoard is ready."),
    Stage.ENDED: _("TensorBoard has ended."),
    Stage.FAILED: _("TensorBoard could not be started."),
}
REASONS: dict[str, Promise] = {
    "board.waits-cluster": _("The cluster does not answer; this goes on when it is back."),
    "board.waits-secrets": _(
        "The secrets server does not answer, so the cluster cannot be asked; this goes on by itself."
    ),
    "board.waits-right": _(
        "The tenant's account in the cluster is missing or lacks a right. Restore the tenant's objects on its page."
    ),
    "board.pod-waits": _("Its pod is not running yet: {text}"),
    "board.pod-ended": _(
        "Its pod ended (exit code {code}). Open another one; if that ends too, tell a platform operator."
    ),
    "board.pod-gone": _("Its pod was deleted in the cluster. Open another one."),
    "board.late": _(
        "Its pod was not ready within ten minutes. {text} Open another one later, or tell a platform operator."
    ),
    "board.no-volume": _("The job's volume is not in the tenant's namespace any more, so there is nothing to show."),
    "board.one-at-a-time": _("The job's volume can be mounted on one node at a time: open it when the job has ended."),
    "board.name-taken": _("Something else in the cluster has the name of its pod. Open another one."),
    "board.refused": _("The cluster refused its pod: {text}"),
    "board.limit": _("Its time was over. Open another one if you need it."),
    "board.idle": _("Nobody had used it for an hour. Open another one if you need it."),
    "board.by": _("{name} ended it."),
    "board.leaving": _("The tenant is leaving the cluster."),
}
NONE: dict[str, Promise] = {
    "no-image": _("TensorBoard cannot be opened here: this installation has no image of it."),
    "no-gateway": _("TensorBoard cannot be opened here: this installation has no gateway."),
    "not-run": _("TensorBoard can be opened once the job has run."),
    "no-files": _("This job writes no TensorBoard event files."),
}


@dataclass(frozen=True)
class BoardView:
    """How a job's TensorBoard stands: `state` is a `Stage`, or "none"; `can_open` whether one may be asked for now."""

    state: str
    said: str
    reason: str
    can_open: bool
    board: Board | None = None


def board_view(job: Job) -> BoardView:
    code, board = why_none(job), board_of(job)
    if board is None:
        said = str(NONE[code]) if code in ("no-image", "no-gateway") else ""  # the others are no news
        return BoardView("none", said, "", not code)
    return BoardView(board.phase, str(STAGES[board.stage]), reason_text(board), not code and board.stage in OVER, board)


def reason_text(board: Board) -> str:
    if not board.reason:
        return ""
    return str(REASONS.get(board.reason, board.reason)).format_map(
        {"text": "", "code": "", "name": ""} | board.reason_params
    )


def reason_name(code: str) -> str:
    """A code in the audit log."""
    text = REASONS.get(code)
    return str(text).format_map({"text": "", "code": "", "name": ""}) if text else gettext("not known")
