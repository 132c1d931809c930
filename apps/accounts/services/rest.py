"""What REST endpoints of several apps ask of a request."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions, status
from rest_framework.request import Request

from apps.accounts.models import Tenant
from apps.accounts.services.tenants import tenant_of
from apps.accounts.types import Actor

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key", OpenApiTypes.STR, OpenApiParameter.HEADER, description="Any text ≤ 200."
)


class KeyReused(exceptions.APIException):
    """409: the key came with another request before."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = gettext_lazy("This Idempotency-Key was used for another request. Choose a new one.")


def idempotency_key(request: Request, most: int = 255) -> str:
    """The key of a request, which makes it one with any that is sent again; empty if it has none.

    Raises ValidationError where it is longer than `most`.
    """
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > most:
        raise exceptions.ValidationError({"Idempotency-Key": [_("At most {maximum} characters.").format(maximum=most)]})
    return key


def tenant_named(actor: Actor, slug: str) -> Tenant:
    """One of the actor's tenants. Raises ValidationError."""
    tenant = tenant_of(actor, slug)
    if tenant is None:
        raise exceptions.ValidationError({"tenant": [_("There is no such tenant, or you are not in it.")]})
    return tenant
