"""The OpenID Connect provider: its token, userinfo and key endpoints, and what its signed tokens say."""

from apps.adapters.identity.calls import InvalidGrant, Tokens, exchange, refresh, userinfo
from apps.adapters.identity.claims import LogoutClaims, verify_id_token, verify_logout_token
from apps.adapters.identity.keys import ring

__all__ = [
    "InvalidGrant",
    "LogoutClaims",
    "Tokens",
    "exchange",
    "refresh",
    "ring",
    "userinfo",
    "verify_id_token",
    "verify_logout_token",
]
