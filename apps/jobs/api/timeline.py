"""A job's time line by REST: the same moments as on its page."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.jobs.models import Job
from apps.jobs.services.incidents import BadPlace, moments_of
from apps.jobs.services.moments import LANES

USUAL, MOST = 50, 500


class MomentSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField(help_text="When it happened, or first happened.")
    until = serializers.DateTimeField(allow_null=True, help_text="When it last happened, where it did more than once.")
    count = serializers.IntegerField(help_text="How often, or to how many ranks.")
    lane = serializers.ChoiceField(choices=[(lane, lane) for lane in LANES])
    tone = serializers.ChoiceField(
        choices=[(tone, tone) for tone in ("red", "amber", "green", "blue", "violet", "grey", "ink")],
        help_text="red is bad, amber perhaps; ink is what somebody asked for.",
    )
    text = serializers.CharField(help_text="In words, in the language of the request.")
    raw = serializers.CharField(allow_blank=True, help_text="What the cluster itself said last, where it said more.")


class TimelineSerializer(serializers.Serializer[Any]):
    next = serializers.CharField(
        source="before", allow_null=True, help_text="What to send as `before` for older moments; null: there are none."
    )
    began = serializers.DateTimeField(allow_null=True, help_text="When the job was submitted.")
    ended = serializers.DateTimeField(allow_null=True)
    results = MomentSerializer(source="moments", many=True)


class TimelineView(GenericAPIView[Job]):
    serializer_class = TimelineSerializer
    pagination_class = None

    @extend_schema(
        operation_id="get_job_timeline",
        responses=TimelineSerializer,
        parameters=[
            OpenApiParameter("lane", OpenApiTypes.STR, enum=LANES, description="Only these; else all."),
            OpenApiParameter("before", OpenApiTypes.STR, description="`next` of the page before."),
            OpenApiParameter("limit", OpenApiTypes.INT, description=f"At most {MOST}; {USUAL} if nothing is said."),
        ],
    )
    def get(self, request: Request, pk: str) -> Response:
        """All that befell a job, newest first: phases, ranks, what the cluster said of its pods, what befell its nodes,
        checkpoints, the loss watch, and what people asked for."""
        actor = cast("Actor", request.actor)  # type: ignore[attr-defined]
        jobs = Job.objects.visible_to(actor).select_related("placement__cluster", "tenant", "loss_watch")
        job = get_object_or_404(jobs, pk=pk)
        query = request.query_params
        lane, limit = query.get("lane", ""), query.get("limit", "")
        if lane and lane not in LANES:
            raise exceptions.ValidationError({"lane": [_("There is no such lane.")]})
        if limit and not (limit.isascii() and limit.isdecimal() and len(limit) < 6 and 1 <= int(limit) <= MOST):
            raise exceptions.ValidationError({"limit": [_("Give a number from 1 to {most}.").format(most=MOST)]})
        try:
            page = moments_of(job, lane=lane, before=query.get("before", ""), limit=int(limit or USUAL))
        except BadPlace:
            raise exceptions.ValidationError({"before": [_("This is no place in a time line.")]}) from None
        answer = TimelineSerializer(page).data
        return Response({**answer, "next": answer["next"] or None})
