"""What the provider's signed tokens say, once everything that must hold of them holds.

The library's own check takes tokens made for other clients, by other issuers, and without an end (its `verify_aud` is
off), and lets an expired one become a server error.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import Any, NoReturn

import jwt
from django.conf import settings

from apps.adapters.errors import Refused
from apps.adapters.identity.keys import ring

LEEWAY = 60
"""Seconds by which two clocks may differ."""
OLDEST_ID_TOKEN = 600
OLDEST_LOGOUT_TOKEN = 180
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


@dataclass(frozen=True)
class LogoutClaims:
    """A session (`sid`) or, without one, every session of a person (`sub`) is over."""

    iss: str
    sub: str
    sid: str
    jti: str


def verify_id_token(token: object, *, access_token: str, nonce: str | None = None) -> dict[str, Any]:
    """The claims of an ID token made for this portal, now, by its provider. Raises Refused, Unavailable.

    `nonce` is compared at sign-in; a refreshed token carries none, there the caller compares `sub` with the session's.
    """
    header, claims = _decode(token, require=["exp", "iat", "sub", "aud", "iss"])
    if str(header.get("typ", "JWT")).upper() != "JWT" or claims.get("typ", "ID") != "ID" or "events" in claims:
        _refuse("not_an_id_token")
    if nonce is not None and not _same(claims.get("nonce"), nonce):
        _refuse("nonce")
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if (several or "azp" in claims) and claims.get("azp") != settings.OIDC_RP_CLIENT_ID:
        _refuse("azp")
    if "at_hash" in claims and not _same(claims["at_hash"], _half_hash(access_token)):
        _refuse("at_hash")
    if time.time() - claims["iat"] > OLDEST_ID_TOKEN:
        _refuse("too_old")
    if not claims["sub"] or len(claims["sub"]) > 255 or not claims["sub"].isprintable():
        _refuse("sub")
    return claims


def verify_logout_token(token: object) -> LogoutClaims:
    """What a back-channel logout token ends. Raises Refused, Unavailable."""
    header, claims = _decode(token, require=["iat", "exp", "aud", "iss", "jti"])
    if str(header.get("typ", "JWT")).lower() not in ("logout+jwt", "jwt") or claims.get("typ", "Logout") != "Logout":
        _refuse("not_a_logout_token")
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        _refuse("events")
    if "nonce" in claims:
        _refuse("nonce")
    names = {name: claims.get(name, "") for name in ("sub", "sid", "jti")}
    if not all(isinstance(value, str) and len(value) <= 255 and value.isprintable() for value in names.values()):
        _refuse("names")
    if not (names["sub"] or names["sid"]) or not names["jti"]:
        _refuse("names")
    if time.time() - claims["iat"] > OLDEST_LOGOUT_TOKEN:
        _refuse("too_old")
    return LogoutClaims(iss=claims["iss"], **names)


def _decode(token: object, *, require: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a token signed by the provider for us, not expired. Raises Refused, Unavailable."""
    if not isinstance(token, str) or not token:
        _refuse("no_token")
    try:
        header = jwt.get_unverified_header(token)
        kid = header.get("kid")
        if not isinstance(kid, str) or "crit" in header or header.get("alg") != settings.OIDC_RP_SIGN_ALGO:
            _refuse("header")
        key = ring.find(kid) or _refuse("kid")
        try:
            return header, _checked(token, key, require)
        except jwt.InvalidSignatureError:
            # A provider may put a new key under an old name; without this everybody is locked out for ten minutes.
            ring.refetch()
            again = ring.find(kid) or _refuse("kid")
            if again is key:
                raise
            return header, _checked(token, again, require)
    except (jwt.InvalidTokenError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise Refused(type(error).__name__) from error


def _checked(token: str, key: jwt.PyJWK, require: list[str]) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[settings.OIDC_RP_SIGN_ALGO],
        audience=settings.OIDC_RP_CLIENT_ID,
        issuer=settings.OIDC_ISSUER,
        leeway=LEEWAY,
        options={"require": require},
    )
    if not isinstance(claims["iat"], int | float):
        _refuse("iat")
    return claims


def _half_hash(access_token: str) -> str:
    """The left half of SHA-256, as `at_hash` is defined for RS256, PS256 and ES256."""
    half = hashlib.sha256(access_token.encode()).digest()[:16]
    return base64.urlsafe_b64encode(half).rstrip(b"=").decode()


def _same(said: object, expected: str) -> bool:
    return isinstance(said, str) and hmac.compare_digest(said.encode(), expected.encode())


def _refuse(reason: str) -> NoReturn:
    raise Refused(reason)
