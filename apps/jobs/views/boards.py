"""A job's TensorBoard: asked for, entered, ended; and the door behind the gateway that lets browsers in."""

from __future__ import annotations

from csp.decorators import csp_update
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.scoping import public
from apps.clusters.services import Verdict
from apps.jobs import services
from apps.jobs.domain.boards import Stage
from apps.jobs.services import boards
from apps.jobs.services.board_words import NONE, board_view
from apps.jobs.views.detail import job_of


@require_POST
def board_open(request: HttpRequest, job_id: str) -> HttpResponse:
    """Ask for one; a script gets the part of the page back, others the page."""
    job = job_of(request, job_id)
    try:
        boards.open_board(request.actor, job=job)
    except boards.NoBoards as none:
        messages.warning(request, str(NONE[none.code]))
    return _back(request, job)


@require_POST
def board_end(request: HttpRequest, job_id: str) -> HttpResponse:
    job = job_of(request, job_id)
    boards.end_board(request.actor, job=job)
    return _back(request, job)


@require_GET
def board_enter(request: HttpRequest, job_id: str) -> HttpResponse:
    """To the one that is ready, with a pass; else back to the job."""
    job = job_of(request, job_id)
    board = boards.board_of(job)
    if board is None or board.stage is not Stage.READY:
        messages.warning(request, _("No TensorBoard of this job is ready."))
        return redirect("jobs:detail", job.pk)
    answer = HttpResponseRedirect(boards.address(request.session.session_key or "", board))
    answer["Referrer-Policy"] = "no-referrer"
    return answer


@public
@require_GET
@csp_update({"style-src": [settings.BASE_URL]})
def gateway_enter(request: HttpRequest) -> HttpResponse:
    """Reached through the gateway: a good pass becomes a cookie for this one TensorBoard, and the way leads on."""
    found = boards.admit(request.GET.get("pass", ""))
    if isinstance(found, Verdict):
        return HttpResponse(found.page(), status=found.code)
    board, cookie = found
    path = f"{boards.prefix_of(board)}/"
    answer = HttpResponseRedirect(f"{settings.GATEWAY_URL}{path}")
    answer.set_cookie(
        boards.cookie_name(board.pk),
        cookie,
        max_age=settings.TENSORBOARD_HOURS * 3600,
        path=path,
        secure=settings.GATEWAY_URL.startswith("https:"),
        httponly=True,
        samesite="Lax",
    )
    answer["Cache-Control"] = "no-store"
    return answer


def _back(request: HttpRequest, job: services.Job) -> HttpResponse:
    if request.htmx:
        context = {"job": job, "tensorboard": board_view(job), "may_control": services.may_control(request.actor, job)}
        return render(request, "jobs/board.html", context)
    return redirect("jobs:detail", job.pk)
