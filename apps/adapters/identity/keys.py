"""The provider's signing keys, kept for ten minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import jwt
import structlog
from django.conf import settings

from apps.adapters.errors import Unavailable
from apps.adapters.identity.calls import fetch_keys

log = structlog.get_logger(__name__)

KEPT = 600.0
"""Seconds a key set is used before it is fetched again."""
COOL_DOWN = 10.0
"""Seconds between two fetches, however many unknown keys are presented: the back-channel address is open to all."""

_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC"}


class KeyRing:
    """Signing keys by key id. Readers never wait for a fetch unless they need its answer."""

    def __init__(self, fetch: Callable[[], list[dict[str, Any]]], clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch, self._clock = fetch, clock
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Know nothing, as in a new process."""
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched = self._tried = float("-inf")

    def find(self, kid: str) -> jwt.PyJWK | None:
        """The key with this id; None when the provider has none such. Raises Unavailable when no set is known."""
        fresh = self._clock() - self._fetched < KEPT
        if not fresh or kid not in self._keys:
            self.refetch()
        return self._keys.get(kid)

    def refetch(self) -> None:
        """Fetch the set unless that was tried a moment ago. A failed fetch leaves the known keys in use."""
        with self._lock:
            if self._clock() - self._tried >= COOL_DOWN:
                self._tried = self._clock()
                try:
                    self._keys = _usable(self._fetch())
                    self._fetched = self._clock()
                except Unavailable as error:
                    log.warning("identity_keys_not_fetched", error=error.text, known=len(self._keys))
            if not self._keys:
                raise Unavailable("the provider's keys are not known", retry_after=COOL_DOWN)


def _usable(keys: list[dict[str, Any]]) -> dict[str, jwt.PyJWK]:
    """The keys that may sign what we accept; a set also holds keys for encryption and for other algorithms."""
    algorithm = settings.OIDC_RP_SIGN_ALGO
    usable = {}
    for key in keys:
        kid = key.get("kid")
        signs = key.get("use", "sig") == "sig" and key.get("kty") == _KINDS.get(algorithm[:2])
        if not isinstance(kid, str) or not signs or key.get("alg", algorithm) != algorithm:
            continue
        try:
            usable[kid] = jwt.PyJWK(key, algorithm)
        except jwt.PyJWTError:
            log.warning("identity_key_unreadable", kid=kid[:64])
    return usable


ring = KeyRing(fetch_keys)
