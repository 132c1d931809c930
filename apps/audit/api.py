"""The audit log by REST: the same search as the page, and the file of it."""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.audit import services
from apps.audit.domain import Search
from apps.audit.forms import RESULTS, SearchForm
from apps.audit.models import Entry

MOST = 200


class AuditEntrySerializer(serializers.Serializer[Any]):
    """An entry: what is stored, and the same in words of the reader's language."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    result = serializers.ChoiceField(choices=[value for value, _word in RESULTS if value])
    action = serializers.CharField()
    actor = serializers.CharField(help_text="`user:<id>`, `system:<part>` or `anonymous`.")
    actor_name = serializers.CharField()
    tenant = serializers.CharField(help_text="The tenant's name, empty for the platform's own entries.")
    target = serializers.CharField(help_text="`kind:id`.")
    target_name = serializers.CharField()
    sentence = serializers.CharField()
    params = serializers.DictField()
    request_id = serializers.CharField()


class AuditEntriesSerializer(serializers.Serializer[Any]):
    next = serializers.IntegerField(allow_null=True, help_text="`before` (with `sort=old`: `after`) of the next page.")
    results = AuditEntrySerializer(many=True)


_WORDS = {
    "who": "A name, a part of one, or an id of who acted.",
    "actor": "The id of who acted.",
    "action": "Key of an action, such as `job.submitted`.",
    "about": "The name that was recorded, or the id, of what it was about.",
    "target": "`kind:id` of what it was about.",
    "life": "`kind:id`: entries about this and all it is related to, such as a job, the model's versions made of it "
    "and their deployments.",
    "tenant": "A tenant's slug.",
    "since": "A day, or a moment (ISO 8601); without a zone in the reader's.",
    "until": "A day, which is meant with its end, or a moment.",
}
FILTERS = [OpenApiParameter(name, OpenApiTypes.STR, description=words) for name, words in _WORDS.items()] + [
    OpenApiParameter("result", OpenApiTypes.STR, enum=["done", "refused"])
]
PLACE = [
    OpenApiParameter("sort", OpenApiTypes.STR, enum=["new", "old"]),
    OpenApiParameter("before", OpenApiTypes.INT, description="Entries older than the one of this id."),
    OpenApiParameter("after", OpenApiTypes.INT, description="Entries newer than the one of this id."),
    OpenApiParameter("limit", OpenApiTypes.INT, description="At most 200; 50 if nothing is said."),
]


class EntriesView(GenericAPIView[Entry]):
    serializer_class = AuditEntriesSerializer
    pagination_class = None

    @extend_schema(operation_id="list_audit_entries", parameters=FILTERS + PLACE, responses=AuditEntriesSerializer)
    def get(self, request: Request) -> Response:
        """Entries that this person may see, newest first (`sort=old`: oldest first)."""
        actor, query = request._request.actor, request.query_params
        found = services.found(actor, _search(request))
        before, after, limit = (_number(query.get(key, "")) for key in ("before", "after", "limit"))
        old = query.get("sort") == "old"
        page = services.page(found, before=before, after=after, oldest_first=old, size=min(limit or 50, MOST))
        return Response({"next": (page.newer if old else page.older) or None, "results": _told(actor, page.entries)})


class ExportView(GenericAPIView[Entry]):
    serializer_class = AuditEntrySerializer
    pagination_class = None

    @extend_schema(
        operation_id="export_audit_entries",
        parameters=[*FILTERS, OpenApiParameter("as", OpenApiTypes.STR, enum=[kind.value for kind in services.Format])],
        responses={(200, kind.content_type.partition(";")[0]): OpenApiTypes.BINARY for kind in services.Format},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Everything that fits the search, as CSV (UTF-8 with a mark for spreadsheets) or JSON Lines. The export is
        recorded in the log, with the search and the number of entries."""
        wanted = request.query_params.get("as", "csv")
        if wanted not in list(services.Format):
            raise exceptions.ValidationError({"as": [_("Choose csv or jsonl.")]})
        kind = services.Format(wanted)
        pieces = services.export(request._request.actor, _search(request), kind)
        asynchronous = isinstance(request._request, ASGIRequest)
        answer = StreamingHttpResponse(services.pulled(pieces) if asynchronous else pieces)
        answer["Content-Type"] = kind.content_type
        answer["Content-Disposition"] = f'attachment; filename="audit-{timezone.now():%Y%m%dT%H%M%SZ}.{kind.value}"'
        return answer


def _search(request: Request) -> Search:
    form = SearchForm(request.query_params)
    if not form.is_valid():
        errors = {field: [str(each) for each in found] for field, found in form.errors.items()}
        raise exceptions.ValidationError(errors)
    return form.search()


def _told(actor: Any, entries: list[Entry]) -> list[services.Row]:
    names = services.names_for(entries, services.scope(actor))
    names |= services.directory().names({f"tenant:{entry.tenant_id}" for entry in entries if entry.tenant_id})
    return [services.row(entry, names) for entry in entries]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
