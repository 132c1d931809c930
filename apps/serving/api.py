"""Served models by REST: the same use-cases as the pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

from django.conf import settings
from django.http import HttpResponse
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
from apps.serving import services
from apps.serving.domain.fit import SHAPES
from apps.serving.models import Deployment, DeploymentKey, Replica
from apps.serving.services.keys import LEAST_RATE, MOST_RATE, USUAL_RATE
from apps.serving.services.messages import PHASES
from apps.streams import services as streams


class Busy(exceptions.APIException):
    """409: the deployment is in a phase in which this cannot be done."""

    status_code = status.HTTP_409_CONFLICT


class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    tenant = serializers.CharField(source="tenant.slug")
    owner = serializers.CharField(source="owner_id")
    version = serializers.CharField(source="version_id", allow_null=True)
    reason = serializers.SerializerMethodField()
    url = serializers.SerializerMethodField()

    class Meta:
        model = Deployment
        fields = (
            "id", "name", "tenant", "owner", "version", "model", "model_version", "engine", "shape", "replicas",
            "phase", "phase_at", "reason", "url", "created_at", "ready_at", "ended_at",
        )  # fmt: skip

    def get_reason(self, deployment: Deployment) -> str:
        return services.reason_text(deployment.reason, deployment.reason_params)

    def get_url(self, deployment: Deployment) -> str:
        """Where it answers to its keys by OpenAI's API; "" where the portal has no gateway."""
        return services.address_of(deployment, settings.GATEWAY_URL) if settings.GATEWAY_URL else ""


class DeployModelSerializer(serializers.Serializer[Any]):
    tenant = serializers.SlugField(help_text="The tenant's slug.")
    version = serializers.CharField(max_length=26, help_text="The id of a model's version.")
    name = serializers.CharField()
    shape = serializers.ChoiceField(choices=list(SHAPES), help_text="What one replica gets.")
    replicas = serializers.IntegerField(default=1)


class ScaleDeploymentSerializer(serializers.Serializer[Any]):
    replicas = serializers.IntegerField(min_value=0, help_text="0 stops it.")


class RemoveDeploymentSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The deployment's name, as a safeguard.")


class ReplicaSerializer(serializers.ModelSerializer[Replica]):
    class Meta:
        model = Replica
        fields = ("pod_name", "node", "stage", "stage_at", "ready", "reason", "restarts", "percent")


class DeploymentKeySerializer(serializers.ModelSerializer[DeploymentKey]):
    class Meta:
        model = DeploymentKey
        fields = ("id", "name", "prefix", "requests_per_minute", "created_at", "last_used_at")


class MakeDeploymentKeySerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    requests_per_minute = serializers.IntegerField(min_value=LEAST_RATE, max_value=MOST_RATE, default=USUAL_RATE)


class NewDeploymentKeySerializer(DeploymentKeySerializer):
    key = serializers.CharField(help_text="The key itself, told this once.")

    class Meta(DeploymentKeySerializer.Meta):
        fields = (*DeploymentKeySerializer.Meta.fields, "key")  # type: ignore[assignment]


class DeploymentsView(GenericAPIView[Deployment]):
    serializer_class = DeploymentSerializer

    def get_queryset(self) -> Any:
        visible = Deployment.objects.visible_to(_actor(self.request))
        return visible.select_related("tenant", "placement__tenant")

    @extend_schema(operation_id="list_deployments", responses=DeploymentSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The deployments this person may see, newest first, removed ones included."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(DeploymentSerializer(page, many=True).data)

    @extend_schema(
        operation_id="deploy",
        request=DeployModelSerializer,
        responses={202: DeploymentSerializer},
        parameters=[rest.IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Deploy a version. 202: it is kept, holds its quota, and will be taken to the cluster. The same
        Idempotency-Key and body again answers with the same deployment."""
        form = DeployModelSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        actor, sent = _actor(request), form.validated_data
        tenant = rest.tenant_named(actor, sent["tenant"])
        key = rest.idempotency_key(request, most=200)
        asked = services.Request(
            tenant.pk, sent["version"], sent["name"], sent["shape"], sent["replicas"], f"api:{key}" if key else ""
        )
        try:
            deployment = services.deploy(actor, request=asked)
        except services.InvalidRequest as invalid:
            raise exceptions.ValidationError(_errors(invalid)) from invalid
        except services.KeyReused as reused:
            raise rest.KeyReused from reused
        deployment = self.get_queryset().get(pk=deployment.pk)
        location = {"Location": f"/api/v1/deployments/{deployment.pk}"}
        return Response(DeploymentSerializer(deployment).data, status=status.HTTP_202_ACCEPTED, headers=location)


class DeploymentView(GenericAPIView[Deployment]):
    serializer_class = DeploymentSerializer

    @extend_schema(operation_id="get_deployment")
    def get(self, request: Request, pk: str) -> Response:
        """One deployment."""
        return Response(DeploymentSerializer(_deployment(request, pk)).data)


class ReplicasView(GenericAPIView[Replica]):
    serializer_class = ReplicaSerializer
    pagination_class = None

    @extend_schema(operation_id="list_replicas", responses=ReplicaSerializer(many=True))
    def get(self, request: Request, pk: str) -> Response:
        """Its pods as last seen."""
        return Response(ReplicaSerializer(services.replicas_of(_deployment(request, pk)), many=True).data)


class LogView(GenericAPIView[Deployment]):
    @extend_schema(operation_id="get_deployment_log", responses=OpenApiTypes.OBJECT, parameters=streams.PAGE_PARAMETERS)
    def get(self, request: Request, pk: str) -> HttpResponse:
        """Lines of its replicas' merged log by number, the newest first page."""
        return streams.rest_page(request, _deployment(request, pk).topic)


class ManifestsView(GenericAPIView[Deployment]):
    @extend_schema(operation_id="get_deployment_manifests", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, pk: str) -> Response:
        """Exactly what the cluster is sent, but for the Secret with which its pods fetch the model."""
        return Response({"manifests": services.manifests_of(_deployment(request, pk))})


class ActView(GenericAPIView[Deployment], ABC):
    """POST …/scale, …/stop, …/start and …/remove: 202 says it was noted, the phase says when it is so."""

    serializer_class = DeploymentSerializer

    @abstractmethod
    def act(self, actor: Actor, deployment: Deployment, request: Request) -> None: ...

    def answer(self, request: Request, pk: str) -> Response:
        deployment = _deployment(request, pk)
        try:
            self.act(_actor(request), deployment, request)
        except services.InvalidRequest as invalid:
            raise exceptions.ValidationError(_errors(invalid)) from invalid
        except services.NotNow as not_now:
            raise _busy(not_now) from not_now
        return Response(DeploymentSerializer(_deployment(request, pk)).data, status=status.HTTP_202_ACCEPTED)


class ScaleView(ActView):
    @extend_schema(
        operation_id="scale_deployment", request=ScaleDeploymentSerializer, responses={202: DeploymentSerializer}
    )
    def post(self, request: Request, pk: str) -> Response:
        """Run so many replicas, within the quota; 0 stops it."""
        return self.answer(request, pk)

    def act(self, actor: Actor, deployment: Deployment, request: Request) -> None:
        form = ScaleDeploymentSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        services.scale(actor, deployment=deployment, replicas=form.validated_data["replicas"])


class StopView(ActView):
    @extend_schema(operation_id="stop_deployment", request=None, responses={202: DeploymentSerializer})
    def post(self, request: Request, pk: str) -> Response:
        """Take it off its nodes; name, address and keys stay."""
        return self.answer(request, pk)

    def act(self, actor: Actor, deployment: Deployment, request: Request) -> None:
        services.stop(actor, deployment=deployment)


class StartView(ActView):
    @extend_schema(operation_id="start_deployment", request=None, responses={202: DeploymentSerializer})
    def post(self, request: Request, pk: str) -> Response:
        """Bring a stopped or failed one back."""
        return self.answer(request, pk)

    def act(self, actor: Actor, deployment: Deployment, request: Request) -> None:
        services.start(actor, deployment=deployment)


class RemoveView(ActView):
    @extend_schema(
        operation_id="remove_deployment", request=RemoveDeploymentSerializer, responses={202: DeploymentSerializer}
    )
    def post(self, request: Request, pk: str) -> Response:
        """Take it away for good, its keys at once."""
        return self.answer(request, pk)

    def act(self, actor: Actor, deployment: Deployment, request: Request) -> None:
        form = RemoveDeploymentSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        services.remove(actor, deployment=deployment, typed=form.validated_data["name"])


class KeysView(GenericAPIView[DeploymentKey]):
    serializer_class = DeploymentKeySerializer
    pagination_class = None

    @extend_schema(operation_id="list_deployment_keys", responses=DeploymentKeySerializer(many=True))
    def get(self, request: Request, pk: str) -> Response:
        """The keys that open it; only their beginnings are known."""
        return Response(DeploymentKeySerializer(services.keys_of(_deployment(request, pk)), many=True).data)

    @extend_schema(
        operation_id="make_deployment_key",
        request=MakeDeploymentKeySerializer,
        responses={201: NewDeploymentKeySerializer},
    )
    def post(self, request: Request, pk: str) -> Response:
        """Make a key; the answer tells it this once."""
        deployment, actor = _deployment(request, pk), _actor(request)
        form = MakeDeploymentKeySerializer(data=request.data)
        form.is_valid(raise_exception=True)
        sent = form.validated_data
        try:
            key, clear = services.make_key(
                actor, deployment=deployment, name=sent["name"], rate=sent["requests_per_minute"]
            )
        except services.InvalidRequest as invalid:
            raise exceptions.ValidationError(_errors(invalid)) from invalid
        except services.NotNow as not_now:
            raise _busy(not_now) from not_now
        return Response({**DeploymentKeySerializer(key).data, "key": clear}, status=status.HTTP_201_CREATED)


class KeyView(GenericAPIView[DeploymentKey]):
    @extend_schema(operation_id="revoke_deployment_key", responses={204: None})
    def delete(self, request: Request, pk: str, key: int) -> Response:
        """Revoke a key."""
        rows = DeploymentKey.objects.visible_to(_actor(request)).filter(deployment=_deployment(request, pk))
        services.revoke_key(_actor(request), key=get_object_or_404(rows.select_related("deployment"), pk=key))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _actor(request: Any) -> Actor:
    return cast("Actor", request.actor)


def _deployment(request: Request, pk: str) -> Deployment:
    visible = Deployment.objects.visible_to(_actor(request))
    return get_object_or_404(visible.select_related("tenant", "placement__tenant", "placement__cluster"), pk=pk)


def _busy(not_now: services.NotNow) -> Busy:
    return Busy(_("The deployment is “{phase}”; this cannot be done now.").format(phase=PHASES[not_now.phase]))


def _errors(invalid: services.InvalidRequest) -> dict[str, list[str]]:
    errors: dict[str, list[str]] = {}
    for problem in invalid.problems:
        errors.setdefault(problem.field or "deployment", []).append(services.problem_text(problem))
    return errors
