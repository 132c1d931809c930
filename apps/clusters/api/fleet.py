"""The fleet by REST: nodes, what is free, and the catalogue of accelerators."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor, Permission
from apps.clusters.domain.accelerators import Counts
from apps.clusters.models import Cluster, ClusterNode
from apps.clusters.services import catalogue, fleet, queues
from apps.clusters.services.fleet import Filter, Stand


class NodeSerializer(serializers.ModelSerializer[ClusterNode]):
    """A node as last seen."""

    cluster = serializers.CharField(source="cluster.slug")
    free = serializers.IntegerField(source="free_now", help_text="Accelerators that new work could have here now.")
    facts = serializers.JSONField(help_text="Resources, taints, conditions, versions and labels as read.")

    class Meta:
        model = ClusterNode
        fields = (
            "cluster", "name", "pool", "fabric", "product", "accelerator", "resource", "physical", "total", "used",
            "free", "device_memory", "ready", "schedulable", "tainted", "problem", "free_cpu", "free_memory", "facts",
        )  # fmt: skip


class FleetPoolSerializer(serializers.Serializer[Any]):
    """A pool of nodes; `gangs` maps accelerators for each pod to the most pods placed at once."""

    name = serializers.CharField()
    free = serializers.IntegerField(source="capacity.free")
    total = serializers.IntegerField(source="capacity.total")
    gangs = serializers.DictField(child=serializers.IntegerField())


class PieceSerializer(serializers.Serializer[Any]):
    """A tenant that leaves nodes in pieces; "" where it is not yours to know."""

    tenant = serializers.CharField()
    nodes = serializers.IntegerField(source="piece.nodes")
    free = serializers.IntegerField(source="piece.free")

    def to_representation(self, instance: Any) -> dict[str, Any]:
        slug = instance.owner.slug if instance.owner else ""
        return {"tenant": slug, "nodes": instance.piece.nodes, "free": instance.piece.free}


class StandSerializer(serializers.Serializer[Any]):
    """One cluster's part of the fleet."""

    cluster = serializers.CharField(source="cluster.slug")
    unreachable_since = serializers.DateTimeField(source="cluster.unreachable_since", allow_null=True)
    nodes = serializers.IntegerField()
    total = serializers.IntegerField(source="capacity.total")
    used = serializers.IntegerField(source="capacity.used")
    free = serializers.IntegerField(source="capacity.free")
    whole_free_nodes = serializers.IntegerField(source="capacity.whole_free")
    largest_gang = serializers.IntegerField(source="capacity.largest_gang")
    unusable = serializers.IntegerField(source="capacity.unusable")
    need_a_look = serializers.IntegerField(source="troubled")
    pools = FleetPoolSerializer(many=True)
    pieces = PieceSerializer(many=True, source="blamed")


class LinkSerializer(serializers.Serializer[Any]):
    """How the accelerators of a node reach each other, as their maker prints it."""

    name = serializers.CharField()
    rate = serializers.FloatField(min_value=0)
    unit = serializers.ChoiceField(choices=["GB/s", "Gb/s"])
    direction = serializers.ChoiceField(choices=["one", "both"])
    peers = serializers.IntegerField(required=False, default=1, min_value=1)
    source = serializers.CharField(required=False, allow_blank=True, default="")  # type: ignore[assignment]


class AcceleratorSerializer(serializers.Serializer[Any]):
    """What is known of an accelerator. `memory` is in bytes, or as `80 GiB`."""

    name = serializers.CharField()
    vendor = serializers.CharField(required=False, allow_blank=True, default="")
    counts = serializers.ChoiceField(choices=[one.value for one in Counts])
    resources = serializers.ListField(child=serializers.CharField())
    label = serializers.CharField(required=False, allow_blank=True, default="")  # type: ignore[assignment]
    products = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    memory = serializers.JSONField(required=False, allow_null=True, default=None)
    memory_label = serializers.CharField(required=False, allow_blank=True, default="")
    count_label = serializers.CharField(required=False, allow_blank=True, default="")
    link = LinkSerializer(required=False, allow_null=True, default=None)
    slices = serializers.BooleanField(required=False, default=False)
    driver_label = serializers.CharField(required=False, allow_blank=True, default="")
    driver_floor = serializers.CharField(required=False, allow_blank=True, default="")


_TEXTS = [OpenApiParameter(name, OpenApiTypes.STR) for name in ("cluster", "pool", "accelerator", "q")]
_FILTERS = [*_TEXTS, OpenApiParameter("state", OpenApiTypes.STR, enum=list(fleet.STATES))]


class NodesView(GenericAPIView[ClusterNode]):
    serializer_class = NodeSerializer

    @extend_schema(operation_id="list_nodes", parameters=_FILTERS, responses=NodeSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Nodes as last seen."""
        texts = {name: request.query_params.get(name, "")[:80] for name in ("cluster", "pool", "accelerator", "state")}
        wanted = Filter(**texts, text=request.query_params.get("q", "")[:80])
        page = self.paginate_queryset(fleet.nodes_found(_actor(request), wanted))
        return self.get_paginated_response(NodeSerializer(page, many=True).data)


class FleetView(GenericAPIView[Any]):
    serializer_class = StandSerializer
    pagination_class = None

    @extend_schema(operation_id="get_fleet", responses=StandSerializer(many=True))
    def get(self, request: Request) -> Response:
        """What each cluster has and has left; a silent one as it was last seen."""
        stands: list[Stand] = fleet.fleet(_actor(request)).stands
        return Response(StandSerializer(stands, many=True).data)


class QueueSerializer(serializers.Serializer[Any]):
    """A queue, counted in one resource; `deserved` and `limit` are null where nothing is said."""

    name = serializers.CharField(source="queue.name")
    # Fields have a parent of their own, but this is taken out of the class before one is made.
    parent = serializers.CharField(source="queue.parent")  # type: ignore[assignment]
    state = serializers.CharField(source="queue.state")
    depth = serializers.IntegerField()
    deserved = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField()
    limit = serializers.IntegerField(allow_null=True)
    borrowed = serializers.IntegerField()
    lent = serializers.IntegerField()


class QueuesView(GenericAPIView[Any]):
    serializer_class = QueueSerializer
    pagination_class = None

    @extend_schema(
        operation_id="list_queues",
        parameters=[OpenApiParameter("resource", OpenApiTypes.STR, description="Default: its accelerators.")],
        responses=QueueSerializer(many=True),
    )
    def get(self, request: Request, slug: str) -> Response:
        """A cluster's queues, parents before their children, as last seen."""
        cluster = get_object_or_404(Cluster.objects.visible_to(_actor(request)), slug=slug)
        found = queues.queues(_actor(request), cluster, request.query_params.get("resource", "")[:120])
        return Response(QueueSerializer(found.lines, many=True).data)


class AcceleratorsView(GenericAPIView[Any]):
    serializer_class = AcceleratorSerializer
    pagination_class = None

    @extend_schema(operation_id="list_accelerators", responses={200: OpenApiTypes.OBJECT})
    def get(self, request: Request) -> Response:
        """The catalogue, by slug: what the release ships and what operators added."""
        _actor(request).require(Permission.CLUSTER_VIEW, target="accelerators")
        return Response({entry.slug: catalogue.body_of(entry) for entry in catalogue.catalogue().entries})


class AcceleratorView(GenericAPIView[Any]):
    serializer_class = AcceleratorSerializer
    pagination_class = None

    @extend_schema(operation_id="save_accelerator", request=AcceleratorSerializer, responses=AcceleratorSerializer)
    def put(self, request: Request, slug: str) -> Response:
        """Add an entry, or change the one of this slug. Nodes are counted by it within half a minute."""
        _actor(request).require(Permission.CLUSTER_REGISTER, target="accelerators")
        form = AcceleratorSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            entry = catalogue.save_accelerator(_actor(request), slug, form.validated_data)
        except catalogue.Wrong as wrong:
            raise exceptions.ValidationError({wrong.field: [str(catalogue.FAULTS[wrong.why])]}) from wrong
        return Response(catalogue.body_of(entry))

    @extend_schema(operation_id="remove_accelerator", responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Take an added entry away; a shipped one with its slug counts again."""
        if not catalogue.remove_accelerator(_actor(request), slug):
            raise exceptions.NotFound(_("Operators have added no such entry."))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _actor(request: Request) -> Actor:
    return cast(Actor, request._request.actor)  # type: ignore[attr-defined]
