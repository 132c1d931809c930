"""Clusters by REST: the same use-cases as the pages. Tokens only go in."""

from __future__ import annotations

from typing import Any, cast

from django.core.exceptions import ValidationError
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor, Permission
from apps.adapters.errors import OutsideError
from apps.clusters import services
from apps.clusters.domain import kubeconfig, profile
from apps.clusters.domain.checks import Check, Operator
from apps.clusters.models import Cluster
from apps.clusters.services import words
from apps.clusters.services.maintenance import LONGEST_REASON


class Clash(exceptions.APIException):
    """409: not as things stand."""

    status_code = status.HTTP_409_CONFLICT


class StoreAway(exceptions.APIException):
    """503: the secrets server is sealed or does not answer; nothing was kept."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    wait = 10


class CheckSerializer(serializers.Serializer[Check]):
    """One finding."""

    key = serializers.CharField(help_text="As the page shows them: token, reach, identity, …")
    state = serializers.CharField(help_text="passed, warned, failed or absent.")
    text = serializers.SerializerMethodField(help_text="What was found and what to do next.")
    raw = serializers.CharField(source="text", help_text="The cluster's own words.")

    @extend_schema_field(str)
    def get_text(self, check: Check) -> str:
        return words.check_text(check)


class PlaneSerializer(serializers.Serializer[profile.Plane]):
    name = serializers.CharField(max_length=profile.LONGEST_NAME)
    purpose = serializers.ChoiceField(choices=[one.value for one in profile.Purpose])
    gbit = serializers.IntegerField(default=0, min_value=0, max_value=profile.MOST_GBIT, help_text="Of a port.")
    mtu = serializers.IntegerField(default=0, min_value=0, max_value=profile.MOST_MTU)
    cidr = serializers.CharField(default="", allow_blank=True)


class PoolSerializer(serializers.Serializer[profile.Pool]):
    name = serializers.CharField(max_length=profile.LONGEST_NAME)
    role = serializers.ChoiceField(choices=[one.value for one in profile.Role])
    label = serializers.CharField(default="", allow_blank=True, help_text="key=value, which its nodes carry.")  # type: ignore[assignment]


class ProfileSerializer(serializers.Serializer[profile.Profile]):
    fabric = serializers.ChoiceField(default="", allow_blank=True, choices=[one.value for one in profile.Fabric if one])
    cni = serializers.CharField(default="", allow_blank=True, max_length=profile.LONGEST_NAME)
    pod_mtu = serializers.IntegerField(default=0, min_value=0, max_value=profile.MOST_MTU)
    scheduler = serializers.ChoiceField(default="volcano", choices=[one.value for one in profile.Scheduler])
    note = serializers.CharField(default="", allow_blank=True, max_length=profile.LONGEST_NOTE)
    planes = PlaneSerializer(many=True, default=list)
    pools = PoolSerializer(many=True, default=list)


class OperatorSerializer(serializers.Serializer[Operator]):
    """A deployment or DaemonSet that keeps part of the cluster going."""

    name = serializers.CharField()
    namespace = serializers.CharField()
    kind = serializers.CharField(help_text="Deployment or DaemonSet.")
    ready = serializers.IntegerField(help_text="Pods that are ready.")
    desired = serializers.IntegerField(help_text="Pods that there should be.")
    version = serializers.CharField(help_text="Of its image.")


class ClusterSerializer(serializers.ModelSerializer[Cluster]):
    silent_since = serializers.DateTimeField(source="unreachable_since", allow_null=True)
    silent_reason = serializers.CharField(source="unreachable_reason")
    credential_expires_at = serializers.DateTimeField(source="expires_at", allow_null=True)
    takes_work = serializers.BooleanField(source="is_open")
    checks = CheckSerializer(many=True, source="found")
    profile = ProfileSerializer(source="described")
    operators = OperatorSerializer(many=True, source="operators_found")
    objects_compared = serializers.IntegerField(source="compared", help_text="Listed again beside the watches.")
    objects_differing = serializers.IntegerField(source="differed", help_text="Other than the watches had told.")
    objects_differing_ever = serializers.IntegerField(source="diverged", help_text="Since the cluster was entered.")

    class Meta:
        model = Cluster
        fields = (
            "slug", "name", "server", "state", "version", "seen_at", "silent_since", "silent_reason", "takes_work",
            "maintenance_since", "maintenance_until", "maintenance_reason", "account", "credential_expires_at",
            "checked_at", "checks", "profile", "operators", "compared_at", "objects_compared", "objects_differing",
            "objects_differing_ever",
        )  # fmt: skip


class AccessSerializer(serializers.Serializer[Any]):
    """A kubeconfig, or server, authority and token."""

    kubeconfig = serializers.CharField(required=False, write_only=True, trim_whitespace=False)
    context = serializers.CharField(required=False, default="", allow_blank=True, max_length=253)  # type: ignore[assignment]
    server = serializers.CharField(required=False, max_length=255)
    ca_pem = serializers.CharField(required=False, default="", allow_blank=True)
    token = serializers.CharField(required=False, write_only=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "kubeconfig" in attrs:
            try:
                found = kubeconfig.read(attrs["kubeconfig"], attrs["context"])
            except kubeconfig.Bad as bad:
                raise serializers.ValidationError({"kubeconfig": [words.kubeconfig_text(bad)]}) from None
            return {**attrs, "server": found.server, "ca_pem": found.ca_pem, "token": found.token}
        absent = [name for name in ("server", "token") if not attrs.get(name)]
        if absent:
            raise serializers.ValidationError({name: [_("Fill this in, or give a kubeconfig.")] for name in absent})
        return attrs

    def access(self) -> services.Access:
        data = self.validated_data
        return services.Access(data["server"].strip(), data["ca_pem"].strip(), data["token"])


class EnterSerializer(AccessSerializer):
    slug = serializers.SlugField(max_length=40)
    name = serializers.CharField(max_length=80)


class MaintenanceSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=LONGEST_REASON)
    until = serializers.DateTimeField(required=False, allow_null=True, default=None)


class RemoveClusterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The cluster's slug once more, so that nobody removes the wrong one.")


class ClustersView(GenericAPIView[Cluster]):
    serializer_class = ClusterSerializer

    @extend_schema(operation_id="list_clusters", responses=ClusterSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The clusters this person may see, newest first."""
        actor = _actor(request)
        actor.require(Permission.CLUSTER_VIEW, target="clusters")
        page = self.paginate_queryset(Cluster.objects.visible_to(actor).order_by("-pk"))
        return self.get_paginated_response(ClusterSerializer(page, many=True).data)

    @extend_schema(operation_id="enter_cluster", request=EnterSerializer, responses={202: ClusterSerializer})
    @sensitive_variables()
    def post(self, request: Request) -> Response:
        """Enter a cluster to be checked; its state is ready once it has passed. 409: the short name is taken."""
        actor = _actor(request)
        actor.require(Permission.CLUSTER_REGISTER, target="cluster")
        form = EnterSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        try:
            made = services.enter(actor, slug=data["slug"], name=data["name"], access=form.access())
        except services.NameTaken:
            raise Clash(_("There is a cluster of this short name, or was one whose history is kept.")) from None
        except ValidationError as error:
            raise exceptions.ValidationError(error.message_dict) from None
        except OutsideError:
            raise StoreAway(_("The secrets server does not answer. Nothing was kept; send it again.")) from None
        return Response(ClusterSerializer(made).data, status=status.HTTP_202_ACCEPTED)


class ClusterView(GenericAPIView[Cluster]):
    serializer_class = ClusterSerializer

    @extend_schema(operation_id="get_cluster")
    def get(self, request: Request, slug: str) -> Response:
        """One cluster."""
        return Response(ClusterSerializer(_cluster(request, slug)).data)


class CredentialView(GenericAPIView[Cluster]):
    serializer_class = ClusterSerializer

    @extend_schema(operation_id="renew_cluster", request=AccessSerializer, responses={202: ClusterSerializer})
    @sensitive_variables()
    def put(self, request: Request, slug: str) -> Response:
        """Enter a new credential. It is checked first; until it has passed, the one in use stays in use."""
        cluster = _managed(request, slug)
        data = {"server": cluster.server, "ca_pem": cluster.ca_pem} | _object(request)
        form = AccessSerializer(data=data)
        form.is_valid(raise_exception=True)
        try:
            services.renew(_actor(request), cluster=cluster, access=form.access())
        except ValidationError as error:
            raise exceptions.ValidationError(error.message_dict) from None
        except OutsideError:
            raise StoreAway(_("The secrets server does not answer. Nothing was kept; send it again.")) from None
        return Response(ClusterSerializer(cluster).data, status=status.HTTP_202_ACCEPTED)


class CheckView(GenericAPIView[Cluster]):
    serializer_class = ClusterSerializer

    @extend_schema(operation_id="check_cluster", request=None, responses={202: ClusterSerializer})
    def post(self, request: Request, slug: str) -> Response:
        """Look at the cluster now. 409: the token that failed is not kept any more."""
        cluster = _managed(request, slug)
        try:
            services.check_again(_actor(request), cluster=cluster)
        except services.NotKept:
            raise Clash(_("The token is not kept any more. Enter it again.")) from None
        return Response(ClusterSerializer(cluster).data, status=status.HTTP_202_ACCEPTED)


class MaintenanceView(GenericAPIView[Cluster]):
    serializer_class = ClusterSerializer

    @extend_schema(operation_id="begin_cluster_maintenance", request=MaintenanceSerializer, responses=ClusterSerializer)
    def put(self, request: Request, slug: str) -> Response:
        """Let nothing new begin there. What runs goes on."""
        cluster = _managed(request, slug)
        form = MaintenanceSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            said = services.Maintenance(**form.validated_data)
            services.begin_maintenance(_actor(request), cluster=cluster, maintenance=said)
        except ValidationError as error:
            raise exceptions.ValidationError(error.message_dict) from None
        cluster.refresh_from_db()
        return Response(ClusterSerializer(cluster).data)

    @extend_schema(operation_id="end_cluster_maintenance", responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Open the cluster again."""
        services.end_maintenance(_actor(request), cluster=_managed(request, slug))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ProfileView(GenericAPIView[Any]):
    serializer_class = ProfileSerializer

    @extend_schema(operation_id="describe_cluster", request=ProfileSerializer, responses=ProfileSerializer)
    def put(self, request: Request, slug: str) -> Response:
        """Say what no API tells: networks, scheduler, and what the nodes are for."""
        cluster = _managed(request, slug)
        try:
            said = services.describe(_actor(request), cluster=cluster, document=_object(request))
        except profile.Bad as bad:
            raise exceptions.ValidationError({bad.field or "profile": [words.profile_text(bad)]}) from None
        return Response(ProfileSerializer(said).data)


class RemoveView(GenericAPIView[Cluster]):
    serializer_class = ClusterSerializer

    @extend_schema(operation_id="remove_cluster", request=RemoveClusterSerializer, responses={204: None})
    def post(self, request: Request, slug: str) -> Response:
        """Forget the cluster and its credential; nothing is touched in it. 409: something lives there, see detail."""
        cluster = _managed(request, slug)
        form = RemoveClusterSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            services.remove(_actor(request), cluster=cluster, typed=form.validated_data["name"])
        except services.WrongName:
            raise exceptions.ValidationError({"name": [_("This is not the cluster's short name.")]}) from None
        except services.Occupied as occupied:
            raise Clash(" ".join(one.text for one in occupied.occupants)) from None
        return Response(status=status.HTTP_204_NO_CONTENT)


def _object(request: Request) -> dict[str, Any]:
    """What was sent, where it must be an object. Raises ValidationError."""
    if not isinstance(request.data, dict):
        raise exceptions.ValidationError({"non_field_errors": [_("This must be an object.")]})
    return dict(request.data)


def _actor(request: Any) -> Actor:
    return cast("Actor", request.actor)


def _cluster(request: Request, slug: str) -> Cluster:
    _actor(request).require(Permission.CLUSTER_VIEW, target="clusters")
    return get_object_or_404(Cluster.objects.visible_to(_actor(request)), slug=slug)


def _managed(request: Request, slug: str) -> Cluster:
    """The cluster, for whoever manages clusters, before anything they sent is read."""
    cluster = _cluster(request, slug)
    _actor(request).require(Permission.CLUSTER_REGISTER, target=f"cluster:{cluster.pk}")
    return cluster
