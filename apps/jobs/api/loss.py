"""The loss watch by REST, and why a job failed: the same use-cases as on the page."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.jobs import services
from apps.jobs.models import Job
from apps.jobs.services import failing, losswatch
from apps.jobs.services.messages import PHASES
from apps.jobs.services.rest import Busy, errors_of
from apps.jobs.services.watched import told_plainly, watched


class CheckpointSerializer(serializers.Serializer[Any]):
    step = serializers.IntegerField()
    attempt = serializers.IntegerField()
    saved_at = serializers.DateTimeField()
    quarantined = serializers.BooleanField(help_text="Saved after the last good step: nothing goes on from it.")


class WatchSerializer(serializers.Serializer[Any]):
    state = serializers.CharField(help_text="ok, suspect or tripped")
    since = serializers.DateTimeField(allow_null=True)
    rule = serializers.CharField(help_text="Code of the rule; empty where nothing was found.")
    predicted = serializers.JSONField(
        allow_null=True,
        help_text="`tokens` a second that finished `jobs` alike predict; null: the run's own first speeds do.",
    )
    step = serializers.IntegerField(allow_null=True)
    found = serializers.CharField(help_text="What was found, in sentences.")
    done = serializers.ListField(child=serializers.CharField(), help_text="What was done when it tripped.")
    alerts = serializers.ListField(child=serializers.CharField(), help_text="What was noticed and is no divergence.")
    settings = serializers.DictField(help_text="The document's fields that begin with “watch”, as they hold now.")
    checkpoints = CheckpointSerializer(many=True, help_text="The newest first, as the log tells of them.")
    again = serializers.DictField(
        allow_null=True,
        help_text="Once it tripped, the document of the job from its last good checkpoint with a tenth of its learning"
        " rate, ready to be submitted.",
    )


class WatchView(GenericAPIView[Job]):
    serializer_class = WatchSerializer
    pagination_class = None

    @extend_schema(operation_id="get_watch", responses=WatchSerializer)
    def get(self, request: Request, pk: str) -> Response:
        """What the loss watch found in the job's log, what it did, and the checkpoints by its judgement."""
        return Response(_told(_job(request, pk)))

    @extend_schema(operation_id="set_watch", request=OpenApiTypes.OBJECT, responses=WatchSerializer)
    def patch(self, request: Request, pk: str) -> Response:
        """Change some of the settings from now on: `watch`, `watch_factor`, `watch_sigmas`, `watch_limit`, `watch_run`,
        `watch_actions`. 409 after the job's end."""
        if not isinstance(request.data, dict):
            raise exceptions.ValidationError({"document": [_("This must be an object.")]})
        job = _job(request, pk)
        try:
            losswatch.change_watch(_actor(request), job=job, typed=request.data)
        except services.InvalidDocument as invalid:
            raise exceptions.ValidationError(errors_of(invalid)) from invalid
        except services.NotNow as not_now:
            phase = PHASES[not_now.phase]
            raise Busy(_("The job is “{phase}”; this cannot be done now.").format(phase=phase)) from not_now
        return Response(_told(_job(request, pk)))


class DismissView(GenericAPIView[Job]):
    serializer_class = WatchSerializer
    pagination_class = None

    @extend_schema(operation_id="dismiss_watch", request=None, responses=WatchSerializer)
    def post(self, request: Request, pk: str) -> Response:
        """Call the verdict a false alarm: checkpoints leave quarantine, and the watch begins anew."""
        losswatch.dismiss(_actor(request), job=_job(request, pk))
        return Response(_told(_job(request, pk)))


class CauseSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Does not change with the reader's language.")
    xid = serializers.IntegerField(allow_null=True, help_text="The number of a GPU's error.")
    rank = serializers.IntegerField(allow_null=True, help_text="Where it was seen first.")
    node = serializers.CharField()
    line = serializers.CharField(help_text="The line that told it; empty where a rank's end did.")
    count = serializers.IntegerField()
    text = serializers.CharField(help_text="What happened.")
    advice = serializers.CharField(help_text="What to do.")


class CausesView(GenericAPIView[Job]):
    serializer_class = CauseSerializer
    pagination_class = None

    @extend_schema(operation_id="list_causes", responses=CauseSerializer(many=True))
    def get(self, request: Request, pk: str) -> Response:
        """What the end of a failed job is put down to, by its last log lines and its ranks' ends, the likeliest first;
        empty for a job that has not failed, or where nothing tells."""
        return Response(CauseSerializer(failing.told_plainly(failing.causes_of(_job(request, pk))), many=True).data)


def _told(job: Job) -> dict[str, Any]:
    told = watched(job)
    return {**told_plainly(told), "again": losswatch.again_document(job) if told.offers else None}


def _actor(request: Any) -> Actor:
    return cast("Actor", request.actor)


def _job(request: Request, pk: str) -> Job:
    visible = Job.objects.visible_to(_actor(request)).select_related("tenant", "placement__cluster", "loss_watch")
    return get_object_or_404(visible, pk=pk)
