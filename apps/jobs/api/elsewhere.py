"""A job's lines in its cluster's Loki, by REST."""

from __future__ import annotations

from typing import Any, cast

from django.http import Http404, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.adapters.errors import OutsideError, Unavailable
from apps.jobs.models import Job
from apps.jobs.services import elsewhere
from apps.streams import services as streams

PARAMETERS = [
    OpenApiParameter("rank", OpenApiTypes.INT, many=True, description="Lines of these ranks; all without."),
    OpenApiParameter("since", OpenApiTypes.STR, description="ISO time, or ns since 1970."),
    OpenApiParameter("until", OpenApiTypes.STR, description="Lines before this moment; without, all up to now."),
    OpenApiParameter("q", OpenApiTypes.STR, description="Lines with this text in them, as it is written."),
]


class StoreAway(exceptions.APIException):
    """503: the Loki does not answer, or nobody has asked it yet."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    wait = 5


class StoreRefuses(exceptions.APIException):
    """502: the Loki does not let the portal read this."""

    status_code = status.HTTP_502_BAD_GATEWAY


class FoundSerializer(serializers.Serializer[Any]):
    at = serializers.IntegerField(help_text="Nanoseconds since 1970.")
    rank = serializers.IntegerField(allow_null=True)
    pod = serializers.CharField()
    level = serializers.CharField()
    step = serializers.IntegerField(allow_null=True)
    text = serializers.CharField()


class ElsewhereSerializer(serializers.Serializer[Any]):
    state = serializers.CharField(help_text="asked (come again), or read.")
    store = serializers.CharField(help_text="loki: these lines are not the portal's own and have no numbers.")
    lines = FoundSerializer(many=True)
    after = serializers.CharField(allow_null=True, help_text="What the next page is asked for with; null at the end.")
    own = serializers.IntegerField(help_text="Lines left out because the portal's own log has them.")
    unsure = serializers.BooleanField(help_text="Lines of the portal's own log may be among these.")
    cut = serializers.BooleanField(help_text="More lines have the last one's time than Loki gives.")


class ElsewhereView(GenericAPIView[Job]):
    serializer_class = ElsewhereSerializer
    pagination_class = None

    @extend_schema(
        operation_id="look_in_loki",
        parameters=[*PARAMETERS, OpenApiParameter("after", OpenApiTypes.STR, description="The page from here on.")],
        responses={200: ElsewhereSerializer, 202: ElsewhereSerializer},
    )
    def get(self, request: Request, pk: str) -> Response:
        """A page of the lines that the cluster's Loki has and the portal has not. 202: a worker asks it; send the same
        again in a second, with the same `until`. 404 where the cluster has no Loki, 503 while it does not answer, 502
        where it refuses."""
        job = _job(request, pk)
        try:
            answer = elsewhere.look(job, elsewhere.look_of(job, request.query_params))
        except streams.BadQuestion as bad:
            raise exceptions.ValidationError(dict(bad.errors)) from bad
        if error := elsewhere.failure(answer):
            raise _answer(error)
        told = elsewhere.to_json(answer)
        if answer.state == "asked":
            return Response(told, status=status.HTTP_202_ACCEPTED, headers={"Retry-After": "1"})
        return Response(told)


class ElsewhereTextView(GenericAPIView[Job]):
    @extend_schema(
        operation_id="get_loki_text", parameters=PARAMETERS, responses={(200, "text/plain"): OpenApiTypes.BINARY}
    )
    def get(self, request: Request, pk: str) -> StreamingHttpResponse:
        """The same lines as a text, all of them, streamed while they are read."""
        job = _job(request, pk)
        try:
            pieces = elsewhere.text(job, elsewhere.look_of(job, request.query_params))
        except streams.BadQuestion as bad:
            raise exceptions.ValidationError(dict(bad.errors)) from bad
        except OutsideError as error:
            raise _answer(error) from None
        return streams.text_file(request._request, pieces, f"{job.pk}-loki")


def _answer(error: OutsideError) -> exceptions.APIException:
    return StoreAway(error.text) if isinstance(error, Unavailable) else StoreRefuses(error.text)


def _job(request: Request, pk: str) -> Job:
    actor = cast("Actor", request.actor)  # type: ignore[attr-defined]
    job = get_object_or_404(Job.objects.visible_to(actor).select_related("placement"), pk=pk)
    if not elsewhere.has_store(job):
        raise Http404
    return job
