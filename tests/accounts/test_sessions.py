"""What happens to a session after sign-in: refresh, outage, disabling, lost groups, logout from either side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from apps.accounts import services
from apps.accounts.models import LogoutToken, Membership, ProviderSession, User
from apps.audit.models import Entry
from tests.accounts.conftest import Visitor
from tests.accounts.fake_provider import SECOND, FakeProvider


def age(seconds: float = 61, **more: Any) -> None:
    """Make every session look as if the provider had confirmed it so long ago."""
    past = timezone.now() - timedelta(seconds=seconds)
    ProviderSession.objects.update(checked_at=past, lease_until=past, **more)


@pytest.fixture
def inside(visitor: Visitor) -> Visitor:
    """A visitor who has signed in."""
    assert visitor.sign_in().status_code == 302
    return visitor


def refreshes(provider: FakeProvider) -> int:
    return provider.calls["/token"] - 1


def test_provider_is_asked_once_an_interval(inside: Visitor, provider: FakeProvider) -> None:
    for _ in range(3):
        assert inside.signed_in
    assert refreshes(provider) == 0
    age()
    for _ in range(3):
        assert inside.signed_in
    assert refreshes(provider) == 1
    assert ProviderSession.objects.get().refresh_token == provider.current_refresh


METHODS: dict[str, Callable[[Visitor], Any]] = {
    "GET": lambda v: v.get("/settings/"),
    "htmx GET": lambda v: v.get("/settings/", headers={"HX-Request": "true"}),
    "POST": lambda v: v.post("/settings/preferences/", {"theme": "dark"}),
}


@pytest.mark.parametrize("call", METHODS.values(), ids=METHODS)
def test_disabled_person_is_out_by_any_method(
    inside: Visitor, provider: FakeProvider, call: Callable[[Visitor], Any]
) -> None:
    """Keycloak sends no logout token when a person is disabled; mozilla-django-oidc#339: POST was never checked."""
    provider.token_error = (400, "invalid_grant")
    age()
    assert call(inside).status_code in (204, 302)
    assert User.objects.get().theme == ""
    assert not ProviderSession.objects.exists()
    provider.token_error = None  # enabled again: the old refresh token would work at the provider, but ours is gone
    assert not inside.signed_in
    assert Entry.objects.filter(action="accounts.session-ended-by-provider").count() == 1


OUTAGES = {
    "503": {"trouble": {"/token": "503"}},
    "429": {"trouble": {"/token": "429"}},
    "closed": {"trouble": {"/token": "close"}},
    "hanging": {"trouble": {"/token": "hang"}},
    "garbage": {"trouble": {"/token": "garbage"}},
    "our secret is wrong": {"token_error": (401, "unauthorized_client")},
    "our client is disabled": {"token_error": (401, "invalid_client")},
    "the new ID token does not hold": {"spoil": lambda _h, c: c.update(aud="other")},
    "the new ID token is nonsense": {"whole_token": "abc"},
}


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_outage_keeps_people_in_for_the_grace_time(
    inside: Visitor, provider: FakeProvider, outage: dict[str, Any], settings: Any, request: pytest.FixtureRequest
) -> None:
    if "hang" in outage.get("trouble", {}).values():
        request.getfixturevalue("impatient")
    for name, value in outage.items():
        setattr(provider, name, value)
    age()
    began = time.monotonic()
    assert inside.signed_in
    assert inside.signed_in, "the lease is the pause before the next try"
    assert time.monotonic() - began < 4
    assert refreshes(provider) == 1
    row = ProviderSession.objects.get()
    assert row.failing_since is not None
    assert services.provider_trouble() is not None

    age(failing_since=timezone.now() - timedelta(seconds=settings.PORTAL_OIDC_GRACE_SECONDS + 1))
    response = inside.get("/settings/")
    assert response.status_code == 503
    assert response["Retry-After"]
    assert inside.get("/api/v1/x", headers={"accept": "application/json"})["Content-Type"] == "application/problem+json"
    assert ProviderSession.objects.exists(), "only the provider's word ends a session"

    provider.trouble, provider.token_error, provider.whole_token = {}, None, ...
    provider.spoil = lambda header, claims: None
    provider.current_refresh = ProviderSession.objects.get().refresh_token
    age(failing_since=row.failing_since)
    assert inside.signed_in
    assert ProviderSession.objects.get().failing_since is None


def test_rotated_refresh_token_survives_a_bad_id_token(inside: Visitor, provider: FakeProvider) -> None:
    provider.spoil = lambda _header, claims: claims.update(aud="other")
    age()
    inside.get("/settings/")
    assert ProviderSession.objects.get().refresh_token == provider.current_refresh


def test_refresh_as_another_person_ends_the_session(inside: Visitor, provider: FakeProvider) -> None:
    provider.claims["sub"] = "eve"
    age()
    assert not inside.signed_in


def test_refresh_without_an_id_token_asks_userinfo(inside: Visitor, provider: FakeProvider) -> None:
    provider.leave_out = {"id_token"}
    provider.claims["groups"] = ["/nlp/viewers"]
    age()
    assert inside.signed_in
    assert Membership.objects.get().role == "viewer"


def test_session_without_a_row_is_over(inside: Visitor) -> None:
    ProviderSession.objects.all().delete()
    assert not inside.signed_in
    assert inside.session.get("_auth_user_id") is None


def test_token_under_a_lost_secret_key_means_signing_in_again(inside: Visitor, settings: Any) -> None:
    settings.SECRET_KEY = "another-key-that-never-wrote-anything-0123456789"
    assert ProviderSession.objects.get().refresh_token == ""


def test_idle_session_ends_and_polling_does_not_count(inside: Visitor, settings: Any) -> None:
    long_ago = timezone.now() - timedelta(seconds=settings.PORTAL_IDLE_SECONDS - 10)
    ProviderSession.objects.update(used_at=long_ago)
    inside.get("/settings/", headers={"HX-Request": "true", "Sec-Fetch-Mode": "cors"})
    assert ProviderSession.objects.get().used_at == long_ago
    assert inside.signed_in
    assert ProviderSession.objects.get().used_at > long_ago
    ProviderSession.objects.update(used_at=long_ago - timedelta(seconds=20))
    assert not inside.signed_in


def test_sessions_left_idle_are_cleared_away_at_the_next_sign_in(inside: Visitor, settings: Any) -> None:
    forgotten = ProviderSession.objects.get()
    ProviderSession.objects.update(used_at=timezone.now() - timedelta(seconds=settings.PORTAL_IDLE_SECONDS + 1))
    other = Visitor()
    other.provider = inside.provider
    other.sign_in()
    assert ProviderSession.objects.get().pk != forgotten.pk
    assert not Session.objects.filter(pk=forgotten.session_key).exists()


@pytest.mark.django_db(transaction=True)
def test_six_requests_at_once_refresh_once(visitor: Visitor, provider: FakeProvider) -> None:
    """One-use refresh tokens: a second request with the same one would end the session for all."""
    visitor.sign_in()
    cookies = {name: morsel.value for name, morsel in visitor.cookies.items()}

    def request(_: int) -> int:
        other = Visitor()
        other.cookies.load(cookies)
        try:
            return other.get("/settings/").status_code
        finally:
            connection.close()

    for _round in range(3):
        age()
        before = provider.calls["/token"]
        with ThreadPoolExecutor(6) as pool:
            assert set(pool.map(request, range(6))) == {200}
        assert provider.calls["/token"] - before == 1
    age()
    assert visitor.signed_in, "the row still holds the newest refresh token"


# --- groups ----------------------------------------------------------------------------------------------------------


def roles() -> dict[str, str]:
    return dict(Membership.objects.values_list("tenant__slug", "role"))


def test_group_taken_away_is_gone_at_the_next_refresh(visitor: Visitor, provider: FakeProvider) -> None:
    provider.claims["groups"] = [
        "/nlp/data-scientists",
        "/vision/viewers",
        "/nowhere/team-admins",
        "/platform/auditors",
    ]
    visitor.sign_in()
    assert roles() == {"nlp": "data-scientist", "vision": "viewer"}
    assert User.objects.get().platform_roles == ["auditor"]
    provider.claims["groups"] = ["/nlp/viewers"]
    age()
    assert visitor.signed_in
    assert roles() == {"nlp": "viewer"}
    assert User.objects.get().platform_roles == []
    entries = Entry.objects.filter(action="accounts.roles-changed").order_by("id")
    assert {"before": "data-scientist", "after": "viewer"} in [entry.params for entry in entries]


def test_absent_groups_claim_takes_the_last_group_away(visitor: Visitor, provider: FakeProvider, settings: Any) -> None:
    """Keycloak leaves the claim out instead of sending []."""
    provider.claims["groups"] = ["/nlp/viewers"]
    visitor.sign_in()
    del provider.claims["groups"]
    settings.PORTAL_OIDC_GROUPS_ABSENT = "keep"
    age()
    assert visitor.signed_in
    assert roles() == {"nlp": "viewer"}
    settings.PORTAL_OIDC_GROUPS_ABSENT = "empty"
    provider.claims["_claim_names"] = {"groups": "src1"}
    age()
    assert visitor.signed_in
    assert roles() == {"nlp": "viewer"}, "too many groups for a token: nothing is known, so nothing changes"
    del provider.claims["_claim_names"]
    age()
    assert visitor.signed_in
    assert roles() == {}


def test_groups_from_userinfo(visitor: Visitor, provider: FakeProvider, settings: Any) -> None:
    settings.PORTAL_OIDC_GROUPS_FROM = "userinfo"
    provider.userinfo = {"groups": ["/nlp/viewers"]}
    visitor.sign_in()
    age()
    assert visitor.signed_in
    assert roles() == {"nlp": "viewer"}


SHAPES: dict[str, Any] = {
    "null": None, "string": "/nlp/viewers", "comma list": "/nlp/viewers,/vision/viewers", "numbers": [1, 2.5, True],
    "object": {"/nlp/viewers": 1}, "nested": [["/nlp/viewers"]], "300": [f"/t{n}/viewers" for n in range(300)],
    "3000": [f"/组{n}/viewers" for n in range(3000)],
    "hostile": [
        "/../nlp/viewers", "//nlp/viewers", "/nlp/viewers/", "/NLP/viewers", "/nlp/viewers\n", "/nlp\0/viewers",
        "/nlp/\u202eviewers", "<script>/nlp/viewers", "x" * 10_000, "", "/", "nlp/viewers", "/nlp//viewers", "/nlp",
        "/nlp/viewers/x", "\ud800", "/platform/viewers", "/x/platform/operators", "/platform/operators ",
    ],
}  # fmt: skip


@pytest.mark.parametrize("groups", SHAPES.values(), ids=SHAPES)
def test_groups_of_any_shape_give_no_right_and_no_error(visitor: Visitor, provider: FakeProvider, groups: Any) -> None:
    provider.claims["groups"] = groups
    assert visitor.sign_in().status_code == 302
    assert roles() == {}
    assert User.objects.get().platform_roles == []


# --- signing out -----------------------------------------------------------------------------------------------------


def test_sign_out_shows_the_provider_its_own_id_token(inside: Visitor, provider: FakeProvider) -> None:
    hint = ProviderSession.objects.get().id_token
    assert inside.get("/sign-out/").status_code == 405
    assert inside.signed_in
    response = inside.post("/sign-out/")
    there = urlsplit(response["Location"])
    asked = {name: values[0] for name, values in parse_qs(there.query).items()}
    assert f"{there.scheme}://{there.netloc}{there.path}" == f"{provider.issuer}/end"
    assert asked == {
        "id_token_hint": hint,
        "post_logout_redirect_uri": "http://testserver/signed-out/",
        "client_id": "maas-portal",
    }
    assert not inside.signed_in
    assert not ProviderSession.objects.exists()
    assert inside.get("/signed-out/").status_code == 200


def test_sign_out_needs_the_csrf_token(inside: Visitor) -> None:
    inside.handler.enforce_csrf_checks = True
    assert inside.post("/sign-out/").status_code == 403
    inside.handler.enforce_csrf_checks = False
    assert inside.signed_in


def test_htmx_sign_out(inside: Visitor, provider: FakeProvider) -> None:
    response = inside.post("/sign-out/", headers={"HX-Request": "true"})
    assert response.status_code == 204
    assert response["HX-Redirect"].startswith(f"{provider.issuer}/end?")


def test_hint_too_long_for_an_address_goes_by_form(visitor: Visitor, provider: FakeProvider) -> None:
    provider.claims["groups"] = [f"/部门{n}/viewers" for n in range(300)]
    visitor.sign_in()
    hint = ProviderSession.objects.get().id_token
    page = visitor.post("/sign-out/").content.decode()
    assert f'action="{provider.issuer}/end"' in page
    assert f'value="{hint}"' in page
    assert not visitor.signed_in


def notify(visitor: Visitor, token: object) -> Any:
    outsider = Visitor(enforce_csrf_checks=True)
    return outsider.post("/oidc/backchannel-logout/", {"logout_token": token})


def test_backchannel_ends_the_named_session_only(inside: Visitor, provider: FakeProvider) -> None:
    provider.sid = "sid-2"
    other = Visitor()
    other.provider = provider
    other.sign_in()
    response = notify(inside, provider.logout_token(sid="sid-1"))
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    assert not inside.signed_in
    assert other.signed_in


def test_backchannel_with_sub_alone_ends_all_of_that_person(inside: Visitor, provider: FakeProvider) -> None:
    other = Visitor()
    other.provider = provider
    other.sign_in()
    assert notify(inside, provider.logout_token(sid=...)).status_code == 200
    assert not inside.signed_in
    assert not other.signed_in


def test_backchannel_for_an_unknown_session_is_fine_and_ends_nothing(inside: Visitor, provider: FakeProvider) -> None:
    assert notify(inside, provider.logout_token(sid="other")).status_code == 200
    assert notify(inside, provider.logout_token(sub="eve")).status_code == 200
    assert inside.signed_in


def test_backchannel_token_is_good_once(inside: Visitor, provider: FakeProvider) -> None:
    token = provider.logout_token()
    assert notify(inside, token).status_code == 200
    inside.sign_in()
    assert notify(inside, token).status_code == 400
    assert inside.signed_in
    assert LogoutToken.objects.count() == 1


EVENT = "http://schemas.openid.net/event/backchannel-logout"
FORGED: dict[str, Callable[[FakeProvider], object]] = {
    "aud of another client": lambda p: p.logout_token(aud="other"),
    "no aud": lambda p: p.logout_token(aud=...),
    "another iss": lambda p: p.logout_token(iss="http://evil.test"),
    "no iss": lambda p: p.logout_token(iss=...),
    "no events": lambda p: p.logout_token(events=...),
    "events a list": lambda p: p.logout_token(events=[EVENT]),
    "another event": lambda p: p.logout_token(events={"x": {}}),
    "event not an object": lambda p: p.logout_token(events={EVENT: True}),
    "a nonce": lambda p: p.logout_token(nonce="n"),
    "neither sid nor sub": lambda p: p.logout_token(sid=..., sub=...),
    "sid a number": lambda p: p.logout_token(sid=1),
    "no jti": lambda p: p.logout_token(jti=...),
    "no iat": lambda p: p.logout_token(iat=...),
    "four minutes old": lambda p: p.logout_token(iat=int(time.time()) - 241),
    "expired": lambda p: p.logout_token(exp=int(time.time()) - 61),
    "from the future": lambda p: p.logout_token(iat=int(time.time()) + 300),
    "an ID token": lambda p: p.id_token("a", nonce=None),
    "typ of an access token": lambda p: p.logout_token(header={"typ": "at+jwt"}),
    "another key": lambda p: p.logout_token(key=SECOND),
    "unknown kid": lambda p: p.logout_token(header={"kid": "other"}),
    "alg none": lambda p: p.logout_token(header={"alg": "none"}),
    "nothing": lambda p: "",
    "abc": lambda p: "abc",
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_forged_logout_token_is_a_400(
    inside: Visitor, provider: FakeProvider, forge: Callable[[FakeProvider], object]
) -> None:
    response = notify(inside, forge(provider))
    assert response.status_code == 400
    assert "no-store" in response["Cache-Control"]
    assert json.loads(response.content)["error"] == "invalid_request"
    assert inside.signed_in


def test_backchannel_takes_only_posts(inside: Visitor, provider: FakeProvider) -> None:
    assert inside.get("/oidc/backchannel-logout/", {"logout_token": provider.logout_token()}).status_code == 405
    assert inside.signed_in


# --- who must sign in, and how they are told -------------------------------------------------------------------------


def test_htmx_request_without_session_is_sent_to_sign_in_as_a_whole(visitor: Visitor) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/jobs/?page=2#x"}
    response = visitor.get("/settings/", headers=headers)
    assert (response.status_code, response["HX-Redirect"]) == (204, "/sign-in/?next=%2Fjobs%2F%3Fpage%3D2")
    evil = visitor.get("/settings/", headers={**headers, "HX-Current-URL": "http://evil.test/"})
    assert evil["HX-Redirect"] == "/sign-in/?next=%2F"


def test_fetch_without_session_is_a_401(visitor: Visitor) -> None:
    response = visitor.get("/settings/", headers={"Sec-Fetch-Dest": "empty"})
    assert (response.status_code, response["Content-Type"]) == (401, "application/problem+json")


def test_page_without_session_comes_back_to_itself(visitor: Visitor) -> None:
    assert visitor.get("/settings/?a=1")["Location"] == "/sign-in/?next=%2Fsettings%2F%3Fa%3D1"
    assert visitor.post("/settings/tokens/", headers={"Referer": "http://testserver/settings/"})["Location"] == (
        "/sign-in/?next=%2Fsettings%2F"
    )


def test_sockets_ask_the_same_question(inside: Visitor, provider: FakeProvider) -> None:
    key = inside.session.session_key
    actor = services.session_actor(key)
    assert actor is not None
    assert actor.name == "Ada"
    provider.token_error = (400, "invalid_grant")
    age()
    assert services.session_actor(key) is None
    assert not ProviderSession.objects.exists()


def test_many_sockets_ask_it_in_two_queries(
    inside: Visitor, provider: FakeProvider, django_assert_num_queries: Any
) -> None:
    key = inside.session.session_key
    with django_assert_num_queries(2):
        actors, due = services.session_actors([key, "0123456789abcdefghijklmnopqrstuv"])
    assert (actors, due) == ({key: services.session_actor(key)}, set())
    age()
    assert services.session_actors([key]) == ({}, {key}), "the provider is to be asked"
    provider.token_error = (400, "invalid_grant")
    services.session_actor(key)
    assert services.session_actors([key]) == ({}, set())


def test_a_session_without_its_dictionary_is_over_for_sockets_too(inside: Visitor) -> None:
    key = inside.session.session_key
    inside.session.delete()
    assert services.session_actors([key]) == ({}, set())


@pytest.fixture
def told() -> Iterator[list[str]]:
    heard: list[str] = []
    services.on_revoked.append(heard.append)
    yield heard
    services.on_revoked.remove(heard.append)


def test_whoever_keeps_something_open_is_told(
    inside: Visitor, provider: FakeProvider, told: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        notify(inside, provider.logout_token())
    assert told == [str(User.objects.get().pk)]
