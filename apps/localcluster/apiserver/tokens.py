"""Who speaks: the administrator's token and the tokens of service accounts.

Service account tokens are signed with a key of the store (JWT, HS256), so they outlive a restart and end with their
account. The administrator's token is random; the store keeps its hash.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
import uuid
from typing import Any

from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.requests import ANONYMOUS, AUTHENTICATED, MASTERS, User
from apps.localcluster.apiserver.store import Store, decode, encode

Object = dict[str, Any]

ISSUER = "https://kubernetes.default.svc"
HELD = "kubernetes.io/serviceaccount/"
LEEWAY = 60  # seconds after its end in which a token is still taken


def to_base64(data: bytes) -> str:
    """As in an address: other letters, no padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def from_base64(text: str) -> bytes:
    """Raises binascii.Error."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Tokens:
    """Makes and reads bearer tokens."""

    def __init__(self, store: Store) -> None:
        self.store = store
        key = store.fact("signing-key")
        if key is None:
            key = secrets.token_hex(32)
            store.set_fact("signing-key", key)
        self._key = bytes.fromhex(key)

    def new_admin(self) -> str:
        """A fresh administrator's token; the one before stops working."""
        token = secrets.token_urlsafe(32)
        self.store.set_fact("admin-token", hashlib.sha256(token.encode()).hexdigest())
        return token

    def is_admin(self, token: str) -> bool:
        known = self.store.fact("admin-token") or ""
        return hmac.compare_digest(hashlib.sha256(token.encode()).hexdigest(), known)

    def issue(self, account: Object, audiences: list[str], seconds: int) -> str:
        """A token for a service account."""
        now, metadata = int(time.time()), account["metadata"]
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": metadata["namespace"],
                "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        return self._sign(claims)

    def issue_lasting(self, account: Object, secret: str) -> str:
        """A token that is good for as long as the Secret that holds it."""
        metadata = account["metadata"]
        claims = {
            "iss": "kubernetes/serviceaccount",
            HELD + "namespace": metadata["namespace"],
            HELD + "secret.name": secret,
            HELD + "service-account.name": metadata["name"],
            HELD + "service-account.uid": metadata["uid"],
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        return self._sign(claims)

    def _sign(self, claims: Object) -> str:
        signed = f"{to_base64(encode({'alg': 'HS256', 'typ': 'JWT'}))}.{to_base64(encode(claims))}"
        return f"{signed}.{self._signature(signed)}"

    def _signature(self, signed: str) -> str:
        return to_base64(hmac.new(self._key, signed.encode(), hashlib.sha256).digest())

    def authenticate(self, authorization: str) -> User:
        """The user of an Authorization header; anonymous without a token. Raises StatusError 401."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        token = token.strip()
        if self.is_admin(token):
            return User("kubernetes-admin", groups=(MASTERS, AUTHENTICATED))
        if user := self._account(token):
            return user
        raise StatusError(401, "Unauthorized", "Unauthorized")

    def _account(self, token: str) -> User | None:
        """The account that a token speaks for, as long as both hold."""
        signed, _, signature = token.rpartition(".")
        if not signed.isascii() or not hmac.compare_digest(self._signature(signed).encode(), signature.encode()):
            return None
        claims = decode(from_base64(signed.partition(".")[2]))
        namespace, name = claims["sub"].split(":")[2:]
        account = self.store.get("serviceaccounts", (namespace, name))
        secret = claims.get(HELD + "secret.name")
        uid = claims[HELD + "service-account.uid"] if secret else claims["kubernetes.io"]["serviceaccount"]["uid"]
        holds = self._is_held(namespace, secret, token) if secret else _is_current(claims)
        if account is None or account.uid != uid or not holds:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        extra = {} if secret else {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
        return User(claims["sub"], uid, groups, extra)

    def _is_held(self, namespace: str, secret: str, token: str) -> bool:
        record = self.store.get("secrets", (namespace, secret))
        held = (record.load().get("data") or {}).get("token", "") if record else ""
        return hmac.compare_digest(base64.b64decode(held), token.encode())


def _is_current(claims: Object) -> bool:
    return time.time() <= claims["exp"] + LEEWAY and ISSUER in claims["aud"]
