"""Signing in: only with an ID token that was made here, now, for us, and for this very attempt."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from apps.accounts.models import ProviderSession, User
from apps.adapters.identity import ring
from apps.audit.models import Entry
from tests.accounts.conftest import Visitor
from tests.accounts.fake_provider import FIRST, SECOND, FakeProvider, Key, _part, _text

Change = Callable[[dict[str, Any], dict[str, Any]], None]


def claims(**changes: Any) -> Change:
    return lambda _header, claims: claims.update(changes)


def header(**changes: Any) -> Change:
    return lambda header, _claims: header.update(changes)


NOW = int(time.time())
SPOILED: dict[str, Change] = {
    "aud of another client": claims(aud="other"),
    "no aud": claims(aud=...),
    "aud a list with another azp": claims(aud=["maas-portal", "other"], azp="other"),
    "aud a list without azp": claims(aud=["maas-portal", "other"], azp=...),
    "azp of another client": claims(azp="other"),
    "iss of another provider": claims(iss="http://evil.test"),
    "iss with a trailing slash": lambda _h, c: c.update(iss=c["iss"] + "/"),
    "no iss": claims(iss=...),
    "no exp": claims(exp=...),
    "expired": claims(exp=NOW - 3600, iat=NOW - 7200),
    "exp is a word": claims(exp="tomorrow"),
    "iat in the future": claims(iat=NOW + 3600),
    "iat eleven minutes ago": claims(iat=NOW - 660),
    "iat a string of figures": claims(iat=str(NOW)),
    "iat infinite": claims(iat=float("inf")),
    "no iat": claims(iat=...),
    "no sub": claims(sub=...),
    "sub a number": claims(sub=7),
    "sub empty": claims(sub=""),
    "sub with NUL": claims(sub="a\0b"),
    "sub too long": claims(sub="x" * 256),
    "wrong at_hash": claims(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "at_hash a number": claims(at_hash=1),
    "wrong nonce": claims(nonce="other"),
    "no nonce": claims(nonce=...),
    "an access token": claims(typ="Bearer"),
    "an RFC 9068 access token": header(typ="at+jwt"),
    "a logout token": lambda h, c: (h.update(typ="logout+jwt"), c.update(events={})),  # type: ignore[func-returns-value]
    "events in an ID token": claims(events={"http://schemas.openid.net/event/backchannel-logout": {}}),
    "no kid": header(kid=...),
    "kid a number": header(kid=1),
    "unknown kid": header(kid="unknown"),
    "kid of the encryption key": header(kid="for-encryption"),
    "alg none in the header": header(alg="none"),
    "alg HS256 in the header": header(alg="HS256"),
    "crit": header(crit=["exp"]),
    "embedded key": header(kid="unknown", jwk=SECOND.public(kid="unknown")),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_spoiled_id_token_is_refused(visitor: Visitor, provider: FakeProvider, spoil: Change) -> None:
    provider.spoil = spoil
    response = visitor.sign_in()
    assert response.status_code == 403
    assert "could not be signed in" in response.content.decode()
    assert not visitor.signed_in
    assert not User.objects.exists()
    assert Entry.objects.get().action == "accounts.sign-in-refused"


def unsigned(alg: str) -> Callable[[FakeProvider, str], str]:
    return lambda provider, token: f"{_part({'alg': alg, 'kid': 'first'})}.{token.split('.')[1]}."


def hmac_with(secret: bytes) -> Callable[[FakeProvider, str], str]:
    def forge(provider: FakeProvider, token: str) -> str:
        signed = f"{_part({'alg': 'HS256', 'kid': 'first'})}.{token.split('.')[1]}"
        return f"{signed}.{_text(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"

    return forge


def flipped(_provider: FakeProvider, token: str) -> str:
    head, payload, signature = token.split(".")
    return f"{head}.{payload}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


def swapped(_provider: FakeProvider, token: str) -> str:
    head, _payload, signature = token.split(".")
    said = jwt.decode(token, options={"verify_signature": False})
    return f"{head}.{_part({**said, 'sub': 'root'})}.{signature}"


def by_another_key(provider: FakeProvider, token: str) -> str:
    return provider.sign(jwt.decode(token, options={"verify_signature": False}), key=SECOND)


PUBLIC = FIRST.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
FORGED: dict[str, Callable[[FakeProvider, str], object]] = {
    "alg none": unsigned("none"),
    "alg NONE": unsigned("NONE"),
    "HS256 with the public key": hmac_with(PUBLIC),
    "HS256 with the client secret": hmac_with(b"the-tests-own-client-secret-0123456789"),
    "flipped signature": flipped,
    "swapped payload": swapped,
    "known kid, another key": by_another_key,
    "abc": lambda *_: "abc",
    "null": lambda *_: None,
    "list": lambda *_: ["a"],
    "empty": lambda *_: "",
    "header nested too deeply": lambda *_: f"{_text(b'[' * 5000)}.e30.AAAA",
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_forged_id_token_never_signs_in_or_breaks(
    visitor: Visitor, provider: FakeProvider, forge: Callable[[FakeProvider, str], object]
) -> None:
    asked = visitor.start()
    provider.whole_token = forge(provider, str(provider.id_token("access-1", nonce=asked["nonce"])))
    response = visitor.finish(asked)
    assert response.status_code in (403, 503)
    assert not visitor.signed_in


def test_no_id_token_at_all(visitor: Visitor, provider: FakeProvider) -> None:
    provider.leave_out = {"id_token"}
    assert visitor.sign_in().status_code == 403


def test_no_refresh_token_is_said_plainly(visitor: Visitor, provider: FakeProvider) -> None:
    provider.leave_out = {"refresh_token"}
    response = visitor.sign_in()
    assert response.status_code == 403
    assert "no refresh token" in response.content.decode()


def test_good_sign_in_uses_pkce_and_keeps_tokens_unreadable(visitor: Visitor, provider: FakeProvider) -> None:
    asked = visitor.start("/permissions/")
    assert asked["code_challenge_method"] == "S256"
    response = visitor.finish(asked)
    assert (response.status_code, response["Location"]) == (302, "/permissions/")
    verifier = provider.last["code_verifier"]
    assert _text(hashlib.sha256(verifier.encode()).digest()) == asked["code_challenge"]
    assert visitor.signed_in
    user = User.objects.get()
    assert (user.iss, user.sub, user.name, user.email) == (provider.issuer, "ada", "Ada", "ada@example.test")
    row = ProviderSession.objects.get()
    assert row.refresh_token == provider.current_refresh
    assert row.id_token.count(".") == 2
    stored = (
        ProviderSession.objects.values_list("refresh_token")
        .query.model.objects.extra(select={"raw": "refresh_token"})
        .values_list("raw", flat=True)[0]
    )
    assert provider.current_refresh not in stored
    assert provider.current_refresh not in json.dumps(dict(visitor.session.items()))
    assert [entry.action for entry in Entry.objects.all()] == ["accounts.signed-in"]


def test_userinfo_of_another_subject_is_refused(visitor: Visitor, provider: FakeProvider) -> None:
    provider.userinfo = {"sub": "eve"}
    assert visitor.sign_in().status_code == 403
    assert not User.objects.exists()


@pytest.mark.parametrize("verified", [True, False, None, "true"])
def test_same_email_is_another_person(visitor: Visitor, provider: FakeProvider, verified: object) -> None:
    """Rancher CVE-2025-23389: a second identity never gets into the first one's account."""
    visitor.sign_in()
    provider.claims |= {"sub": "eve", "email_verified": verified}
    other = Visitor()
    other.provider = provider
    other.sign_in()
    assert User.objects.count() == 2
    eve = User.objects.get(sub="eve")
    assert eve.email == ("ada@example.test" if verified is True else "")


def test_session_key_changes_at_sign_in(visitor: Visitor) -> None:
    asked = visitor.start()
    before = visitor.session.session_key
    visitor.finish(asked)
    assert visitor.session.session_key != before


# --- the callback ----------------------------------------------------------------------------------------------------


def test_callback_of_another_issuer_is_refused(visitor: Visitor, provider: FakeProvider) -> None:
    asked = visitor.start()
    assert visitor.finish(asked, iss=provider.issuer + "/").status_code == 403
    assert provider.calls["/token"] == 0


def test_provider_without_iss_in_the_callback_is_served(visitor: Visitor) -> None:
    assert visitor.finish(visitor.start(), iss=None).status_code == 302


@pytest.mark.parametrize("state", ["", "unknown", None])
def test_unknown_state_asks_nobody(visitor: Visitor, provider: FakeProvider, state: str | None) -> None:
    visitor.start()
    assert visitor.finish({"state": ""}, state=state).status_code == 403
    assert provider.calls["/token"] == 0


def test_state_is_good_once_and_the_back_button_goes_home(visitor: Visitor, provider: FakeProvider) -> None:
    asked = visitor.start()
    visitor.finish(asked)
    again = visitor.finish(asked)
    assert (again.status_code, again["Location"]) == (302, "/")
    assert provider.calls["/token"] == 1


def test_error_from_the_provider_leaves_a_session_alone(visitor: Visitor) -> None:
    """Otherwise any page could sign people out by a picture of /oidc/callback/?error=x."""
    visitor.sign_in()
    asked = visitor.start()
    response = visitor.finish(asked, code=None, error="access_denied")
    assert response.status_code == 403
    assert "did not let you in" in response.content.decode()
    assert visitor.signed_in
    visitor.get("/oidc/callback/?error=login_required&state=made-up")
    assert visitor.signed_in


def test_two_tabs_each_come_back_to_their_own_page(visitor: Visitor, provider: FakeProvider) -> None:
    """mozilla-django-oidc#302, #363: one key for all tabs."""
    first, second = visitor.start("/settings/"), visitor.start("/permissions/")
    provider.nonce = first["nonce"]
    assert visitor.finish(first)["Location"] == "/settings/"
    provider.nonce = second["nonce"]
    assert visitor.finish(second)["Location"] == "/permissions/"
    assert ProviderSession.objects.count() == 1


@pytest.mark.parametrize(
    "there",
    [
        "http://evil.test/", "//evil.test/", "/\\evil.test", "https:evil.test", "javascript:alert(1)",
        "http:///evil.test", "\t//evil.test",
    ],
)  # fmt: skip
def test_next_never_leads_away(visitor: Visitor, there: str) -> None:
    assert visitor.sign_in(there)["Location"] == "/"
    assert "evil" not in visitor.get("/sign-in/", {"next": there}).get("Location", "")


def test_another_name_of_this_machine_is_led_to_the_one_the_provider_knows(visitor: Visitor, settings: Any) -> None:
    settings.BASE_URL = "http://127.0.0.1:8000"
    response = visitor.get("/oidc/authenticate/?next=/settings/", headers={"Host": "localhost:8000"})
    assert response["Location"] == "http://127.0.0.1:8000/oidc/authenticate/?next=/settings/"
    settings.BASE_URL = "https://portal.example.com"
    response = visitor.get("/oidc/authenticate/", headers={"Host": "localhost:8000"})
    assert "/auth?" in response["Location"], "a proxy may call the portal by whatever name it likes"


def test_inactive_person_is_refused_and_recorded(visitor: Visitor) -> None:
    visitor.sign_in()
    User.objects.update(is_active=False)
    assert not visitor.signed_in
    response = visitor.sign_in()
    assert response.status_code == 403
    assert "switched off" in response.content.decode()
    assert Entry.objects.filter(action="accounts.sign-in-refused", params__reason="disabled").count() == 1


# --- the provider in trouble ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/token", "/me", "/jwks"])
@pytest.mark.parametrize("trouble", ["503", "429", "close", "garbage", "list"])
def test_failing_provider_is_a_503_and_the_next_try_works(
    visitor: Visitor, provider: FakeProvider, path: str, trouble: str
) -> None:
    provider.trouble[path] = trouble
    response = visitor.sign_in()
    assert response.status_code == 503
    assert int(response["Retry-After"]) >= 1
    assert "did not answer" in visitor.get("/sign-in/").content.decode()
    provider.trouble.clear()
    ring._tried = float("-inf")
    assert visitor.sign_in().status_code == 302
    visitor.post("/sign-out/")
    assert "did not answer" not in visitor.get("/sign-in/").content.decode()


@pytest.mark.parametrize("path", ["/token", "/me", "/jwks"])
@pytest.mark.usefixtures("impatient")
def test_hanging_provider_holds_nobody_long(visitor: Visitor, provider: FakeProvider, path: str) -> None:
    provider.trouble[path] = "hang"
    began = time.monotonic()
    assert visitor.sign_in().status_code == 503
    assert time.monotonic() - began < 4


def test_trouble_at_a_second_sign_in_leaves_the_first_session(visitor: Visitor, provider: FakeProvider) -> None:
    visitor.sign_in()
    provider.trouble["/token"] = "503"
    assert visitor.sign_in().status_code == 503
    assert visitor.signed_in


@pytest.mark.parametrize(
    ("error", "status"),
    [((400, "invalid_grant"), 403), ((401, "invalid_client"), 503), ((401, "unauthorized_client"), 503)],
)
def test_token_errors_by_whose_fault(
    visitor: Visitor, provider: FakeProvider, error: tuple[int, str], status: int
) -> None:
    provider.token_error = error
    assert visitor.sign_in().status_code == status


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys_are_fetched_once_for_many_sign_ins(visitor: Visitor, provider: FakeProvider) -> None:
    for _ in range(4):
        assert visitor.sign_in().status_code == 302
    assert provider.calls["/jwks"] == 1


def test_rotated_key_is_fetched_at_once_and_many_unknown_ones_only_once(
    visitor: Visitor, provider: FakeProvider
) -> None:
    visitor.sign_in()
    ring._tried = float("-inf")
    provider.key = SECOND
    provider.keys.append(SECOND.public())
    assert visitor.sign_in().status_code == 302
    for number in range(8):
        provider.spoil = header(kid=f"unknown-{number}")
        assert visitor.sign_in().status_code == 403
    assert provider.calls["/jwks"] == 2


def test_reused_kid_with_a_new_key_locks_nobody_out(visitor: Visitor, provider: FakeProvider) -> None:
    visitor.sign_in()
    ring._tried = float("-inf")
    provider.key = Key("first")
    provider.keys = [provider.key.public()]
    assert visitor.sign_in().status_code == 302


def test_old_keys_serve_while_new_ones_cannot_be_fetched(visitor: Visitor, provider: FakeProvider) -> None:
    visitor.sign_in()
    ring._tried = ring._fetched = float("-inf")
    provider.trouble["/jwks"] = "503"
    assert visitor.sign_in().status_code == 302
    assert provider.calls["/jwks"] == 2


def test_unusable_keys_in_the_set_are_passed_over(visitor: Visitor, provider: FakeProvider) -> None:
    broken: list[Any] = [None, "x", {}, {"kid": "first", "kty": "oct", "k": "AA"}, FIRST.public(n="!"), {"kid": 1}]
    provider.keys = [*broken, FIRST.public()]
    assert visitor.sign_in().status_code == 302
