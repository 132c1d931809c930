"""The points of a job's curves by REST: drawn, as a table, and sent by the job itself."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.jobs.models import Job
from apps.jobs.services.control import NotNow
from apps.jobs.services.curves import Series, as_csv, series_of
from apps.jobs.services.messages import PHASES
from apps.jobs.services.pushing import NoAttempt, Pushed, push_points
from apps.streams import services as streams

SERIES_NAME = r"^[A-Za-z][A-Za-z0-9_./-]{0,39}$"
FIELDS = ("id", "tenant", "owner", "name", "phase", "attempt")
"""What is needed of a job: to read its document takes as long as to draw its curve."""
MOST_POINTS = 1000
MOST_WIDTH = 10_000
MOST_VALUES = 20


class Ended(exceptions.APIException):
    """409: the job takes no points any more."""

    status_code = status.HTTP_409_CONFLICT


class ColumnsRenderer(BaseRenderer):
    """Bytes for a page's script; what went wrong is told as JSON all the same."""

    media_type = "application/octet-stream"
    format = "columns"
    charset = None
    render_style = "binary"

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> bytes:
        return json.dumps(data, default=str).encode()


RANGE = [
    OpenApiParameter("from", OpenApiTypes.INT, description="The first step; else where the curve begins."),
    OpenApiParameter("to", OpenApiTypes.INT, description="The last step, included; else where the curve ends."),
]


@extend_schema_field({"oneOf": [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]})
class ValueField(serializers.Field[float, Any, Any, Any]):
    """A number, or "NaN", "Infinity", "-Infinity", which JSON cannot say otherwise."""

    def to_internal_value(self, data: Any) -> float:
        if data in ("NaN", "Infinity", "-Infinity"):
            return float(data)
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise serializers.ValidationError(_("Give a number, or NaN, Infinity or -Infinity as text."))
        try:
            return float(data)
        except OverflowError:
            return math.copysign(math.inf, data)

    def to_representation(self, value: float) -> Any:
        return streams.jsonable(value)


class PushedPointSerializer(serializers.Serializer[Any]):
    step = serializers.IntegerField(min_value=0, max_value=streams.STEP_LIMIT)
    at = serializers.DateTimeField(required=False, allow_null=True, default=None, help_text="Else: now.")
    values = serializers.DictField(
        child=ValueField(), allow_empty=False, help_text='By series, such as {"loss": 2.31, "learning_rate": 0.0003}.'
    )

    def validate_values(self, values: dict[str, float]) -> dict[str, float]:
        if len(values) > MOST_VALUES:
            raise serializers.ValidationError(_("At most {maximum} series at once.").format(maximum=MOST_VALUES))
        name = serializers.RegexField(SERIES_NAME)
        for series in values:
            name.run_validation(series)
        return values


class PushSerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=1)
    points = PushedPointSerializer(many=True, allow_empty=False)

    def validate_points(self, points: list[Any]) -> list[Any]:
        if len(points) > MOST_POINTS:
            raise serializers.ValidationError(_("At most {maximum} points at once.").format(maximum=MOST_POINTS))
        return points


class PointsView(GenericAPIView[Job]):
    renderer_classes = [JSONRenderer, ColumnsRenderer]
    serializer_class = PushSerializer
    pagination_class = None

    @extend_schema(
        operation_id="get_points",
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, ColumnsRenderer.media_type): OpenApiTypes.BINARY,
        },
        parameters=[
            OpenApiParameter("series", str, description="Such as loss; /series tells which there are."),
            *RANGE,
            OpenApiParameter("width", int, description="In how many columns: pixels."),
        ],
    )
    def get(self, request: Request, pk: str) -> HttpResponseBase:
        """A stretch of a series, by attempt: of each pixel's column the first, the last, the lowest and the highest
        point, and the first of each value that is no number."""
        job = _job(request, pk)
        name, stretch = _stretch(request)
        if request.accepted_renderer.format == ColumnsRenderer.format:
            return HttpResponse(streams.packed(job.topic, name, stretch), content_type=ColumnsRenderer.media_type)
        return Response({"attempts": streams.series(job.topic, name, stretch)})

    @extend_schema(operation_id="push_points", request=PushSerializer, responses=OpenApiTypes.OBJECT)
    def post(self, request: Request, pk: str) -> Response:
        """Send points of a job that prints none. The same again changes nothing; a step keeps its first value, but one
        read from the log takes its place. The loss watch leaves these points out."""
        job = _job(request, pk)
        form = PushSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        said = form.validated_data
        points = [
            Pushed(series, point["step"], value, point["at"])
            for point in said["points"]
            for series, value in point["values"].items()
        ]
        try:
            stored = push_points(_actor(request), job=job, points=points, attempt=said["attempt"])
        except NoAttempt as none:
            raise exceptions.ValidationError({"attempt": [_("The job has had no such attempt.")]}) from none
        except NotNow as over:
            raise Ended(_("The job is “{phase}”; this cannot be done now.").format(phase=PHASES[over.phase])) from over
        return Response({"stored": stored, "known": len(points) - stored})


class SeriesSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    unit = serializers.CharField()
    attempts = serializers.ListField(child=serializers.IntegerField())
    points = serializers.IntegerField()
    origins = serializers.SerializerMethodField(help_text="Where its points come from.")

    @extend_schema_field({"type": "array", "items": {"type": "string", "enum": [one.word for one in streams.Origin]}})
    def get_origins(self, series: Series) -> list[str]:
        return [origin.word for origin in series.origins]

    source = serializers.CharField(help_text="The same in words; empty for the log alone.")  # type: ignore[assignment]


class SeriesView(GenericAPIView[Job]):
    serializer_class = SeriesSerializer
    pagination_class = None

    @extend_schema(operation_id="list_series", responses=SeriesSerializer(many=True))
    def get(self, request: Request, pk: str) -> Response:
        """The series a job has points of."""
        return Response(SeriesSerializer(series_of(_job(request, pk)), many=True).data)


class TableView(GenericAPIView[Job]):
    serializer_class = SeriesSerializer
    pagination_class = None

    @extend_schema(
        operation_id="get_points_table",
        responses={(200, "text/csv"): OpenApiTypes.BINARY},
        parameters=[OpenApiParameter("series", str, many=True, description="Else: all."), *RANGE],
    )
    def get(self, request: Request, pk: str) -> StreamingHttpResponse:
        """Every point as CSV: series, attempt, step, value, time, origin."""
        job = _job(request, pk)
        _name, stretch = _stretch(request)
        stop = streams.STEP_LIMIT if stretch.stop is None else stretch.stop
        told = streams.told(job.topic, request.query_params.getlist("series"), stretch.start or 0, stop)
        asynchronous = isinstance(request._request, ASGIRequest)
        pieces = as_csv(told)
        answer = StreamingHttpResponse(audit.pulled(pieces) if asynchronous else pieces, content_type="text/csv")
        answer["Content-Disposition"] = f'attachment; filename="points-{job.pk}.csv"'
        return answer


def _stretch(request: Request) -> tuple[str, streams.Stretch]:
    asked = request.query_params
    start = _whole(asked, "from", 0, streams.STEP_LIMIT)
    stop = _whole(asked, "to", 0, streams.STEP_LIMIT)
    width = _whole(asked, "width", 1, MOST_WIDTH)
    return asked.get("series", "loss")[:40], streams.Stretch(start, stop, 1000 if width is None else width)


def _whole(asked: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    """A whole number of the address, None where there is none. Raises ValidationError."""
    text = asked.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        said = _("Choose from {least} to {most}.").format(least=least, most=most)
        raise exceptions.ValidationError({name: [said]})
    return int(text)


def _actor(request: Request) -> Actor:
    return cast("Actor", request.actor)  # type: ignore[attr-defined]


def _job(request: Request, pk: str) -> Job:
    return get_object_or_404(Job.objects.visible_to(_actor(request)).only(*FIELDS), pk=pk)
