"""What mozilla-django-oidc calls: the sign-in backend, and the provider's sign-out address."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from apps.accounts import services
from apps.accounts.models import User
from apps.adapters import identity
from apps.adapters.errors import Refused

LONGEST_HINT = 4096
"""Characters of an ID token that still fit into an address; servers refuse addresses from 8 kB on."""


class Backend(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Signs in whoever the provider's ID token names, by issuer and subject.

    The library's own verification takes tokens of other audiences, issuers and times, and finds people by e-mail; here
    every step is ours and fails as Refused (a 403 page) or Unavailable (a 503 page). One object serves one sign-in.
    """

    tokens: identity.Tokens
    claims: dict[str, Any]

    def get_token(self, payload: dict[str, str]) -> dict[str, str]:
        self.tokens = identity.exchange(
            payload["code"], redirect_uri=payload["redirect_uri"], verifier=payload["code_verifier"]
        )
        if not self.tokens.refresh_token:
            # Without one, nobody could be put out when the provider disables them.
            raise Refused("no_refresh_token")
        return {"id_token": self.tokens.id_token, "access_token": self.tokens.access_token}

    def verify_token(self, token: object, **kwargs: Any) -> dict[str, Any]:
        self.claims = identity.verify_id_token(
            token, access_token=self.tokens.access_token, nonce=str(kwargs.get("nonce") or "")
        )
        return self.claims

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User:
        claims = services.with_userinfo(self.claims, self.tokens)
        user = services.person_of_claims(claims)
        if not user.is_active:
            raise Refused("disabled")
        services.sync_roles(user, claims)
        self.request.granted = services.Granted(self.claims, self.tokens)
        return user

    def get_user(self, user_id: uuid.UUID | str) -> User | None:
        return User.objects.filter(pk=user_id, is_active=True).first()


def logout_parameters(request: HttpRequest) -> dict[str, str]:
    """What the provider's end-session address is given. To be asked before the session is gone."""
    hint = services.id_token_hint(request.session.session_key or "")
    return {
        "post_logout_redirect_uri": request.build_absolute_uri(reverse("accounts:signed-out")),
        "client_id": settings.OIDC_RP_CLIENT_ID,
        **({"id_token_hint": hint} if hint else {}),
    }


def logout_url(request: HttpRequest) -> str:
    """The provider's sign-out address; without the hint where that would make the address too long."""
    parameters = logout_parameters(request)
    if len(parameters.get("id_token_hint", "")) > LONGEST_HINT:
        del parameters["id_token_hint"]
    return f"{settings.OIDC_OP_END_SESSION_ENDPOINT}?{urlencode(parameters)}"
