"""Tenants by REST: the same use-cases as the pages."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Permission
from apps.clusters import services as clusters
from apps.tenants import services
from apps.tenants.domain.asking import LONGEST_NAME, LONGEST_SLUG, LONGEST_TEXT, MOST_GPUS, SLUG
from apps.tenants.forms import TAKEN, WRONG_SLUG
from apps.tenants.models import Placement, TenantRequest


class Clash(exceptions.APIException):
    """409: not as things stand."""

    status_code = status.HTTP_409_CONFLICT


class DifferenceSerializer(serializers.Serializer[Any]):
    """One field that somebody changed."""

    field = serializers.CharField()
    is_now = serializers.CharField(source="is_")
    should_be = serializers.CharField(source="should")


class StepSerializer(serializers.Serializer[Any]):
    """One object of a place, as last seen."""

    key = serializers.CharField()
    kind = serializers.CharField()
    name = serializers.CharField()
    state = serializers.CharField(help_text="missing, applied, drifted, refused, taken, waiting or done.")
    differences = DifferenceSerializer(many=True, source="fields")
    text = serializers.CharField(help_text="The cluster's own words.")


class PlacementSerializer(serializers.ModelSerializer[Placement]):
    """A tenant's place in one cluster."""

    tenant = serializers.CharField(source="tenant.slug")
    name = serializers.CharField(source="tenant.name")
    cluster = serializers.CharField(source="cluster.slug")
    steps = StepSerializer(many=True, source="found", read_only=True)

    class Meta:
        model = Placement
        fields = (
            "tenant", "name", "cluster", "namespace", "queue", "accelerator", "state", "problem", "steps", "looked_at",
            "ready_at",
        )  # fmt: skip


class MemberSerializer(serializers.Serializer[Any]):
    """Somebody in a tenant, as the identity provider said at the last look."""

    id = serializers.CharField(source="user_id")
    name = serializers.CharField(source="user.name")
    role = serializers.CharField()


class RequestSerializer(serializers.ModelSerializer[TenantRequest]):
    cluster = serializers.CharField(source="cluster.slug")
    asked_by = serializers.CharField(source="asked_by_id")
    decided_by = serializers.CharField(source="decided_by_id", allow_null=True)

    class Meta:
        model = TenantRequest
        fields = (
            "id", "slug", "name", "cluster", "gpus", "reason", "state", "asked_by", "asked_at", "granted", "note",
            "decided_by", "decided_at",
        )  # fmt: skip


class AskSerializer(serializers.Serializer[Any]):
    slug = serializers.RegexField(rf"\A{SLUG}\Z", max_length=LONGEST_SLUG, error_messages={"invalid": WRONG_SLUG})
    name = serializers.CharField(max_length=LONGEST_NAME)
    cluster = serializers.SlugField(help_text="The cluster's slug.")
    gpus = serializers.IntegerField(min_value=1, max_value=MOST_GPUS)
    reason = serializers.CharField(max_length=LONGEST_TEXT)


class DecideSerializer(serializers.Serializer[Any]):
    decision = serializers.ChoiceField(choices=["approve", "reject"])
    gpus = serializers.IntegerField(
        required=False, min_value=1, max_value=MOST_GPUS, help_text="What is given; default: what was asked."
    )
    note = serializers.CharField(required=False, allow_blank=True, default="", max_length=LONGEST_TEXT)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["decision"] == "reject" and not attrs["note"].strip():
            raise serializers.ValidationError({"note": [_("Say why, so that they can ask better.")]})
        return attrs


class RemoveTenantSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="The tenant's slug once more, so that nobody removes the wrong one.")


class TenantsView(GenericAPIView[Placement]):
    serializer_class = PlacementSerializer

    @extend_schema(operation_id="list_tenants", responses=PlacementSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The places of the tenants this person may see, newest first."""
        visible = Placement.objects.visible_to(_actor(request)).select_related("tenant", "cluster")
        page = self.paginate_queryset(visible)
        return self.get_paginated_response(PlacementSerializer(page, many=True).data)


class TenantView(GenericAPIView[Placement]):
    serializer_class = PlacementSerializer
    pagination_class = None

    @extend_schema(operation_id="get_tenant", responses=PlacementSerializer(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """A tenant's places, one for each cluster."""
        visible = Placement.objects.visible_to(_actor(request)).select_related("tenant", "cluster")
        found = list(visible.filter(tenant__slug=slug).order_by("pk"))
        if not found:
            raise exceptions.NotFound(_("There is no such object, or it is not yours to see."))
        return Response(PlacementSerializer(found, many=True).data)


class MembersView(GenericAPIView[Any]):
    serializer_class = MemberSerializer

    @extend_schema(
        operation_id="list_tenant_members",
        responses=MemberSerializer(many=True),
        parameters=[OpenApiParameter("q", str, description="What the name contains.")],
    )
    def get(self, request: Request, slug: str) -> Response:
        """Who is in a tenant, who came last first."""
        place = Placement.objects.visible_to(_actor(request)).filter(tenant__slug=slug).first()
        if place is None:
            raise exceptions.NotFound(_("There is no such object, or it is not yours to see."))
        found = accounts.members_of(place.tenant_id, accounts.searched(request.query_params, "q"))
        page = self.paginate_queryset(found)
        return self.get_paginated_response(MemberSerializer(page, many=True).data)


class RestoreView(GenericAPIView[Placement]):
    serializer_class = PlacementSerializer

    @extend_schema(operation_id="restore_tenant", request=None, responses={202: PlacementSerializer})
    def post(self, request: Request, slug: str, cluster: str) -> Response:
        """Apply every object of the place once more. 409: it is being removed."""
        placement = _place(request, slug, cluster)
        try:
            services.restore(_actor(request), placement=placement)
        except services.NotStanding as error:
            raise Clash(_("Nothing was changed: the tenant is being removed from this cluster.")) from error
        placement.refresh_from_db()
        return Response(PlacementSerializer(placement).data, status=status.HTTP_202_ACCEPTED)


class LookView(GenericAPIView[Placement]):
    serializer_class = PlacementSerializer

    @extend_schema(operation_id="look_at_tenant", request=None, responses={202: PlacementSerializer})
    def post(self, request: Request, slug: str, cluster: str) -> Response:
        """Compare the place with its cluster now, without waiting for the next look. It changes nothing there."""
        placement = _place(request, slug, cluster)
        services.look_again(_actor(request), placement=placement)
        return Response(PlacementSerializer(placement).data, status=status.HTTP_202_ACCEPTED)


class RemoveView(GenericAPIView[Placement]):
    serializer_class = PlacementSerializer

    @extend_schema(operation_id="remove_tenant", request=RemoveTenantSerializer, responses={202: PlacementSerializer})
    def post(self, request: Request, slug: str, cluster: str) -> Response:
        """Drain and delete the place; the tenant's rows stay. 409: something stands in the way, see detail."""
        placement = _place(request, slug, cluster)
        form = RemoveTenantSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            services.remove(_actor(request), placement=placement, typed=form.validated_data["name"])
        except services.WrongName as error:
            raise exceptions.ValidationError({"name": [_("This is not the tenant's short name.")]}) from error
        except services.Blocked as blocked:
            raise Clash(" ".join(str(one.text) for one in blocked.blockers)) from blocked
        except services.NotStanding as error:
            raise Clash(_("Its removal has begun already.")) from error
        placement.refresh_from_db()
        return Response(PlacementSerializer(placement).data, status=status.HTTP_202_ACCEPTED)


class RequestsView(GenericAPIView[TenantRequest]):
    serializer_class = RequestSerializer

    @extend_schema(operation_id="list_tenant_requests", responses=RequestSerializer(many=True))
    def get(self, request: Request) -> Response:
        """The requests this person may see, newest first."""
        page = self.paginate_queryset(TenantRequest.objects.visible_to(_actor(request)).select_related("cluster"))
        return self.get_paginated_response(RequestSerializer(page, many=True).data)

    @extend_schema(operation_id="ask_tenant", request=AskSerializer, responses={201: RequestSerializer})
    def post(self, request: Request) -> Response:
        """Ask for a tenant. Who may decide has it at once: then the answer's state is approved. 409: the cluster takes
        nothing new."""
        form = AskSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data, actor = dict(form.validated_data), _actor(request)
        cluster = clusters.visible_to(actor).filter(slug=data.pop("cluster")).first()
        if cluster is None:
            actor.require(Permission.TENANT_ASK, target="tenant-requests")
            raise exceptions.ValidationError({"cluster": [_("There is no such cluster.")]})
        try:
            made = services.ask_tenant(actor, services.Asked(**data, cluster_id=cluster.pk))
        except services.SlugTaken as error:
            raise exceptions.ValidationError({"slug": [TAKEN]}) from error
        except clusters.Closed as closed:
            raise Clash(closed.text) from closed
        return Response(RequestSerializer(made).data, status=status.HTTP_201_CREATED)


class RequestView(GenericAPIView[TenantRequest]):
    serializer_class = RequestSerializer

    @extend_schema(operation_id="get_tenant_request")
    def get(self, request: Request, pk: int) -> Response:
        """One request."""
        return Response(RequestSerializer(_request(request, pk)).data)


class DecideView(GenericAPIView[TenantRequest]):
    serializer_class = RequestSerializer

    @extend_schema(operation_id="decide_tenant_request", request=DecideSerializer, responses=RequestSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Approve or reject; the same word again by the same person is a success. 409: somebody else has decided."""
        asked = _request(request, pk)
        form = DecideSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        decision = services.Decision(data["decision"] == "approve", data["note"].strip(), data.get("gpus"))
        try:
            asked = services.decide(_actor(request), asked, decision)
        except services.AlreadyDecided as decided:
            raise Clash(_("Somebody else has decided: {state}.").format(state=decided.request.state)) from decided
        except clusters.Closed as closed:
            raise Clash(closed.text) from closed
        return Response(RequestSerializer(asked).data)


class WithdrawView(GenericAPIView[TenantRequest]):
    serializer_class = RequestSerializer

    @extend_schema(operation_id="withdraw_tenant_request", request=None, responses=RequestSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Take back what one asked for; done again it is a success. 409: it was decided."""
        try:
            asked = services.withdraw(_actor(request), _request(request, pk))
        except services.AlreadyDecided as decided:
            raise Clash(_("Somebody else has decided: {state}.").format(state=decided.request.state)) from decided
        return Response(RequestSerializer(asked).data)


def _actor(request: Any) -> Actor:
    return cast("Actor", request.actor)


def _place(request: Request, slug: str, cluster: str) -> Placement:
    visible = Placement.objects.visible_to(_actor(request)).select_related("tenant", "cluster")
    return get_object_or_404(visible, tenant__slug=slug, cluster__slug=cluster)


def _request(request: Request, pk: int) -> TenantRequest:
    return get_object_or_404(TenantRequest.objects.visible_to(_actor(request)).select_related("cluster"), pk=pk)
