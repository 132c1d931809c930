"""API tokens: shown once, kept as a hash, ended at once; and how REST requests are told apart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts import services
from apps.accounts.domain import Role
from apps.accounts.models import ApiToken, Membership, Tenant, User
from apps.accounts.types import Denied
from apps.audit.models import Entry
from tests.accounts.conftest import Visitor
from tests.accounts.fake_provider import FakeProvider

pytestmark = pytest.mark.urls("tests.accounts.urls")


@pytest.fixture
def ada(db: None) -> User:
    user = User.objects.create(iss="http://id.test", sub="ada", name="Ada")
    tenant = Tenant.objects.get_or_create(slug="nlp", defaults={"name": "NLP"})[0]
    Membership.objects.create(user=user, tenant=tenant, role=Role.SCIENTIST)
    return user


def make(user: User, *, read_only: bool = False) -> str:
    return services.create_token(user.actor(), name="ci", days=30, read_only=read_only)


def call(clear: str, method: str = "get") -> Any:
    headers = {"Authorization": f"Bearer {clear}"}
    return getattr(Client(), method)("/api/v1/whoami/", headers=headers, content_type="application/json")


def test_token_is_kept_as_a_hash_and_says_who_calls(ada: User) -> None:
    clear = make(ada)
    token = ApiToken.objects.get()
    assert clear.startswith("mp_")
    assert clear not in str(ApiToken.objects.values().get())
    assert token.prefix == clear[:10]
    response = call(clear)
    assert response.json()["id"] == f"user:{ada.pk}"
    assert "job.submit" in response.json()["may"]
    assert "token.manage-own" not in response.json()["may"], "a token never makes another"
    assert clear not in str(list(Entry.objects.values()))


def test_read_only_token_looks_and_changes_nothing(ada: User) -> None:
    clear = make(ada, read_only=True)
    assert all(right.endswith(".view") for right in call(clear).json()["may"])
    assert call(clear, "post").status_code == 403
    assert call(make(ada), "post").status_code == 201


ENDINGS: dict[str, Any] = {
    "revoked": lambda user, token: services.revoke_token(user.actor(), token.pk),
    "expired": lambda user, token: ApiToken.objects.update(expires_at=timezone.now()),
    "owner switched off": lambda user, token: User.objects.update(is_active=False),
    "owner not confirmed for 15 days": lambda user, token: User.objects.update(
        confirmed_at=timezone.now() - timedelta(days=15)
    ),
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_ended_token_is_a_401_at_once(ada: User, end: Any) -> None:
    clear = make(ada)
    assert call(clear).status_code == 200
    end(ada, ApiToken.objects.get())
    response = call(clear)
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == 'Bearer realm="api"'
    assert response["Content-Type"] == "application/problem+json"


MADE_UP = ["", "Bearer", "Bearer ", "Bearer x", "Bearer mp_", "Bearer mp_" + "a" * 43, "Bearer mp_é", "Bearer mp_a b"]


@pytest.mark.parametrize("value", [*MADE_UP, "Bearer " + "mp_" * 5000, "bearer null", "Basic eDp5"])
def test_made_up_credentials_are_a_401(ada: User, value: str) -> None:
    """Argo Workflows CVE-2024-53862: a fake or empty token was taken on a side route."""
    make(ada)
    assert Client().get("/api/v1/whoami/", headers={"Authorization": value}).status_code == 401
    assert Client().get("/forgotten/", headers={"Authorization": value}).status_code == 302


def test_last_use_is_written_once_a_minute(ada: User) -> None:
    clear = make(ada)
    call(clear)
    first = ApiToken.objects.get().last_used_at
    call(clear)
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(seconds=61))
    call(clear)
    assert ApiToken.objects.get().last_used_at > first


def test_somebody_elses_token_cannot_be_revoked(ada: User, client: Client) -> None:
    make(ada)
    other = User.objects.create(iss="http://id.test", sub="eve", name="Eve", platform_roles=["platform-operator"])
    with pytest.raises(ApiToken.DoesNotExist):
        services.revoke_token(other.actor(), ApiToken.objects.get().pk)
    assert ApiToken.objects.get().revoked_at is None


def test_actor_of_a_token_makes_no_token_and_the_refusal_is_recorded(ada: User) -> None:
    actor = ada.actor(token_id=1)
    with pytest.raises(Denied):
        services.create_token(actor, name="x", days=1, read_only=False)
    entry = Entry.objects.get()
    assert (entry.result, entry.action) == ("refused", "accounts.token-created")


@pytest.mark.parametrize(("name", "days"), [("", 1), ("x" * 81, 1), ("a\nb", 1), ("ok", 0), ("ok", 366)])
def test_bad_token_is_not_made(ada: User, name: str, days: int) -> None:
    with pytest.raises(ValueError):
        services.create_token(ada.actor(), name=name, days=days, read_only=False)
    assert not ApiToken.objects.exists()


def test_browser_session_needs_csrf_and_its_end_is_a_401(visitor: Visitor, provider: FakeProvider) -> None:
    provider.claims["groups"] = ["/nlp/data-scientists"]
    visitor.sign_in()
    assert visitor.get("/api/v1/whoami/").status_code == 200
    visitor.handler.enforce_csrf_checks = True
    assert visitor.post("/api/v1/whoami/", {}, content_type="application/json").status_code == 403
    visitor.handler.enforce_csrf_checks = False
    assert visitor.post("/api/v1/whoami/", {}, content_type="application/json").status_code == 201
    visitor.post("/sign-out/")
    assert visitor.get("/api/v1/whoami/").status_code == 401


def test_token_speaks_for_its_owner_whatever_session_is_sent_along(
    ada: User, visitor: Visitor, provider: FakeProvider
) -> None:
    clear = make(ada)
    provider.claims["sub"] = "eve"
    visitor.sign_in()
    response = visitor.get("/api/v1/whoami/", headers={"Authorization": f"Bearer {clear}"})
    assert response.json()["id"] == f"user:{ada.pk}"
    assert visitor.get("/api/v1/whoami/", headers={"Authorization": "Bearer mp_made-up"}).status_code == 401


def test_a_forgotten_view_asks_to_sign_in(db: None) -> None:
    response = Client().get("/forgotten/")
    assert response.status_code == 302
    assert b"secret" not in response.content
