"""REST: the same use-cases as the pages. A version is registered from its job: POST /api/v1/jobs/{id}/register."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.types import Actor
from apps.adapters.errors import NotFound, Unavailable
from apps.catalog import services
from apps.catalog.domain.stages import STEPS
from apps.catalog.models import ModelVersion, RegisteredModel, StoredFile
from apps.catalog.services import market, words
from apps.catalog.services.market import FACETS, Wanted
from apps.catalog.services.sending import streamed


class Busy(exceptions.APIException):
    """Not in this state."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


class Away(exceptions.APIException):
    """The storage does not answer."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_code = "unavailable"


class ModelSerializer(serializers.ModelSerializer[RegisteredModel]):
    tenant = serializers.CharField(source="tenant.slug", read_only=True)

    class Meta:
        model = RegisteredModel
        fields = (
            "id", "name", "tenant", "licence", "visibility", "card", "tags", "versions", "stage", "format", "bytes",
            "weight_bytes", "parameters", "created_at", "changed_at",
        )  # fmt: skip
        read_only_fields = (
            "id", "versions", "stage", "format", "bytes", "weight_bytes", "parameters", "created_at", "changed_at",
        )  # fmt: skip


class VersionSerializer(serializers.ModelSerializer[ModelVersion]):
    model = serializers.CharField(source="model_id")
    name = serializers.CharField(source="model.name")
    tenant = serializers.CharField(source="tenant.slug")
    author = serializers.CharField(source="author_id")
    transfer = serializers.SerializerMethodField()

    class Meta:
        model = ModelVersion
        fields = (
            "id", "model", "name", "tenant", "number", "note", "author", "stage", "files", "bytes", "facts", "lineage",
            "transfer", "created_at",
        )  # fmt: skip

    def get_transfer(self, version: ModelVersion) -> dict[str, Any] | None:
        """How the files come: phase, bytes received of total, and why it is so."""
        transfer = None if version.is_ready else services.transfer_for(version)
        if transfer is None:
            return None
        return {
            "phase": transfer.phase,
            "received": transfer.received,
            "total": transfer.total,
            "text": words.transfer_text(transfer),
        }


class StoredFileSerializer(serializers.ModelSerializer[StoredFile]):
    sha256 = serializers.CharField(source="digest")

    class Meta:
        model = StoredFile
        fields = ("path", "sha256", "size")


class ModelEditSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(required=False)
    licence = serializers.CharField(required=False)
    visibility = serializers.CharField(required=False)
    card = serializers.CharField(required=False, allow_blank=True, trim_whitespace=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False)


class StageStepSerializer(serializers.Serializer[Any]):
    act = serializers.ChoiceField(choices=sorted(set(STEPS.values())))
    comment = serializers.CharField(required=False, allow_blank=True, default="")


_FILTERS = [OpenApiParameter(name, str) for name in ("q", *FACETS)]


class ModelsView(GenericAPIView[RegisteredModel]):
    serializer_class = ModelSerializer

    @extend_schema(operation_id="list_models", responses=ModelSerializer(many=True), parameters=_FILTERS)
    def get(self, request: Request) -> Response:
        """The models this person may see, newest first."""
        found = market.found_for(_actor(request), Wanted.read(request.query_params)).select_related("tenant")
        page = self.paginate_queryset(found)
        return self.get_paginated_response(ModelSerializer(page, many=True).data)


class ModelView(GenericAPIView[RegisteredModel]):
    serializer_class = ModelSerializer

    @extend_schema(operation_id="get_model")
    def get(self, request: Request, pk: str) -> Response:
        """One model."""
        return Response(ModelSerializer(_model(request, pk)).data)

    @extend_schema(operation_id="edit_model", request=ModelEditSerializer, responses=ModelSerializer)
    def patch(self, request: Request, pk: str) -> Response:
        """Change what is said of a model."""
        model = _model(request, pk)
        form = ModelEditSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        now = {key: getattr(model, key) for key in ("name", "licence", "visibility", "card", "tags")}
        try:
            model = services.edit_model(_actor(request), model=model, said=services.Said(**now | form.validated_data))
        except services.Invalid as invalid:
            raise exceptions.ValidationError(errors(invalid)) from invalid
        return Response(ModelSerializer(model).data)

    @extend_schema(
        operation_id="delete_model", parameters=[OpenApiParameter("name", str, required=True)], responses=None
    )
    def delete(self, request: Request, pk: str) -> Response:
        """Delete a model with its versions; `name` is its name, as a confirmation. 409: it is in use."""
        model = _model(request, pk)
        try:
            services.delete_model(_actor(request), model=model, typed=request.query_params.get("name", ""))
        except services.WrongName as wrong:
            raise exceptions.ValidationError({"name": [_("This is not the model's name.")]}) from wrong
        except services.InUse as in_use:
            text = _("The model is in use by {n}: {names}").format(
                n=len(in_use.uses), names=", ".join(use.name for use in in_use.uses[:5])
            )
            raise Busy(text) from in_use
        return Response(status=status.HTTP_204_NO_CONTENT)


class VersionsView(GenericAPIView[ModelVersion]):
    serializer_class = VersionSerializer

    @extend_schema(operation_id="list_versions", responses=VersionSerializer(many=True))
    def get(self, request: Request, pk: str) -> Response:
        """The versions of a model that this person may see, newest first."""
        model = _model(request, pk)
        versions = services.versions_of(_actor(request), model).select_related("model", "tenant")
        page = self.paginate_queryset(versions)
        return self.get_paginated_response(VersionSerializer(page, many=True).data)


class VersionView(GenericAPIView[ModelVersion]):
    serializer_class = VersionSerializer

    @extend_schema(operation_id="get_version")
    def get(self, request: Request, pk: str, number: int) -> Response:
        """One version: its facts, its lineage, and how its files come."""
        return Response(VersionSerializer(_version(request, pk, number)).data)


class StageView(GenericAPIView[ModelVersion]):
    serializer_class = VersionSerializer

    @extend_schema(operation_id="move_stage", request=StageStepSerializer, responses=VersionSerializer)
    def post(self, request: Request, pk: str, number: int) -> Response:
        """Propose, approve, send back, withdraw or bring back. 409: not from the stage where it is now."""
        version = _version(request, pk, number)
        form = StageStepSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            moved = services.move_stage(_actor(request), version=version, **form.validated_data)
        except services.NotNow as not_now:
            text = str(words.OBSTACLES[not_now.code]).format(stage=words.STAGES[not_now.stage])
            raise Busy(text) from not_now
        except services.Invalid as invalid:
            raise exceptions.ValidationError(errors(invalid)) from invalid
        return Response(VersionSerializer(moved).data)


class AgainView(GenericAPIView[ModelVersion]):
    serializer_class = VersionSerializer

    @extend_schema(operation_id="bring_files_again", request=None, responses={202: VersionSerializer})
    def post(self, request: Request, pk: str, number: int) -> Response:
        """Try once more to bring the files of a version."""
        version = _version(request, pk, number)
        services.bring_again(_actor(request), version=version)
        version.refresh_from_db()
        return Response(VersionSerializer(version).data, status=status.HTTP_202_ACCEPTED)


class FilesView(GenericAPIView[StoredFile]):
    serializer_class = StoredFileSerializer
    pagination_class = None

    @extend_schema(operation_id="list_files", responses=StoredFileSerializer(many=True))
    def get(self, request: Request, pk: str, number: int) -> Response:
        """The files of a version, with the digest of each."""
        return Response(StoredFileSerializer(services.files_of(_version(request, pk, number)), many=True).data)


class FileView(GenericAPIView[StoredFile]):
    @extend_schema(operation_id="get_file", responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Request, pk: str, number: int, path: str) -> HttpResponse | StreamingHttpResponse:
        """The bytes of one file; `Range: bytes=N-` goes on where a download was broken off."""
        version = _version(request, pk, number)
        file = services.file_of(version, path)
        if file is None or not version.is_ready:
            raise exceptions.NotFound
        services.note_download(_actor(request), version=version, file=file)
        try:
            return streamed(request._request, file)
        except (Unavailable, NotFound) as error:
            raise Away(_("The portal's storage does not answer. Try again in a moment.")) from error


def errors(invalid: services.Invalid) -> dict[str, list[str]]:
    """Every fault beside its field."""
    found: dict[str, list[str]] = {}
    for fault in invalid.faults:
        found.setdefault(fault.field, []).append(words.fault_text(fault))
    return found


def _actor(request: Any) -> Actor:
    return cast("Actor", request.actor)


def _model(request: Request, pk: str) -> RegisteredModel:
    return get_object_or_404(RegisteredModel.objects.visible_to(_actor(request)).select_related("tenant"), pk=pk)


def _version(request: Request, pk: str, number: int) -> ModelVersion:
    visible = ModelVersion.objects.visible_to(_actor(request)).select_related("model", "tenant", "author")
    return get_object_or_404(visible, model__id=pk, number=number)
