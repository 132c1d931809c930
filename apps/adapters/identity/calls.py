"""Calls to the provider. Each is bounded in time and size, and fails as `Unavailable` or `Refused`, nothing else."""

from __future__ import annotations

import ipaddress
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx
import structlog
from django.conf import settings

from apps.adapters.errors import Refused, Unavailable, outside_transaction

log = structlog.get_logger(__name__)

LARGEST_ANSWER = 1024 * 1024
"""Bytes. A token with a thousand long group names has 50 kB."""


class InvalidGrant(Refused):
    """The provider no longer honours this code or refresh token: used up, revoked, or its owner is disabled."""


@dataclass(frozen=True)
class Tokens:
    """What the token endpoint gave. Never printed: a repr in a log would be a key to the account."""

    id_token: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)


def exchange(code: str, *, redirect_uri: str, verifier: str) -> Tokens:
    """Trade an authorization code for tokens. Raises InvalidGrant, Unavailable."""
    grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
    return _token_request(grant)


def refresh(refresh_token: str) -> Tokens:
    """Fresh tokens for a session. Raises InvalidGrant when the session is over at the provider, else Unavailable."""
    return _token_request({"grant_type": "refresh_token", "refresh_token": refresh_token})


def userinfo(access_token: str) -> dict[str, Any]:
    """The claims of the access token's owner. Raises Unavailable, or Refused for a token that is not taken."""
    headers = {"Authorization": f"Bearer {access_token}"}
    status, body = _call("GET", settings.OIDC_OP_USER_ENDPOINT, headers=headers)
    if status in (401, 403):
        raise Refused("userinfo refused the access token", code=status)
    if status != 200 or not isinstance(body, dict):
        raise Unavailable("userinfo gave no claims", code=status)
    return body


def fetch_keys() -> list[dict[str, Any]]:
    """The provider's key set (JWKS), unchecked. Raises Unavailable."""
    status, body = _call("GET", settings.OIDC_OP_JWKS_ENDPOINT)
    keys = body.get("keys") if isinstance(body, dict) else None
    if status != 200 or not isinstance(keys, list):
        raise Unavailable("the provider gave no key set", code=status)
    return [key for key in keys if isinstance(key, dict)]


def _token_request(grant: dict[str, str]) -> Tokens:
    client = {"client_id": settings.OIDC_RP_CLIENT_ID, "client_secret": settings.OIDC_RP_CLIENT_SECRET}
    status, body = _call("POST", settings.OIDC_OP_TOKEN_ENDPOINT, data={**grant, **client})
    error = body.get("error") if isinstance(body, dict) else None
    if error == "invalid_grant" and status in (400, 401):
        raise InvalidGrant("invalid_grant", code=status)
    if status != 200 or not isinstance(body, dict):
        # invalid_client and unauthorized_client are our own configuration's fault, never the person's: their session
        # must outlive it. The body stays out of the text, it may hold tokens.
        raise Unavailable(f"the token endpoint answered {error if isinstance(error, str) else 'nonsense'}", code=status)
    parts = {name: body.get(name) or "" for name in ("id_token", "access_token", "refresh_token")}
    if not all(isinstance(part, str) for part in parts.values()):
        raise Unavailable("the token endpoint gave tokens that are no text", code=status)
    return Tokens(**parts)


def _call(
    method: str, url: str, *, headers: dict[str, str] | None = None, data: dict[str, str] | None = None
) -> tuple[int, Any]:
    """One request; status and parsed JSON (None when it is none). Raises Unavailable, for 429 and 5xx as well."""
    outside_transaction()
    deadline = time.monotonic() + max(settings.OIDC_TIMEOUT)
    try:
        with _client().stream(method, url, headers=headers, data=data) as response:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > LARGEST_ANSWER or time.monotonic() > deadline:
                    raise Unavailable("the provider's answer is too long or too slow", code=response.status_code)
    except httpx.HTTPError as error:
        log.warning("identity_provider_unreachable", url=url, error=type(error).__name__)
        raise Unavailable(f"no answer from the provider ({type(error).__name__})") from error
    if response.status_code == 429 or response.status_code >= 500:
        log.warning("identity_provider_failing", url=url, status=response.status_code)
        raise Unavailable(
            "the provider cannot answer now",
            code=response.status_code,
            retry_after=_seconds(response.headers.get("retry-after", "")),
        )
    try:
        return response.status_code, httpx.Response(200, content=bytes(body)).json()
    except ValueError:
        return response.status_code, None


def _seconds(retry_after: str) -> float:
    return float(min(int(retry_after), 120)) if retry_after.isdecimal() and len(retry_after) < 6 else 5.0


@lru_cache(maxsize=1)
def _client() -> httpx.Client:
    connect, read = settings.OIDC_TIMEOUT
    # A proxy set for the outside world cannot reach a provider on this machine.
    on_loopback = is_loopback(urlsplit(settings.OIDC_OP_TOKEN_ENDPOINT).hostname or "")
    return httpx.Client(timeout=httpx.Timeout(read, connect=connect), trust_env=not on_loopback)


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
