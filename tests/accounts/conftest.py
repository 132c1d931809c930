"""A portal whose provider is in the test's hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client

from apps.accounts.models import Tenant
from apps.adapters.identity import calls, ring
from tests.accounts.fake_provider import FakeProvider


@pytest.fixture(autouse=True)
def _cache_of_its_own(settings: Any) -> None:
    """Runs beside this one share the cache server, and one of them may empty it."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "accounts"}}
    cache.clear()


@pytest.fixture
def provider(settings: Any, db: None) -> Iterator[FakeProvider]:
    one = FakeProvider()
    for name, path in {
        "OIDC_ISSUER": "", "OIDC_OP_AUTHORIZATION_ENDPOINT": "/auth", "OIDC_OP_TOKEN_ENDPOINT": "/token",
        "OIDC_OP_USER_ENDPOINT": "/me", "OIDC_OP_JWKS_ENDPOINT": "/jwks", "OIDC_OP_END_SESSION_ENDPOINT": "/end",
    }.items():  # fmt: skip
        setattr(settings, name, one.issuer + path)
    calls._client.cache_clear()
    ring.forget()
    connection.outside_calls_allowed = True  # the test's own transaction is not the portal's
    for slug, name in (("nlp", "NLP"), ("vision", "视觉")):
        Tenant.objects.get_or_create(slug=slug, defaults={"name": name})
    yield one
    connection.outside_calls_allowed = False
    one.close()
    calls._client.cache_clear()


@pytest.fixture
def impatient(provider: FakeProvider, settings: Any) -> None:
    """The portal waits half a second for an answer."""
    settings.OIDC_TIMEOUT = (0.5, 0.5)
    calls._client.cache_clear()


class Visitor(Client):
    """A browser at the portal. `start` and `finish` are the two halves of a sign-in, the provider's page between."""

    provider: FakeProvider

    def start(self, there: str = "") -> dict[str, str]:
        response = self.get("/oidc/authenticate/", {"next": there} if there else {})
        assert response.status_code == 302, response.content
        assert response["Location"].startswith(f"{self.provider.issuer}/auth?")
        asked = {name: values[0] for name, values in parse_qs(urlsplit(response["Location"]).query).items()}
        self.provider.nonce = asked["nonce"]
        return asked

    def finish(self, asked: dict[str, str], **changes: str | None) -> object:
        said = {"code": "c0de", "state": asked["state"], "iss": self.provider.issuer, **changes}
        return self.get(f"/oidc/callback/?{urlencode({k: v for k, v in said.items() if v is not None})}")

    def sign_in(self, there: str = "") -> object:
        return self.finish(self.start(there))

    @property
    def signed_in(self) -> bool:
        return self.get("/settings/").status_code == 200


@pytest.fixture
def visitor(provider: FakeProvider) -> Visitor:
    one = Visitor()
    one.provider = provider
    return one
