"""Speaking for a service account of the cluster, with tokens that last an hour and are kept in memory only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from apps.adapters.errors import NotFound, Unavailable
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import AccountMissing
from apps.adapters.kubernetes.calls import KubeApi

LIFETIME_SECONDS = 3600
RENEW_AFTER = 0.8
"""Of the lifetime that was granted, which a cluster may cut short."""


class AccountToken:
    """A token source: asks for a token where it has none that is good for a while yet, or where that was refused.

    Raises AccountMissing; RightMissing when `api` may not ask for it; what KubeApi raises.
    """

    def __init__(self, api: KubeApi, account: tuple[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._account, self._clock = api, account, clock
        self._path = objects.path(objects.SERVICE_ACCOUNT, *account, subresource="token")
        self._token, self._renew_at = "", float("-inf")
        self._lock = threading.Lock()

    def __call__(self, *, fresh: bool = False) -> str:
        with self._lock:
            if fresh or self._clock() >= self._renew_at:
                self._ask()
            return self._token

    def _ask(self) -> None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME_SECONDS},
        }
        asked_at = self._clock()
        try:
            answer = self._api.create(self._path, body).object
        except NotFound as error:
            raise AccountMissing(error.text, code=error.code, account=self._account) from error
        token = answer.get("status", {}).get("token")
        if not token:  # an empty bearer would be taken for an anonymous request
            raise Unavailable("The API server gave no token for the account.")
        seconds = answer.get("spec", {}).get("expirationSeconds") or LIFETIME_SECONDS
        self._token, self._renew_at = token, asked_at + RENEW_AFTER * seconds


def speak_for(api: KubeApi, account: tuple[str, str]) -> KubeApi:
    """The same API server by the same connections, spoken to as an account (namespace, name). `api` asks for its
    tokens, the first time when there is something to say."""
    return api.speaking_with(AccountToken(api, account))
