"""The accelerators of a job by REST."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.jobs.models import Job
from apps.jobs.services.gpus import gpus_of


class DeviceSerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField()
    pod = serializers.CharField()
    device = serializers.CharField(help_text="As its exporter calls it.")
    model = serializers.CharField()
    at = serializers.DateTimeField(help_text="When its exporter was last scraped.")
    use = serializers.FloatField(allow_null=True, help_text="Percent of the time.")
    memory = serializers.IntegerField(allow_null=True, help_text="Bytes in use.")
    memory_total = serializers.IntegerField(allow_null=True, help_text="Bytes.")
    temperature = serializers.FloatField(allow_null=True, help_text="°C.")
    power = serializers.FloatField(allow_null=True, help_text="W.")
    fault = serializers.IntegerField(allow_null=True, help_text="The vendor's code (Xid) of a fault since it began.")


class GpusSerializer(serializers.Serializer[Any]):
    devices = DeviceSerializer(many=True)
    why = serializers.CharField(help_text="Why there are none, in words.")


class GpusView(GenericAPIView[Job]):
    serializer_class = GpusSerializer
    pagination_class = None

    @extend_schema(operation_id="get_job_gpus", responses=GpusSerializer)
    def get(self, request: Request, pk: str) -> Response:
        """The accelerators of the newest attempt as the cluster's Prometheus last told of them."""
        actor = cast("Actor", request.actor)  # type: ignore[attr-defined]
        jobs = Job.objects.visible_to(actor).select_related("placement__cluster")
        return Response(GpusSerializer(gpus_of(get_object_or_404(jobs, pk=pk))).data)
