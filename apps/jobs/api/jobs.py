"""Training jobs by REST: the same use-cases as the pages."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.services import rest
from apps.accounts.types import Actor
from apps.catalog import services as catalog
from apps.catalog.services.registering import KEY_LIMIT
from apps.clusters import services as clusters
from apps.jobs import services
from apps.jobs.models import Job, JobRank
from apps.jobs.services import holding, loss_words
from apps.jobs.services.messages import PHASES
from apps.jobs.services.network import slow_network
from apps.jobs.services.registering import register_model
from apps.jobs.services.rest import Busy, errors_of
from apps.quotas import services as quotas
from apps.streams import services as streams


class RankSerializer(serializers.ModelSerializer[JobRank]):
    class Meta:
        model = JobRank
        fields = (
            "attempt", "rank", "pod_name", "node", "phase", "waiting", "exit_code", "end_reason", "started_at",
            "ended_at",
        )  # fmt: skip


class JobSerializer(serializers.ModelSerializer[Job]):
    tenant = serializers.CharField(source="tenant.slug")
    owner = serializers.CharField(source="owner_id")
    reason = serializers.SerializerMethodField()
    silent_since = serializers.DateTimeField(
        read_only=True,
        allow_null=True,
        help_text="Since when its cluster does not answer: the rest is as it was last seen. Null while it does.",
    )

    class Meta:
        model = Job
        fields = (
            "id", "name", "tenant", "owner", "phase", "reason", "silent_since", "attempt", "gpus", "document",
            "created_at", "running_at", "ended_at",
        )  # fmt: skip

    def get_reason(self, job: Job) -> str:
        return services.reason_text(job.reason, job.reason_params) if job.reason else ""


class OneJobSerializer(JobSerializer):
    slow_network = serializers.SerializerMethodField(
        help_text="nccl_sockets: NCCL sends between nodes without RDMA; nccl_staged: without GPUDirect; null: neither."
    )

    class Meta(JobSerializer.Meta):
        fields = (*JobSerializer.Meta.fields, "slow_network")  # type: ignore[assignment]

    def get_slow_network(self, job: Job) -> str | None:
        return slow_network(job)


class SubmitSerializer(serializers.Serializer[Any]):
    tenant = serializers.SlugField(help_text="The tenant's slug.")
    document = serializers.DictField(help_text="The portable job document: template, name, sizes and parameters.")


class JobsView(GenericAPIView[Job]):
    serializer_class = JobSerializer

    def get_queryset(self) -> Any:
        return Job.objects.visible_to(_actor(self.request)).select_related("tenant", "placement__cluster")

    @extend_schema(operation_id="list_jobs", responses=JobSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The jobs this person may see, newest first."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(JobSerializer(page, many=True).data)

    @extend_schema(
        operation_id="submit_job",
        request=SubmitSerializer,
        responses={202: JobSerializer},
        parameters=[rest.IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Submit a job. 202: it is kept and will be taken to the cluster. The same Idempotency-Key and body again
        answers with the same job."""
        form = SubmitSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        actor = _actor(request)
        tenant = rest.tenant_named(actor, form.validated_data["tenant"])
        key = rest.idempotency_key(request)
        try:
            job = services.submit(actor, tenant_id=tenant.pk, document=form.validated_data["document"], key=key)
        except services.InvalidDocument as invalid:
            raise exceptions.ValidationError(errors_of(invalid)) from invalid
        except services.KeyReused as reused:
            raise rest.KeyReused from reused
        location = {"Location": f"/api/v1/jobs/{job.pk}"}
        return Response(JobSerializer(job).data, status=status.HTTP_202_ACCEPTED, headers=location)


class JobView(GenericAPIView[Job]):
    serializer_class = OneJobSerializer

    @extend_schema(operation_id="get_job")
    def get(self, request: Request, pk: str) -> Response:
        """One job."""
        return Response(OneJobSerializer(_job(request, pk)).data)


class RanksView(GenericAPIView[JobRank]):
    serializer_class = RankSerializer
    pagination_class = None

    @extend_schema(operation_id="list_ranks", responses=RankSerializer(many=True))
    def get(self, request: Request, pk: str) -> Response:
        """The ranks of every attempt, as last seen."""
        job = _job(request, pk)
        ranks = JobRank.objects.filter(job=job).order_by("attempt", "rank")
        return Response(RankSerializer(ranks, many=True).data)


class ControlView(GenericAPIView[Job]):
    """POST …/stop, …/suspend and …/resume."""

    serializer_class = JobSerializer
    act: Any = None

    @extend_schema(request=None, responses={202: JobSerializer})
    def post(self, request: Request, pk: str) -> Response:
        """Ask for it; 202 says it was noted, the job's phase says when it is so. 409: not in this phase."""
        job = _job(request, pk)
        try:
            type(self).act(_actor(request), job=job)
        except services.NotNow as not_now:
            phase = PHASES[not_now.phase]
            raise Busy(_("The job is “{phase}”; this cannot be done now.").format(phase=phase)) from not_now
        except services.Quarantined as spoilt:
            raise Busy(loss_words.QUARANTINED) from spoilt
        except quotas.NoRoom as none:
            raise Busy(services.problem_text(holding.problem(job, none))) from none
        except clusters.Closed as closed:
            raise Busy(closed.text) from closed
        job.refresh_from_db()
        return Response(JobSerializer(job).data, status=status.HTTP_202_ACCEPTED)


class StopView(ControlView):
    act = services.stop


class SuspendView(ControlView):
    act = services.suspend


class ResumeView(ControlView):
    act = services.resume


class RegisterSerializer(serializers.Serializer[Any]):
    model_id = serializers.CharField(required=False, default="", help_text="For the next version of this model.")
    name = serializers.CharField(required=False, default="")
    licence = serializers.CharField(required=False, default="")
    visibility = serializers.CharField(required=False, default="tenant", help_text="tenant or public")
    card = serializers.CharField(required=False, default="", allow_blank=True, trim_whitespace=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    note = serializers.CharField(required=False, default="", allow_blank=True)


class RegisteredSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    model = serializers.CharField(source="model_id")
    number = serializers.IntegerField()


class RegisterView(GenericAPIView[Job]):
    serializer_class = RegisterSerializer

    @extend_schema(
        operation_id="register_model", request=RegisterSerializer, responses={202: RegisteredSerializer},
        parameters=[rest.IDEMPOTENCY_KEY],
    )  # fmt: skip
    def post(self, request: Request, pk: str) -> Response:
        """Register the job's newest good checkpoint as a model's version. 202: its files are brought in the background.
        The same Idempotency-Key answers with the same version."""
        job = _job(request, pk)
        form = RegisterSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        key = rest.idempotency_key(request)
        if len(key) > KEY_LIMIT:
            key = hashlib.sha256(key.encode()).hexdigest()
        try:
            version = register_model(_actor(request), job=job, said=form.validated_data, key=key)
        except catalog.Invalid as invalid:
            texts: dict[str, list[str]] = {}
            for fault in invalid.faults:
                texts.setdefault(fault.field, []).append(catalog.fault_text(fault))
            raise exceptions.ValidationError(texts) from invalid
        location = {"Location": f"/api/v1/models/{version.model_id}/versions/{version.number}"}
        return Response(RegisteredSerializer(version).data, status=status.HTTP_202_ACCEPTED, headers=location)


class ManifestsView(GenericAPIView[Job]):
    @extend_schema(operation_id="get_manifests", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, pk: str) -> Response:
        """Exactly what the cluster was sent."""
        return Response({"manifests": services.manifests_of(_job(request, pk))})


class LogView(GenericAPIView[Job]):
    @extend_schema(operation_id="get_log", responses=OpenApiTypes.OBJECT, parameters=streams.PAGE_PARAMETERS)
    def get(self, request: Request, pk: str) -> HttpResponse:
        """Lines of the merged log by number, the newest first page. A filter is searched for within a bounded time;
        `searched` says how far it came, and its `from` goes on as `before`. 503: it cannot be read now."""
        return streams.rest_page(request, _job(request, pk).topic)


class LogTextView(GenericAPIView[Job]):
    @extend_schema(
        operation_id="get_log_text",
        responses={(200, "text/plain"): OpenApiTypes.BINARY},
        parameters=streams.TEXT_PARAMETERS,
    )
    def get(self, request: Request, pk: str) -> StreamingHttpResponse:
        """The merged log as a text, all of it or lines `from` to `to`, streamed."""
        job = _job(request, pk)
        return streams.rest_text(request, job.topic, job.pk)


def _actor(request: Any) -> Actor:
    return cast("Actor", request.actor)


def _job(request: Request, pk: str) -> Job:
    return get_object_or_404(
        Job.objects.visible_to(_actor(request)).select_related("tenant", "placement__tenant", "placement__cluster"),
        pk=pk,
    )
