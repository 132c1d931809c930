"""The whole way with the demo's provider, over real HTTP: portal and provider call each other."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from apps.accounts.models import Membership, ProviderSession, Tenant, User
from apps.adapters.identity import calls, ring
from apps.audit.models import Entry
from tests.identity.provider import Provider, follow, needs_node, sign_in

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def portal(live_server: Any, settings: Any, tmp_path: Path) -> Iterator[tuple[str, Provider]]:
    """Address of a portal and the provider it knows; refresh tokens are good for one use."""
    needs_node()
    one = Provider(tmp_path, rotate_refresh_tokens=True)
    client = one.config["client"]
    client["redirect_uris"] = [f"{live_server.url}/oidc/callback/"]
    client["post_logout_redirect_uris"] = [f"{live_server.url}/signed-out/"]
    client["backchannel_logout_uri"] = f"{live_server.url}/oidc/backchannel-logout/"
    client["secret"] = settings.OIDC_RP_CLIENT_SECRET
    one.save()
    one.start()
    settings.OIDC_ISSUER = one.issuer
    for name, path in {
        "AUTHORIZATION": "/auth", "TOKEN": "/token", "USER": "/me", "JWKS": "/jwks", "END_SESSION": "/session/end",
    }.items():  # fmt: skip
        setattr(settings, f"OIDC_OP_{name}_ENDPOINT", one.issuer + path)
    calls._client.cache_clear()
    ring.forget()
    Tenant.objects.create(slug="nlp", name="NLP")
    yield live_server.url, one
    one.stop(kill=True)


@pytest.fixture
def reader(portal: tuple[str, Provider]) -> Iterator[httpx.Client]:
    url, _provider = portal
    with httpx.Client(base_url=url) as one:
        address = one.get("/oidc/authenticate/?next=/permissions/").headers["location"]
        location = sign_in(one, address, "lina", "lina-demo")
        response = one.get(location)
        assert (response.status_code, response.headers["location"]) == (302, "/permissions/")
        yield one


def is_in(reader: httpx.Client) -> bool:
    return reader.get("/settings/").status_code == 200


def past_due() -> None:
    ProviderSession.objects.update(checked_at="2020-01-01T00:00:00Z", lease_until="2020-01-01T00:00:00Z")


def test_sign_in_gives_roles_and_refreshes_go_on(reader: httpx.Client, portal: tuple[str, Provider]) -> None:
    user = User.objects.get()
    assert (user.name, user.email, user.sub) == ("Li Na", "lina@example.test", "lina")
    assert Membership.objects.get().role == "data-scientist"
    seen = set()
    for _ in range(3):
        past_due()
        assert is_in(reader)
        seen.add(ProviderSession.objects.get().refresh_token)
    assert len(seen) == 3


def test_person_disabled_at_the_provider_is_out(reader: httpx.Client, portal: tuple[str, Provider]) -> None:
    _url, provider = portal
    provider.config["people"][0]["disabled"] = True
    provider.save()
    past_due()
    assert not is_in(reader)
    assert not ProviderSession.objects.exists()


def test_group_taken_away_at_the_provider(reader: httpx.Client, portal: tuple[str, Provider]) -> None:
    _url, provider = portal
    provider.config["people"][0]["groups"] = []
    provider.save()
    past_due()
    assert is_in(reader)
    assert not Membership.objects.exists()


def test_provider_restarted_under_a_session(reader: httpx.Client, portal: tuple[str, Provider]) -> None:
    _url, provider = portal
    provider.stop(kill=True)
    past_due()
    assert is_in(reader), "an outage is not the person's fault"
    assert ProviderSession.objects.get().failing_since is not None
    provider.start()
    past_due()
    assert is_in(reader)
    assert ProviderSession.objects.get().failing_since is None


def test_sign_out_ends_both_sessions_and_comes_back(reader: httpx.Client, portal: tuple[str, Provider]) -> None:
    url, provider = portal
    page = reader.get("/settings/").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert token
    response = reader.post("/sign-out/", data={"csrfmiddlewaretoken": token[1]}, headers={"referer": url})
    assert response.headers["location"].startswith(f"{provider.issuer}/session/end?")
    back = follow(reader, reader.get(response.headers["location"]))
    assert back.headers["location"] == f"{url}/signed-out/"
    assert reader.get(back.headers["location"]).status_code == 200
    assert not is_in(reader)
    start = reader.get("/oidc/authenticate/").headers["location"]
    assert follow(reader, reader.get(start)).status_code == 200, "the provider asks for the password again"


def test_sign_out_elsewhere_reaches_the_portal_by_the_back_channel(
    reader: httpx.Client, portal: tuple[str, Provider]
) -> None:
    url, provider = portal
    row = ProviderSession.objects.get()
    hint = {"id_token_hint": row.id_token, "post_logout_redirect_uri": f"{url}/signed-out/"}
    began = time.monotonic()
    assert reader.get(f"{provider.issuer}/session/end", params=hint).status_code in (302, 303)
    assert time.monotonic() - began < 2
    assert not ProviderSession.objects.exists()
    assert not is_in(reader)
    assert Entry.objects.filter(action="accounts.session-ended-by-provider").count() == 1
