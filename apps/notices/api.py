"""A person's inbox by REST."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.notices import services
from apps.notices.models import Notice


class NoticeSerializer(serializers.ModelSerializer[Notice]):
    """What somebody was told. `text` is the sentence in the reader's language."""

    text = serializers.SerializerMethodField()
    tenant = serializers.CharField(source="tenant.slug", default=None, allow_null=True)

    class Meta:
        model = Notice
        fields = ("id", "kind", "text", "params", "link", "tenant", "at", "read_at")

    def get_text(self, notice: Notice) -> str:
        return services.sentence(notice)


class MarkSerializer(serializers.Serializer[Any]):
    read = serializers.BooleanField(default=True, help_text="False makes it unread again.")


class MarkAllSerializer(serializers.Serializer[Any]):
    up_to = serializers.IntegerField(help_text="The newest id you have seen; what came later stays unread.")


class MarkedSerializer(serializers.Serializer[Any]):
    read = serializers.IntegerField(help_text="How many were marked.")


_FILTERS = [
    OpenApiParameter("unread", OpenApiTypes.BOOL, description="Only what is not read yet."),
    OpenApiParameter("kind", OpenApiTypes.STR, description="Key of a kind, such as `job.failed`."),
    OpenApiParameter("tenant", OpenApiTypes.STR, description="A tenant's slug."),
]


class InboxView(GenericAPIView[Notice]):
    serializer_class = NoticeSerializer

    @extend_schema(operation_id="list_notices", parameters=_FILTERS, responses=NoticeSerializer(many=True))
    def get(self, request: Request) -> Response:
        """What this person was told in the last 90 days, newest first."""
        query = request.query_params
        unread = query.get("unread", "").lower() in ("1", "true")
        wish = services.Wish(unread, query.get("kind", ""), query.get("tenant", ""))
        page = self.paginate_queryset(services.inbox(request._request.actor, wish))
        return self.get_paginated_response(NoticeSerializer(page, many=True).data)


class ReadView(GenericAPIView[Notice]):
    serializer_class = NoticeSerializer

    @extend_schema(operation_id="mark_notice", request=MarkSerializer)
    def post(self, request: Request, pk: int) -> Response:
        """Mark one notice as read, or as unread again."""
        form = MarkSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        actor = request._request.actor
        own = get_object_or_404(Notice.objects.visible_to(actor), pk=pk)
        return Response(NoticeSerializer(services.mark_read(actor, own.pk, **form.validated_data)).data)


class ReadAllView(GenericAPIView[Notice]):
    serializer_class = MarkedSerializer

    @extend_schema(operation_id="mark_all_notices", request=MarkAllSerializer)
    def post(self, request: Request) -> Response:
        """Mark everything up to one notice as read."""
        form = MarkAllSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response({"read": services.mark_all_read(request._request.actor, form.validated_data["up_to"])})
