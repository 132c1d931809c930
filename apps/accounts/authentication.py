"""How REST requests say who they are: an API token, or a browser session with its CSRF token."""

from __future__ import annotations

from typing import Any

import structlog
from django.utils.translation import gettext_lazy as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from apps.accounts import services
from apps.accounts.models import ApiToken, User


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer mp_…`. A token that is presented and not good is a refusal, whatever else is sent."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _space, clear = request.headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() != "bearer":
            return None
        found = services.token_user(clear.strip())
        if found is None:
            raise exceptions.AuthenticationFailed(
                _("This API token is unknown, revoked or expired, or its owner has not signed in for too long.")
            )
        user, token = found
        request._request.actor = user.actor(read_only=token.read_only, token_id=token.pk)  # type: ignore[attr-defined]
        structlog.contextvars.bind_contextvars(actor=user.audit_id)
        return user, token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="api"'


class SessionAuthentication(authentication.SessionAuthentication):
    """The browser's session; every unsafe method needs the CSRF token. Answers 401, not 403, to nobody."""

    def authenticate_header(self, request: Request) -> str:
        return 'Session realm="api"'


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "mp_…"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = SessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
