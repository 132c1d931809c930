"""TensorBoard event files by REST."""

from __future__ import annotations

from typing import IO, Any, cast

from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.jobs.domain.eventfiles import MOST_BYTES, NoEventFile
from apps.jobs.models import Job
from apps.jobs.services.control import require_control
from apps.jobs.services.eventfiles import read_events
from apps.jobs.services.harvest_words import EventFiles, event_files_of
from apps.jobs.services.pushing import NoAttempt


class TooLarge(exceptions.APIException):
    """413: the file is larger than is read."""

    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE


class FileParser(BaseParser):
    """The body as it is, up to a byte more than is read."""

    media_type = "application/octet-stream"

    def parse(self, stream: IO[bytes], media_type: Any = None, parser_context: Any = None) -> Any:
        return stream.read(MOST_BYTES + 1)


class FileReadSerializer(serializers.Serializer[Any]):
    stored = serializers.IntegerField(help_text="Points that were new.")
    known = serializers.IntegerField(help_text="Points of steps that were known.")
    series = serializers.ListField(child=serializers.CharField())
    cut = serializers.BooleanField(help_text="The file did not end with a whole record; what came before was read.")
    left_out = serializers.IntegerField(help_text="Scalars of series beyond the first hundred.")


class EventFilesSerializer(serializers.Serializer[Any]):
    state = serializers.CharField(help_text="none, off, waiting, reading, done or failed.")
    said = serializers.CharField(help_text="The same in words.")
    problem = serializers.CharField(help_text="What is in the way, in words; empty for nothing.")
    files = serializers.IntegerField()
    points = serializers.IntegerField(help_text="Points that were new when they came.")
    left_out = serializers.IntegerField(help_text="Scalars that have no curve here.")
    looked_at = serializers.DateTimeField(allow_null=True)
    next_at = serializers.DateTimeField(allow_null=True)


class EventsView(GenericAPIView[Job]):
    serializer_class = FileReadSerializer
    pagination_class = None
    parser_classes = [FileParser]

    @extend_schema(operation_id="get_job_events", responses=EventFilesSerializer)
    def get(self, request: Request, pk: str) -> Response:
        """How the event files in the job's volume are read."""
        actor = cast("Actor", request.actor)  # type: ignore[attr-defined]
        job = get_object_or_404(Job.objects.visible_to(actor).select_related("event_reader"), pk=pk)
        found = event_files_of(job) or EventFiles("none", "")
        return Response(EventFilesSerializer(found).data)

    @extend_schema(
        operation_id="read_job_events",
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses=FileReadSerializer,
        parameters=[OpenApiParameter("attempt", int, description="Else: the newest.")],
    )
    def post(self, request: Request, pk: str) -> Response:
        """Read the scalars of a TensorBoard event file. A step keeps its value if it has one; what the log says goes
        before. The loss watch leaves these points out."""
        actor = cast("Actor", request.actor)  # type: ignore[attr-defined]
        job = get_object_or_404(Job.objects.visible_to(actor), pk=pk)
        require_control(actor, job)  # before what they sent is read
        text = request.query_params.get("attempt", "")
        if text and not (text.isascii() and text.isdigit() and len(text) < 10):
            raise exceptions.ValidationError({"attempt": [_("The job has had no such attempt.")]})
        data = request.data if isinstance(request.data, bytes) else b""
        if len(data) > MOST_BYTES:
            raise TooLarge(_("An event file may have at most {maximum} MiB.").format(maximum=MOST_BYTES >> 20))
        try:
            found = read_events(actor, job=job, data=data, attempt=int(text) if text else None)
        except NoEventFile:
            raise exceptions.ValidationError({"file": [_("This is no TensorBoard event file.")]}) from None
        except NoAttempt:
            raise exceptions.ValidationError({"attempt": [_("The job has had no such attempt.")]}) from None
        return Response(FileReadSerializer(found).data)
