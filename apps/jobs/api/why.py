"""Why a job waits, by REST: the same arithmetic as on its page."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.jobs import services
from apps.jobs.models import Job
from apps.jobs.services.why import told_plainly


class LineSerializer(serializers.Serializer[Any]):
    resource = serializers.CharField()
    asked = serializers.IntegerField(help_text="Of cpu in thousandths of a core, of memory in bytes.")
    deserved = serializers.IntegerField(allow_null=True)
    limit = serializers.IntegerField(
        allow_null=True, help_text="The most that may be had; null where nothing limits it."
    )
    used = serializers.IntegerField()
    promised = serializers.IntegerField(help_text="Kept for jobs that were let in and have no nodes yet.")
    free = serializers.IntegerField(allow_null=True)
    short = serializers.IntegerField(help_text="How much more must come free.")


class AccountSerializer(serializers.Serializer[Any]):
    queue = serializers.CharField()
    state = serializers.CharField()
    lines = LineSerializer(many=True)


class HolderSerializer(serializers.Serializer[Any]):
    job = serializers.CharField()
    name = serializers.CharField()
    gpus = serializers.IntegerField()
    placed = serializers.BooleanField(help_text="False: let in before, and without nodes yet.")


class WhySerializer(serializers.Serializer[Any]):
    waiting = serializers.BooleanField(help_text="False: the job waits for nothing in its cluster; the rest is empty.")
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Sentences, the worst first.")
    codes = serializers.ListField(child=serializers.CharField(), help_text="The same as codes that do not change.")
    releases = serializers.ListField(child=serializers.CharField(), help_text="What would let it start.")
    queues = AccountSerializer(many=True, help_text="Its queue and those above it.")
    nodes = LineSerializer(allow_null=True, help_text="The accelerators of nodes that take work.")
    unusable = serializers.IntegerField(help_text="Accelerators on nodes that take no work now.")
    ranks = serializers.IntegerField()
    ranks_with_room = serializers.IntegerField()
    holders = HolderSerializer(many=True, help_text="Jobs of the tenant that hold what it could have.")
    others = serializers.IntegerField(help_text="Accelerators that other work holds.")
    told = serializers.CharField(help_text="The scheduler's own words.")


class WhyView(GenericAPIView[Job]):
    serializer_class = WhySerializer
    pagination_class = None

    @extend_schema(operation_id="why_job", responses=WhySerializer)
    def get(self, request: Request, pk: str) -> Response:
        """Why a job has no place yet: what is in the way, by resource, and what would release it."""
        actor = cast("Actor", request.actor)  # type: ignore[attr-defined]
        visible = Job.objects.visible_to(actor).select_related("tenant", "placement__tenant", "placement__cluster")
        return Response(told_plainly(services.why(actor, get_object_or_404(visible, pk=pk))))
