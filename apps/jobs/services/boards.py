"""TensorBoard on demand: asked for and ended by people, used through the gateway by whoever may see the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core import signing
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext_lazy as _

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.adapters.gateway import Backend, Endpoint, Route
from apps.audit import services as audit
from apps.clusters.services import Verdict
from apps.jobs.domain import sidepods
from apps.jobs.domain.boards import OVER, STARTING, Stage
from apps.jobs.domain.templates import may_write_events
from apps.jobs.models import Board, Job
from apps.jobs.services.control import require_control
from apps.streams.services import hint

TASK = "jobs.reconcile_board"
MARK = "board-"
"""With it the ids of their routes begin."""
PASS_SECONDS = 60
USED_AGAIN = timedelta(minutes=1)
"""When one was last used is written at most this often."""
_PASS, _COOKIE = "jobs.board.pass", "jobs.board.cookie"

BOARD_OPENED = audit.action(
    "job.board-opened", _("{actor} opened a TensorBoard of the job {name}"), name=_("Open a TensorBoard")
)
BOARD_ENDED = audit.action(
    "job.board-ended", _("{actor} ended the TensorBoard of the job {name}"), name=_("End a TensorBoard")
)
BOARD_OVER = audit.action(
    "job.board-over", _("The TensorBoard of the job {name} has ended: {reason}"), name=_("A TensorBoard ends")
)
SYSTEM = Actor.system("reconcile")

# What a browser is told that is not let in.
OPEN_IT = _("Open this TensorBoard from the job's page in the portal.")
NOT_YET = _("The gateway does not lead to this TensorBoard yet. This page tries again by itself.")
OVER_NOW = _("This TensorBoard has ended. Open another one from the job's page in the portal.")
NOT_THERE = _("This TensorBoard has ended, or you may not see its job any more.")
SIGNED_OUT = _(
    "The session of the portal in which you opened this TensorBoard is over. Sign in and open it from the job's page."
)
LINK_OVER = _("This link is over. Open the TensorBoard from the job's page in the portal again.")
BAD_LINK = Verdict(403, _("This link is not whole. Open the TensorBoard from the job's page in the portal."))


class NoBoards(Exception):
    """None can be opened: `code` is "no-image" or "no-gateway" for what operators have not set up, "not-run" for a job
    that has not run yet, "no-files" for one that is known to write no event files."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Pass:
    """What a credential says: which board, the browser session in which it was given, and the language of its page."""

    board: str
    session: int
    language: str

    @property
    def said(self) -> dict[str, Any]:
        return {"b": self.board, "s": self.session, "l": self.language}


# --- what people do ---------------------------------------------------------------------------------------------------


def why_none(job: Job) -> str:
    """Why no TensorBoard can be opened for a job, as `NoBoards` has it; "" where one can."""
    if not may_write_events(job.document):
        return "no-files"
    if not settings.TENSORBOARD_IMAGE:
        return "no-image"
    if not (settings.GATEWAY_URL and settings.GATEWAY_DIR):
        return "no-gateway"
    return "" if job.running_at is not None or job.state.is_final else "not-run"


def board_of(job: Job) -> Board | None:
    """The job's newest."""
    return Board.objects.filter(job=job).select_related("asked_by", "job").order_by("-id").first()


def open_boards(actor: Actor) -> list[Board]:
    """Those that have not ended, of the jobs that the actor may see, the newest first."""
    rows = Board.objects.filter(job__in=Job.objects.visible_to(actor)).exclude(phase__in=OVER)
    return list(rows.select_related("job").order_by("-id"))


@audit.use_case(BOARD_OPENED)
def open_board(actor: Actor, *, job: Job) -> Board:
    """Ask for one; while there is one it stays. Raises Denied, NoBoards."""
    require_control(actor, job)
    if code := why_none(job):
        raise NoBoards(code)
    Job.objects.for_system().select_for_update().get(pk=job.pk)
    if there := Board.objects.filter(job=job).exclude(phase__in=OVER).first():
        return there
    until = timezone.now() + timedelta(hours=settings.TENSORBOARD_HOURS)
    board = Board.objects.create(job=job, asked_by_id=actor.user_pk, until=until)
    audit.record(BOARD_OPENED, actor, job.audit_id, tenant_id=job.tenant_id, name=job.name)
    hint(job.topic)
    wake(TASK, board.pk)
    return board


@audit.use_case(BOARD_ENDED)
def end_board(actor: Actor, *, job: Job) -> None:
    """End the one that is there; without one nothing changes. Raises Denied."""
    require_control(actor, job)
    rows = Board.objects.filter(job=job).exclude(phase__in=OVER)
    board = rows.first()
    if board and rows.filter(pk=board.pk).update(**_over(Stage.ENDED, "board.by", {"name": actor.name})):
        audit.record(BOARD_ENDED, actor, job.audit_id, tenant_id=job.tenant_id, name=job.name)
        hint(job.topic)
        wake(TASK, board.pk)


def _over(stage: Stage, reason: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "phase": stage,
        "reason": reason,
        "reason_params": dict(params),
        "ended_at": Now(),
        "due_at": Now(),
        "ip": "",
    }


# --- what background work notes ---------------------------------------------------------------------------------------


def note(board: Board, stage: Stage, *, ip: str = "", reason: str = "", **params: Any) -> bool:
    """Write where one that has not ended stands; False when somebody else was quicker."""
    values: dict[str, Any] = {"phase": stage, "reason": reason, "reason_params": params, "ip": ip}
    if stage in OVER:
        values = _over(stage, reason, params)
    elif stage is Stage.READY and board.ready_at is None:
        values |= {"ready_at": timezone.now(), "used_at": timezone.now()}
    same = (board.phase, board.reason, board.reason_params, board.ip) == (stage, reason, params, ip)
    if same or not Board.objects.filter(pk=board.pk, phase=board.phase).update(**values):
        return same
    if stage in OVER:
        job = board.job
        audit.record(BOARD_OVER, SYSTEM, job.audit_id, tenant_id=job.tenant_id, name=job.name, reason=reason)
    hint(board.job.topic)
    return True


def is_late(board: Board) -> bool:
    return timezone.now() - board.created_at > STARTING


# --- through the gateway ----------------------------------------------------------------------------------------------


def prefix_of(board: Board) -> str:
    """Its part of the gateway's paths, which is also what it is told to call itself."""
    return f"/{board.job.tenant.slug}/{sidepods.board_name(board.pk)}"


def routes() -> Iterable[Route]:
    """Every TensorBoard that is ready."""
    ready = Board.objects.filter(phase=Stage.READY).exclude(ip="").select_related("job__tenant")
    for board in ready:
        backend = Backend("pod", 1, (Endpoint(board.ip, sidepods.BOARD_PORT),))
        yield Route(sidepods.board_name(board.pk), prefix_of(board), (backend,), is_page=True)


def address(session_key: str, board: Board) -> str:
    """Where a browser enters, with a pass that is good for a minute while the session of the portal lasts."""
    told = Pass(board.pk, accounts.session_id(session_key) or 0, translation.get_language() or "")
    return f"{settings.GATEWAY_URL}{prefix_of(board)}/enter?pass={signing.dumps(told.said, salt=_PASS)}"


def cookie_name(board_id: str) -> str:
    return f"maas-{sidepods.board_name(board_id)}"


def admit(text: str) -> tuple[Board, str] | Verdict:
    """The board that a pass opens, with the cookie to keep for it; else what its holder is told."""
    told = _read(text, _PASS, PASS_SECONDS)
    if told is None:
        old = _read(text, _PASS, None)
        of = Board.objects.filter(pk=old.board).first() if old else None
        return Verdict(403, LINK_OVER, _page(of), old.language) if old else BAD_LINK
    found = _look(told)
    return found if isinstance(found, Verdict) else (found, signing.dumps(told.said, salt=_COOKIE))


def judge(route_id: str, cookies: Mapping[str, str] | None) -> Verdict | None:
    """Whether a request to a board may pass: its cookie is good, the session of the portal that it is from is still
    open, and its person may still see the job. None for what never was a board. `cookies` is None where the gateway has
    no route to it."""
    if cookies is None:
        return _without_route(route_id)
    told = _read(cookies.get(f"maas-{route_id}", ""), _COOKIE, settings.TENSORBOARD_HOURS * 3600)
    if told is None or sidepods.board_name(told.board) != route_id:
        return _without_cookie(route_id)
    found = _look(told)
    if isinstance(found, Verdict):
        return found
    again = Q(used_at=None) | Q(used_at__lt=timezone.now() - USED_AGAIN)
    Board.objects.filter(again, pk=found.pk).update(used_at=timezone.now())
    return Verdict(200)


def _without_route(route_id: str) -> Verdict | None:
    """The gateway hears of a route a moment after the portal knows that the board is ready."""
    board = _named(route_id)
    if board is not None and board.stage is Stage.READY:
        return Verdict(404, NOT_YET, _page(board), again=1)
    return _without_cookie(route_id)


def _without_cookie(route_id: str) -> Verdict | None:
    board = _named(route_id)
    if board is None:
        return None
    return Verdict(404, OVER_NOW, _page(board)) if board.stage in OVER else Verdict(401, OPEN_IT, _page(board))


def _named(route_id: str) -> Board | None:
    board_id = route_id.removeprefix(MARK).upper()
    return Board.objects.filter(pk=board_id).first() if board_id.isascii() and board_id.isalnum() else None


def _read(text: str, salt: str, seconds: int | None) -> Pass | None:
    try:
        told = signing.loads(text, salt=salt, max_age=seconds)
        return Pass(str(told["b"]), int(told["s"]), str(told["l"]))
    except (signing.BadSignature, KeyError, TypeError, ValueError):
        return None


def _look(told: Pass) -> Board | Verdict:
    """The board, where it is ready and the person may see its job; else what they are told."""
    board = Board.objects.filter(pk=told.board).select_related("job__tenant").first()
    back, actor = _page(board), accounts.actor_of_session(told.session)
    if actor is None:
        return Verdict(401, SIGNED_OUT, back, told.language)
    if board is None or board.stage is not Stage.READY or not actor.may(Permission.JOB_VIEW, board.job.tenant_id):
        return Verdict(404, NOT_THERE, back, told.language)
    return board


def _page(board: Board | None) -> str:
    return reverse("jobs:detail", args=[board.job_id]) if board else "/"
