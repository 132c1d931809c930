"""The readers of logs by REST: the same use-cases as the pages."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor, Permission
from apps.jobs.domain.traininglog.readers import LONGEST, BadPattern
from apps.jobs.models import LogPattern
from apps.jobs.services import readers as services
from apps.streams import services as streams


class ReaderSerializer(serializers.ModelSerializer[LogPattern]):
    class Meta:
        model = LogPattern
        fields = ("id", "name", "pattern", "is_on", "changed_at")
        read_only_fields = ("changed_at",)
        extra_kwargs = {"name": {"validators": []}, "pattern": {"trim_whitespace": False}}


class TrySerializer(serializers.Serializer[Any]):
    lines = serializers.CharField(max_length=services.MOST_TRIED, trim_whitespace=False)
    pattern = serializers.CharField(
        required=False, max_length=LONGEST, trim_whitespace=False, help_text="Else: all readers that are on."
    )


class ReadersView(GenericAPIView[LogPattern]):
    serializer_class = ReaderSerializer
    pagination_class = None

    @extend_schema(operation_id="list_log_readers", responses=ReaderSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The readers that operators added, by name."""
        _actor(request).require(Permission.LOG_READERS_VIEW, target="log-readers")
        return Response(ReaderSerializer(LogPattern.objects.select_related("changed_by"), many=True).data)

    @extend_schema(operation_id="add_log_reader", responses={201: ReaderSerializer})
    def post(self, request: Request) -> Response:
        """Add a reader. Followed logs are read by it within seconds."""
        return Response(ReaderSerializer(_save(request, None)).data, status=status.HTTP_201_CREATED)


class ReaderView(GenericAPIView[LogPattern]):
    serializer_class = ReaderSerializer
    pagination_class = None

    @extend_schema(operation_id="change_log_reader", responses=ReaderSerializer)
    def put(self, request: Request, pk: int) -> Response:
        """Change a reader."""
        _actor(request).require(Permission.LOG_READERS_MANAGE, target="log-readers")
        return Response(ReaderSerializer(_save(request, get_object_or_404(LogPattern, pk=pk))).data)

    @extend_schema(operation_id="remove_log_reader", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Remove a reader; the points it has read stay."""
        _actor(request).require(Permission.LOG_READERS_MANAGE, target="log-readers")
        services.remove_reader(_actor(request), known=get_object_or_404(LogPattern, pk=pk))
        return Response(status=status.HTTP_204_NO_CONTENT)


class TryView(GenericAPIView[LogPattern]):
    serializer_class = TrySerializer
    pagination_class = None

    @extend_schema(operation_id="try_log_readers", responses=OpenApiTypes.OBJECT)
    def post(self, request: Request) -> Response:
        """What is read of some lines; nothing is kept."""
        form = TrySerializer(data=request.data)
        form.is_valid(raise_exception=True)
        said = form.validated_data
        try:
            found = services.try_text(_actor(request), said["lines"], said.get("pattern"))
        except BadPattern as bad:
            raise _refused(bad) from bad
        rows = [
            {
                "line": one.text,
                "reader": one.reader or None,
                "step": one.told.step,
                "values": {name: streams.jsonable(value) for name, value in one.told.values.items()},
                "doubtful": one.doubtful,
            }
            for one in found
        ]
        return Response({"lines": rows, "read": sum(row["reader"] is not None for row in rows)})


def _save(request: Request, known: LogPattern | None) -> LogPattern:
    _actor(request).require(Permission.LOG_READERS_MANAGE, target="log-readers")
    form = ReaderSerializer(data=request.data)
    form.is_valid(raise_exception=True)
    said = form.validated_data
    try:
        return services.save_reader(
            _actor(request), name=said["name"], pattern=said["pattern"], is_on=said.get("is_on", True), known=known
        )
    except BadPattern as bad:
        raise _refused(bad) from bad


def _refused(bad: BadPattern) -> exceptions.ValidationError:
    text = " ".join(filter(None, (str(services.FAULTS[bad.why]), bad.detail)))
    return exceptions.ValidationError({"name" if bad.why in ("name", "too-many") else "pattern": [text]})


def _actor(request: Request) -> Actor:
    return cast("Actor", request.actor)  # type: ignore[attr-defined]
