"""The systems that tell of a cluster, by REST: the same use-cases as the pages. Tokens only go in."""

from __future__ import annotations

from typing import Any, cast

from django.core.exceptions import ValidationError
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.utils import extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor, Permission
from apps.adapters.errors import OutsideError
from apps.clusters.models import Cluster, ClusterSource
from apps.clusters.services import sources


class StoreAway(exceptions.APIException):
    """503: the secrets server is sealed or does not answer; nothing was kept."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    wait = 10


class SourceSerializer(serializers.ModelSerializer[ClusterSource]):
    class Meta:
        model = ClusterSource
        fields = ("kind", "url", "has_token", "org", "state", "version", "error", "entered_at", "checked_at", "read_at")
        extra_kwargs = {
            "org": {"help_text": "The tenant that a Loki is asked for."},
            "state": {"help_text": "storing, checking, ready (in use) or failed."},
            "read_at": {"help_text": "When it was last read."},
        }


class EnterSourceSerializer(serializers.Serializer[Any]):
    url = serializers.CharField(max_length=255)
    ca_pem = serializers.CharField(required=False, default="", allow_blank=True)
    token = serializers.CharField(required=False, default="", allow_blank=True, write_only=True)
    org = serializers.CharField(
        required=False, default="", allow_blank=True, help_text="The tenant that a Loki is asked for (X-Scope-OrgID)."
    )


class SourceView(GenericAPIView[ClusterSource]):
    serializer_class = SourceSerializer
    pagination_class = None

    @extend_schema(operation_id="get_cluster_source", responses=SourceSerializer(many=True))
    def get(self, request: Request, slug: str, kind: str) -> Response:
        """What is in use, and after it what was entered and is not yet."""
        rows = [row for row in sources.sources_of(_managed(request, slug, kind), kind) if row]
        return Response(SourceSerializer(rows, many=True).data)

    @extend_schema(
        operation_id="enter_cluster_source", request=EnterSourceSerializer, responses={202: SourceSerializer}
    )
    @sensitive_variables()
    def put(self, request: Request, slug: str, kind: str) -> Response:
        """Enter one. It is checked first; until it has passed, the one in use stays in use."""
        cluster = _managed(request, slug, kind)
        form = EnterSourceSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            access = sources.SourceAccess(**form.validated_data)
            row = sources.enter_source(_actor(request), cluster=cluster, kind=kind, access=access)
        except ValidationError as error:
            raise exceptions.ValidationError(error.message_dict) from None
        except OutsideError:
            raise StoreAway(_("The secrets server does not answer. Nothing was kept; send it again.")) from None
        row.refresh_from_db()
        return Response(SourceSerializer(row).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(operation_id="remove_cluster_source", responses={204: None})
    def delete(self, request: Request, slug: str, kind: str) -> Response:
        """Read it no more and forget its token. What was read from it stays."""
        sources.remove_source(_actor(request), cluster=_managed(request, slug, kind), kind=kind)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _actor(request: Request) -> Actor:
    return cast("Actor", request.actor)  # type: ignore[attr-defined]


def _managed(request: Request, slug: str, kind: str) -> Cluster:
    actor = _actor(request)
    actor.require(Permission.CLUSTER_VIEW, target="clusters")
    cluster = get_object_or_404(Cluster.objects.visible_to(actor), slug=slug)
    actor.require(Permission.CLUSTER_REGISTER, target=f"cluster:{cluster.pk}")
    if kind not in sources.NAMES:
        raise Http404
    return cluster
