"""The slot through which a web process hands values to the secrets server: they go in, nothing comes out.

It is plain HTTP and not the SDK of `adapters.vault`, and it logs in with a role of its own whose policy only writes,
below `tenants/`, and below `entered/` what is not there yet: whoever takes over a web process can read no value, and
cannot put another in the place of a cluster's credential.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from django.views.decorators.debug import sensitive_variables

from apps.adapters.errors import Refused, Unavailable, outside_transaction

TIMEOUT = httpx.Timeout(10.0, connect=3.0)
CREDENTIAL_RETRY = 30.0


class Letterbox:
    """One mount of one server, for any number of threads.

    Raises Unavailable (down, sealed, our own role not accepted) and Refused (a policy says no). Neither quotes what the
    server answered, for that may quote what was sent."""

    def __init__(self, addr: str, role_id_file: str | Path, secret_id_file: str | Path, mount: str) -> None:
        self._client = httpx.Client(base_url=f"{addr.rstrip('/')}/v1/", timeout=TIMEOUT, trust_env=False)
        self._role_id_file, self._secret_id_file, self._mount = Path(role_id_file), Path(secret_id_file), mount
        self._token, self._login_again = "", 0.0
        self._lock = threading.Lock()

    @sensitive_variables("values", "body")
    def put(self, path: str, values: Mapping[str, str]) -> int:
        """Store a new version; its number."""
        outside_transaction()
        body = {"data": dict(values)}
        answer = self._post(f"{self._mount}/data/{path}", body, self._login())
        if answer.status_code == 403:  # a dead token and a policy's no look the same; a fresh one tells them apart
            answer = self._post(f"{self._mount}/data/{path}", body, self._login(anew=True))
        if answer.status_code != 200:
            raise _failure(answer.status_code)
        return int(answer.json()["data"]["version"])

    def _login(self, *, anew: bool = False) -> str:
        with self._lock:
            if not anew and time.monotonic() < self._login_again:
                return self._token
            try:
                role = {"role_id": self._role_id_file.read_text().strip()}
                role["secret_id"] = self._secret_id_file.read_text().strip()
            except OSError as error:
                raise Unavailable(
                    f"The secrets server's role files cannot be read: {error.strerror}", system="secrets"
                ) from error
            began = time.monotonic()
            answer = self._post("auth/approle/login", role, "")
            if answer.status_code in (400, 403):
                text = "The secrets server does not accept the role that stores values."
                raise Unavailable(text, code=400, retry_after=CREDENTIAL_RETRY, system="secrets")
            if answer.status_code != 200:
                raise _failure(answer.status_code)
            auth: dict[str, Any] = answer.json()["auth"]
            self._token = str(auth["client_token"])
            self._login_again = began + float(auth["lease_duration"]) * 2 / 3
            return self._token

    @sensitive_variables("body", "token", "headers")
    def _post(self, path: str, body: Mapping[str, Any], token: str) -> httpx.Response:
        headers = {"X-Vault-Token": token} if token else {}
        try:
            return self._client.post(path, json=body, headers=headers)
        except httpx.HTTPError as error:
            # Without its cause: the frames below hold what was sent.
            raise Unavailable(
                f"The secrets server did not answer ({type(error).__name__}).", system="secrets"
            ) from None


def _failure(status: int) -> Unavailable | Refused:
    if status == 503:
        return Unavailable("The secrets server is sealed or down.", code=503, system="secrets")
    if status in (400, 403, 404):
        return Refused(f"The secrets server does not let the portal store this (HTTP {status}).", code=status)
    return Unavailable(f"The secrets server answered HTTP {status}.", code=status, system="secrets")
