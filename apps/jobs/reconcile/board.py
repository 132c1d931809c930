"""Wanted against seen: one look at the pod of a job's TensorBoard, one step."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.utils import timezone

from apps.adapters.errors import Refused, Unavailable
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.adapters.kubernetes.owned import ForeignObject, find
from apps.adapters.retrying import pause
from apps.clusters import services as clusters
from apps.clusters.services.connect import connect, connect_for
from apps.jobs.domain import manifests, sidepods
from apps.jobs.domain.boards import OVER, Stage, why_over
from apps.jobs.domain.sidepods import read_pod
from apps.jobs.models import Board
from apps.jobs.reconcile import beside
from apps.jobs.services import boards, reading
from apps.tenants import services as tenants

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(seconds=30)
SOON = timedelta(seconds=1)
STARTING_AGAIN = timedelta(seconds=3)
LONGEST = timedelta(seconds=10)


def reconcile_board(board: Board) -> timedelta | None:
    """Take one repeatable step; any worker may take it twice. Returns when to look again, None for never."""
    if not board.job.placement.is_standing:  # what is left there goes with the tenant's namespace
        if board.stage not in OVER:
            boards.note(board, Stage.ENDED, reason="board.leaving")
        return None
    try:
        again = _step(board)
        if board.failures:
            Board.objects.filter(pk=board.pk).update(failures=0)
        return again
    except Unavailable as error:
        return _wait(board, error, "board.waits-secrets" if error.system == "secrets" else "board.waits-cluster")
    except RightMissing as error:
        return _wait(board, error, "board.waits-right")
    except ForeignObject:
        boards.note(board, Stage.FAILED, reason="board.name-taken")
        return None
    except Refused as error:
        log.warning("board_refused", board=board.pk, error=error.text)
        if board.stage not in OVER:
            boards.note(board, Stage.FAILED, reason="board.refused", text=error.text[:300])
        return SOON if board.stage not in OVER else None


def _step(board: Board) -> timedelta | None:
    # What is there is seen with the portal's own account; what is done is done with that of the job's tenant.
    job = board.job
    eye = connect(job.placement.cluster)
    hand = connect_for(job.placement.cluster, tenants.account_of(job.tenant.slug))
    name = sidepods.board_name(board.pk)
    pod = find(eye, objects.path(objects.POD, job.placement.namespace, name), (manifests.BOARD_LABEL, board.pk))
    if board.stage in OVER:
        again = clusters.refresh_gateway() if settings.GATEWAY_DIR else False  # nobody is sent there any more
        if pod is not None:
            beside.take_away(hand, pod)
            return SOON
        return LOOK_AGAIN if again else None
    if pod is None:
        return _send(hand, board) if board.stage is Stage.ASKED else _end(board, Stage.FAILED, "board.pod-gone")
    return _judge(board, pod)


def _send(hand: KubeApi, board: Board) -> timedelta | None:
    job = board.job
    if code := beside.why_unreadable(hand, job):
        return _end(board, Stage.FAILED, f"board.{code}")
    place = reading.place(job.placement)
    seconds = max(60, int((board.until - timezone.now()).total_seconds()) + 600)
    prefix = boards.prefix_of(board)
    pod = sidepods.board_pod(board.pk, job.pk, place, settings.TENSORBOARD_IMAGE, prefix, seconds)
    hand.apply(objects.object_path(pod), pod)
    boards.note(board, Stage.STARTING)
    return STARTING_AGAIN


def _judge(board: Board, pod: objects.Object) -> timedelta | None:
    seen = read_pod(pod)
    if seen.has_ended:
        return _end(board, Stage.FAILED, "board.pod-ended", code=seen.exit_code)
    if board.used_at is not None and (code := why_over(timezone.now(), board.used_at, board.until)):
        return _end(board, Stage.ENDED, code)
    if seen.ready and seen.ip:
        if boards.note(board, Stage.READY, ip=seen.ip):
            clusters.refresh_gateway()  # at every look: an earlier try may have failed
        return LOOK_AGAIN
    if board.stage is Stage.READY:
        return STARTING_AGAIN  # busy for a moment: its clients are told to try again
    if boards.is_late(board):
        return _end(board, Stage.FAILED, "board.late", text=seen.waiting)
    boards.note(board, Stage.STARTING, reason="board.pod-waits" if seen.waiting else "", **_text(seen.waiting))
    return STARTING_AGAIN


def _text(text: str) -> dict[str, Any]:
    return {"text": text} if text else {}


def _end(board: Board, stage: Stage, reason: str, **params: Any) -> timedelta:
    """End it with a reason; its pod is taken away by the next step."""
    boards.note(board, stage, reason=reason, **params)
    return timedelta(0)


def _wait(board: Board, error: Unavailable | RightMissing, code: str) -> timedelta:
    """Keep it, say what it waits for, and try again: soon at first, at most LONGEST apart."""
    failures = board.failures + 1
    Board.objects.filter(pk=board.pk).update(failures=failures)
    log.warning("board_waits", board=board.pk, error=error.text, failures=failures)
    if board.stage in (Stage.ASKED, Stage.STARTING):
        if boards.is_late(board):
            return _end(board, Stage.FAILED, code)
        boards.note(board, board.stage, reason=code)
    return pause(error, failures, LONGEST)
