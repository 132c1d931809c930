"""The demo's provider does what the portal relies on, and nothing on a network."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import stat
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import jwt
import pytest

from tests.identity.provider import PORTAL, ROOT, SECRET, Provider, needs_node, running, sign_in
from tests.ports import free_port

CALLBACK = f"{PORTAL}/oidc/callback/"


@pytest.fixture(scope="module", autouse=True)
def _node() -> None:
    needs_node()


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with running(tmp_path_factory.mktemp("identity"), rotate_refresh_tokens=True) as one:
        yield one


@pytest.fixture
def visitor() -> Iterator[httpx.Client]:
    with httpx.Client(headers={"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}) as one:
        yield one


class SignIn:
    """One authorization request with PKCE, and its token request."""

    def __init__(self, provider: Provider, **changes: str | None) -> None:
        self.provider, self.verifier = provider, secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        params = {
            "client_id": "maas-portal", "response_type": "code", "scope": "openid email profile", "state": "st",
            "nonce": "no", "redirect_uri": CALLBACK, "code_challenge": challenge, "code_challenge_method": "S256",
            **changes,
        }  # fmt: skip
        self.address = f"{provider.issuer}/auth?{urlencode({k: v for k, v in params.items() if v is not None})}"

    def tokens(self, code: str, **changes: str) -> httpx.Response:
        data = {"code": code, "redirect_uri": CALLBACK, "code_verifier": self.verifier}
        return token_request(self.provider, grant_type="authorization_code", **{**data, **changes})


def token_request(provider: Provider, **data: str) -> httpx.Response:
    return httpx.post(f"{provider.issuer}/token", data={"client_id": "maas-portal", "client_secret": SECRET, **data})


def answer(location: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(location).query).items()}


def signed_in(provider: Provider, visitor: httpx.Client, who: str = "lina") -> dict[str, Any]:
    request = SignIn(provider)
    code = answer(sign_in(visitor, request.address, who, f"{who}-demo"))["code"]
    response = request.tokens(code)
    assert response.status_code == 200, response.text
    return response.json()


def claims(provider: Provider, id_token: str) -> dict[str, Any]:
    key = jwt.PyJWKClient(f"{provider.issuer}/jwks").get_signing_key_from_jwt(id_token)
    return jwt.decode(id_token, key, algorithms=["RS256"], audience="maas-portal", issuer=provider.issuer)


def refresh(provider: Provider, token: str) -> httpx.Response:
    return token_request(provider, grant_type="refresh_token", refresh_token=token)


def test_id_token_names_person_groups_and_session(provider: Provider, visitor: httpx.Client) -> None:
    tokens = signed_in(provider, visitor)
    said = claims(provider, tokens["id_token"])
    assert said["groups"] == ["/nlp/data-scientists", "/vision/viewers"]
    assert (said["name"], said["email"], said["nonce"]) == ("Li Na", "lina@example.test", "no")
    assert said["sid"]
    userinfo = httpx.get(f"{provider.issuer}/me", headers={"authorization": f"Bearer {tokens['access_token']}"}).json()
    assert userinfo["sub"] == said["sub"]
    assert userinfo["groups"] == said["groups"]


def test_person_without_groups_has_no_groups_claim(provider: Provider, visitor: httpx.Client) -> None:
    assert "groups" not in claims(provider, signed_in(provider, visitor, "newcomer")["id_token"])


def test_callback_carries_the_issuer(provider: Provider, visitor: httpx.Client) -> None:
    assert answer(sign_in(visitor, SignIn(provider).address, "lina", "lina-demo"))["iss"] == provider.issuer


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "id_token"}, "unsupported_response_type"),
    ],
)
def test_refuses_a_request_without_s256(
    provider: Provider, visitor: httpx.Client, changes: dict[str, str | None], error: str
) -> None:
    location = visitor.get(SignIn(provider, **changes).address).headers["location"]
    assert error in location


def test_refuses_a_wrong_verifier_and_a_used_code(provider: Provider, visitor: httpx.Client) -> None:
    request = SignIn(provider)
    code = answer(sign_in(visitor, request.address, "lina", "lina-demo"))["code"]
    assert request.tokens(code, code_verifier="x" * 43).json()["error"] == "invalid_grant"
    assert request.tokens(code).status_code == 200
    assert request.tokens(code).json()["error"] == "invalid_grant"


def test_unregistered_callback_gets_an_error_page_not_a_redirect(provider: Provider, visitor: httpx.Client) -> None:
    response = visitor.get(SignIn(provider, redirect_uri="http://evil.test/").address)
    assert response.status_code == 400
    assert "请回到平台重新登录" in response.text


def test_refresh_token_is_good_once_and_shows_a_lost_group(provider: Provider, visitor: httpx.Client) -> None:
    tokens = signed_in(provider, visitor)
    lina = provider.config["people"][0]
    groups, lina["groups"] = lina["groups"], ["/vision/viewers"]
    provider.save()
    again = refresh(provider, tokens["refresh_token"]).json()
    lina["groups"] = groups
    provider.save()
    assert claims(provider, again["id_token"])["groups"] == ["/vision/viewers"]
    assert again["refresh_token"] != tokens["refresh_token"]
    assert refresh(provider, tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_disabled_person_cannot_refresh_or_sign_in(provider: Provider, visitor: httpx.Client) -> None:
    tokens = signed_in(provider, visitor, "newcomer")
    newcomer = provider.config["people"][2]
    newcomer["disabled"] = True
    provider.save()
    try:
        assert refresh(provider, tokens["refresh_token"]).json()["error"] == "invalid_grant"
        with httpx.Client() as other, pytest.raises(AssertionError, match="401"):
            sign_in(other, SignIn(provider).address, "newcomer", "newcomer-demo")
    finally:
        newcomer["disabled"] = False
        provider.save()


def test_restart_keeps_sessions_keys_and_refresh_tokens(tmp_path: Path, visitor: httpx.Client) -> None:
    with running(tmp_path) as one:
        tokens = signed_in(one, visitor)
        keys = httpx.get(f"{one.issuer}/jwks").json()
        one.stop(kill=True)
        one.start()
        assert httpx.get(f"{one.issuer}/jwks").json() == keys
        assert refresh(one, tokens["refresh_token"]).status_code == 200
        assert "code" in answer(visitor.get(SignIn(one, prompt="none").address).headers["location"])
        for name in ("keys/jwks.json", "state.jsonl"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert one.stop() < 1
        one.start()


class Portal:
    """Stands where the portal's back-channel address is and keeps what is posted there."""

    def __init__(self) -> None:
        told: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                told.append(parse_qs(body)["logout_token"][0])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        self.told = told
        self.server = HTTPServer(("127.0.0.1", free_port()), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/oidc/backchannel-logout/"
        Thread(target=self.server.serve_forever, daemon=True).start()


def test_sign_out_goes_straight_back_and_tells_the_portal(tmp_path: Path, visitor: httpx.Client) -> None:
    portal = Portal()
    provider = Provider(tmp_path)
    provider.config["client"]["backchannel_logout_uri"] = portal.address
    provider.save()
    provider.start()
    try:
        tokens = signed_in(provider, visitor)
        back = f"{PORTAL}/signed-out/"
        hint = {"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": back, "state": "bye"}
        response = visitor.get(f"{provider.issuer}/session/end", params=hint)
        assert response.headers["location"] == f"{PORTAL}/signed-out/?state=bye"
        (logout_token,) = portal.told
        assert jwt.get_unverified_header(logout_token)["typ"] == "logout+jwt"
        said, session = claims(provider, logout_token), claims(provider, tokens["id_token"])
        assert (said["sub"], said["sid"]) == (session["sub"], session["sid"])
        assert said["events"] == {"http://schemas.openid.net/event/backchannel-logout": {}}
        assert refresh(provider, tokens["refresh_token"]).json()["error"] == "invalid_grant"
        assert "login_required" in visitor.get(SignIn(provider, prompt="none").address).headers["location"]
        again = visitor.get(f"{provider.issuer}/session/end", params=hint)
        assert again.headers["location"] == f"{back}?state=bye", "a session already gone must not strand people"
    finally:
        provider.stop(kill=True)
        portal.server.shutdown()


def test_sign_out_to_an_unregistered_address_is_refused(provider: Provider, visitor: httpx.Client) -> None:
    tokens = signed_in(provider, visitor)
    hint = {"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": "http://evil.test/"}
    assert visitor.get(f"{provider.issuer}/session/end", params=hint).status_code == 400
    assert refresh(provider, tokens["refresh_token"]).status_code == 200


def test_page_shows_people_works_without_script_and_escapes(provider: Provider, visitor: httpx.Client) -> None:
    start = visitor.get(SignIn(provider).address)
    page = visitor.get(start.url.join(start.headers["location"]))
    assert '<html lang="zh-Hans">' in page.text
    assert "算法工程师" in page.text
    assert "张伟-demo" in page.text
    assert "<b>Guo</b>" not in page.text
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert f"form-action 'self' {PORTAL}" in policy
    assert not re.search(r"<style|style=|<script>|\son\w+=", page.text)
    filled = visitor.get(f"{page.url}?person=lina").text
    assert 'value="lina"' in filled
    assert 'value="lina-demo"' in filled
    english = visitor.get(str(page.url), headers={"accept-language": "en-GB"}).text
    assert "Data scientist in nlp" in english
    for name in ("page.css", "page.js", "inter.woff2"):
        assert visitor.get(f"{provider.issuer}/assets/{name}").status_code == 200
    assert visitor.get(f"{provider.issuer}/assets/../provider.mjs").status_code == 404


def test_wrong_password_keeps_the_name_and_says_so(provider: Provider, visitor: httpx.Client) -> None:
    start = visitor.get(SignIn(provider).address)
    address = start.url.join(start.headers["location"])
    response = visitor.post(address, data={"username": "lina", "password": "nope"})
    assert response.status_code == 401
    assert 'role="alert"' in response.text
    assert 'value="lina"' in response.text


def test_large_form_is_refused_and_others_are_served(provider: Provider, visitor: httpx.Client) -> None:
    start = visitor.get(SignIn(provider).address)
    address = start.url.join(start.headers["location"])
    assert visitor.post(address, data={"username": "x" * 20_000}).status_code == 400
    assert visitor.get(address).status_code == 200


@pytest.mark.parametrize(("demo", "issuer"), [("", "http://127.0.0.1:1"), ("1", "http://idp.example.com:1")])
def test_refuses_to_start_without_demo_or_beyond_loopback(tmp_path: Path, demo: str, issuer: str) -> None:
    one = Provider(tmp_path, issuer=issuer)
    command = ["node", str(ROOT / "deploy/identity/provider.mjs"), "--config", str(one.file)]
    done = subprocess.run(command, env={**os.environ, "MAAS_DEMO": demo}, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert "demo" in done.stderr.lower() or "loopback" in done.stderr


def test_stays_small(provider: Provider) -> None:
    status = Path(f"/proc/{provider.process.pid}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024  # type: ignore[index]
    assert resident <= 90
