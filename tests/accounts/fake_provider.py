"""A provider a test holds in its hand: it can sign anything with its real key, hang, fail, and lie."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT = "maas-portal"
Claims = dict[str, Any]


class Key:
    """An RSA signing key with an id."""

    def __init__(self, kid: str) -> None:
        self.kid = kid
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def public(self, **changes: Any) -> Claims:
        jwk = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**jwk, "kid": self.kid, "use": "sig", "alg": "RS256", **changes}


FIRST, SECOND = Key("first"), Key("second")
"""Made once: a key takes a tenth of a second."""


def half_hash(access_token: str) -> str:
    digest = hashlib.sha256(access_token.encode()).digest()[:16]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class FakeProvider:
    """`claims` are the person's; `spoil` may change header and claims of a token before it is signed."""

    def __init__(self) -> None:
        self.claims: Claims = {"sub": "ada", "name": "Ada", "email": "ada@example.test", "email_verified": True}
        self.userinfo: Claims = {}
        self.keys: list[Claims] = [
            {**SECOND.public(), "use": "enc", "alg": "RSA-OAEP", "kid": "for-encryption"},
            FIRST.public(),
        ]
        self.key = FIRST
        self.spoil: Callable[[Claims, Claims], None] = lambda header, claims: None
        self.whole_token: object = ...  # given instead of a signed ID token
        self.trouble: dict[str, str] = {}  # path: "503" | "429" | "hang" | "close" | "garbage" | "list"
        self.token_error: tuple[int, str] | None = None
        self.leave_out: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.last: dict[str, str] = {}
        self.nonce, self.sid = "", "sid-1"
        self._numbers = itertools.count(1)
        self.current_refresh = ""
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.released = threading.Event()
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    # --- tokens -----------------------------------------------------------------------------------------------------

    def sign(self, claims: Claims, header: Claims | None = None, key: Key | None = None) -> str:
        """Any claims under any header, signed by a key of the key set; `alg` none and HS256 are done as asked."""
        header = {"alg": "RS256", "typ": "JWT", "kid": self.key.kid, **(header or {})}
        header = {name: value for name, value in header.items() if value is not ...}
        signed = f"{_part(header)}.{_part(claims)}"
        signer = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256)
        return f"{signed}.{_text(signer.sign(signed.encode(), (key or self.key).private))}"

    def id_token(self, access_token: str, *, nonce: str | None) -> object:
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "azp": CLIENT, "exp": now + 300, "iat": now, "typ": "ID",
            "auth_time": now, "sid": self.sid, "at_hash": half_hash(access_token),
            **({"nonce": nonce} if nonce else {}), **self.claims,
        }  # fmt: skip
        header: Claims = {}
        self.spoil(header, claims)
        return self.sign({name: value for name, value in claims.items() if value is not ...}, header)

    def logout_token(self, *, header: Claims | None = None, key: Key | None = None, **changes: Any) -> str:
        """A good back-channel logout token, but for the changes; `...` takes a claim out."""
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "sub": self.claims["sub"], "sid": self.sid, "typ": "Logout", "iat": now,
            "exp": now + 120, "jti": f"jti-{next(self._numbers)}",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}}, **changes,
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not ...}
        return self.sign(claims, {"typ": "logout+jwt", **(header or {})}, key)

    # --- endpoints --------------------------------------------------------------------------------------------------

    def token(self, form: dict[str, str]) -> tuple[int, Any]:
        if self.token_error:
            status, error = self.token_error
            return status, {"error": error, "error_description": "as the test wished"}
        if form["grant_type"] == "refresh_token":
            with self._lock:
                if form["refresh_token"] != self.current_refresh:
                    self.current_refresh = "dead"  # each is good once; using one twice kills the session
                    return 400, {"error": "invalid_grant"}
                return 200, self._tokens(nonce=None)
        return 200, self._tokens(nonce=self.nonce)

    def _tokens(self, *, nonce: str | None) -> Claims:
        number = next(self._numbers)
        access, self.current_refresh = f"access-{number}", f"refresh-{number}"
        token = self.id_token(access, nonce=nonce) if self.whole_token is ... else self.whole_token
        answer = {
            "id_token": token,
            "access_token": access,
            "refresh_token": self.current_refresh,
            "token_type": "Bearer",
        }
        return {name: value for name, value in answer.items() if name not in self.leave_out}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                provider.last = {name: values[0] for name, values in parse_qs(body).items()}
                self.answer(lambda: provider.token(provider.last))

            def do_GET(self) -> None:
                about = {**provider.claims, **provider.userinfo}
                self.answer(lambda: (200, about if self.path == "/me" else {"keys": provider.keys}))

            def answer(self, made: Callable[[], tuple[int, Any]]) -> None:
                provider.calls[self.path] += 1
                trouble = provider.trouble.get(self.path)
                if trouble == "hang":
                    provider.released.wait(10)
                if trouble in ("hang", "close"):
                    self.close_connection = True
                    return
                wrong = {"503": (503, {}), "429": (429, {}), "garbage": (200, None), "list": (200, [1])}
                status, body = wrong[trouble] if trouble else made()
                data = b"\xff<html>" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None: ...

        return Handler


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _part(value: Claims) -> str:
    return _text(json.dumps(value).encode())
