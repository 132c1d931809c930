"""Secrets by REST: names and keys come out, values only go in."""

from __future__ import annotations

from typing import Any, cast

from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import exceptions, serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Permission
from apps.adapters.errors import OutsideError
from apps.secrets import services
from apps.secrets.models import Secret
from apps.secrets.services.words import fault_text


class Conflict(exceptions.APIException):
    """409: somebody else enters or replaces it at this moment."""

    status_code = status.HTTP_409_CONFLICT


class StoreAway(exceptions.APIException):
    """503: the secrets server is sealed or does not answer; nothing was kept."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    wait = 10


class SecretSerializer(serializers.ModelSerializer[Secret]):
    tenant = serializers.CharField(source="tenant.slug")
    changed_by = serializers.CharField(source="changed_by_id")

    class Meta:
        model = Secret
        fields = ("name", "tenant", "kind", "note", "keys", "version", "created_at", "changed_at", "changed_by")


class EnterSecretSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField([kind.value for kind in services.Kind], default=services.Kind.GENERIC.value)
    note = serializers.CharField(default="", allow_blank=True)
    values = serializers.DictField(  # type: ignore[assignment]  # a field may be called as it is
        child=serializers.CharField(trim_whitespace=False, allow_blank=True),
        write_only=True,
        help_text="Text by key; each key becomes a file. Never given back.",
    )


class SecretsView(GenericAPIView[Secret]):
    serializer_class = SecretSerializer

    @extend_schema(
        operation_id="list_secrets",
        responses=SecretSerializer(many=True),
        parameters=[OpenApiParameter("tenant", OpenApiTypes.STR, description="The tenant's slug.")],
    )
    def get(self, request: Request) -> Response:
        """The secrets this person may see, newest first. There is no way to read a value."""
        actor = _actor(request)
        actor.require(Permission.SECRET_VIEW, target="secrets")
        page = self.paginate_queryset(services.secrets_of(actor, request.query_params.get("tenant", "")))
        return self.get_paginated_response(SecretSerializer(page, many=True).data)


class SecretView(GenericAPIView[Secret]):
    serializer_class = SecretSerializer

    @extend_schema(operation_id="get_secret")
    def get(self, request: Request, tenant: str, name: str) -> Response:
        """One secret: its keys and version, not its values."""
        return Response(SecretSerializer(_secret(request, tenant, name)).data)

    @extend_schema(
        operation_id="put_secret",
        request=EnterSecretSerializer,
        responses={200: SecretSerializer, 201: SecretSerializer},
    )
    @sensitive_variables()
    def put(self, request: Request, tenant: str, name: str) -> Response:
        """Enter a secret (201), or give it new values (200). Work that has the old ones keeps them."""
        actor = _actor(request)
        where = accounts.tenant_of(actor, tenant)
        if where is None:
            raise exceptions.NotFound
        services.require_entering(actor, tenant_id=where.pk)
        form = EnterSecretSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        data = form.validated_data
        entry = services.Entry(services.Values(data["values"]), data["kind"], data["note"])
        known = services.secrets_of(actor, tenant).filter(name=name).first()
        try:
            if known is None:
                made = services.enter(actor, tenant_id=where.pk, name=name, entry=entry)
            else:
                made = services.replace(actor, secret=known, entry=entry)
        except services.Bad as bad:
            raise exceptions.ValidationError({bad.field: [fault_text(bad)]}) from None
        except (services.NameTaken, services.Stale):
            raise Conflict(_("Somebody else enters or replaces this secret just now. Look again.")) from None
        except OutsideError:
            raise StoreAway(_("The secrets server does not answer. Nothing was kept; send it again.")) from None
        code = status.HTTP_201_CREATED if known is None else status.HTTP_200_OK
        return Response(SecretSerializer(made).data, status=code)

    @extend_schema(operation_id="delete_secret", responses={204: None})
    def delete(self, request: Request, tenant: str, name: str) -> Response:
        """Remove a secret. Unfinished work that names it and has it keeps its files; other work will fail."""
        services.remove(_actor(request), secret=_secret(request, tenant, name))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _actor(request: Any) -> Actor:
    return cast("Actor", request.actor)


def _secret(request: Request, tenant: str, name: str) -> Secret:
    return get_object_or_404(services.secrets_of(_actor(request), tenant), name=name)
