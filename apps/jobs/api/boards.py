"""A job's TensorBoard by REST."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.jobs.domain.boards import Stage
from apps.jobs.models import Job
from apps.jobs.services import boards
from apps.jobs.services.board_words import NONE, board_view


class NotHere(exceptions.APIException):
    """409: none can be opened."""

    status_code = status.HTTP_409_CONFLICT


class BoardSerializer(serializers.Serializer[Any]):
    state = serializers.CharField(help_text="none, asked, starting, ready, ended or failed.")
    said = serializers.CharField()
    reason = serializers.CharField(help_text="Why it stands so and what to do, in words.")
    can_open = serializers.BooleanField(help_text="Whether one may be asked for now.")
    page = serializers.CharField(help_text="Where a browser that is signed in enters; empty until it is ready.")
    until = serializers.DateTimeField(allow_null=True, help_text="When it ends at the latest.")


class BoardView(GenericAPIView[Job]):
    serializer_class = BoardSerializer
    pagination_class = None

    @extend_schema(operation_id="get_job_board", responses=BoardSerializer)
    def get(self, request: Request, pk: str) -> Response:
        """How the job's TensorBoard stands."""
        return Response(_told(_job(request, pk)))

    @extend_schema(operation_id="open_job_board", request=None, responses={202: BoardSerializer})
    def post(self, request: Request, pk: str) -> Response:
        """Open a TensorBoard of the job's volume; while there is one it stays."""
        job = _job(request, pk)
        try:
            boards.open_board(_actor(request), job=job)
        except boards.NoBoards as none:
            raise NotHere(str(NONE[none.code])) from none
        return Response(_told(job), status=status.HTTP_202_ACCEPTED)

    @extend_schema(operation_id="end_job_board", responses={204: None})
    def delete(self, request: Request, pk: str) -> Response:
        """End it."""
        boards.end_board(_actor(request), job=_job(request, pk))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _told(job: Job) -> dict[str, Any]:
    view = board_view(job)
    ready = view.board is not None and view.board.stage is Stage.READY
    more = {
        "page": reverse("jobs:board-enter", args=[job.pk]) if ready else "",
        "until": view.board.until if view.board else None,
    }
    return dict(BoardSerializer({**vars(view), **more}).data)


def _actor(request: Request) -> Actor:
    return cast("Actor", request.actor)  # type: ignore[attr-defined]


def _job(request: Request, pk: str) -> Job:
    return get_object_or_404(Job.objects.visible_to(_actor(request)).select_related("tenant"), pk=pk)
