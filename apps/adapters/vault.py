"""Speaking to HashiCorp Vault or OpenBao: a versioned key-value store, entered by AppRole.

Values never stand in an error, a log line or a repr.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import hvac
import requests
from hvac import exceptions

from apps.adapters.errors import NotFound, OutsideError, Refused, Unavailable, outside_transaction

TIMEOUT = (3.0, 10.0)
CREDENTIAL_RETRY = 30.0

_PATH = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")

R = TypeVar("R")


@dataclass(frozen=True)
class Lent:
    """A token made for one purpose. Its accessor may be kept: with it the token is renewed and revoked, not used."""

    token: str = field(repr=False)
    accessor: str
    seconds: int


class VaultKV:
    """One mount of one server, for any number of threads.

    Logs in on first use, again after two thirds of the token's life (a renewal cannot pass its longest life), and once
    more when a 403 turns out to be a dead token. The role files are read at each login, so they may be rotated.
    Raises Unavailable (down, sealed, or our own credential is not accepted), Refused (a policy says no), NotFound.
    """

    def __init__(self, addr: str, role_id_file: str | Path, secret_id_file: str | Path, mount: str) -> None:
        self._session = requests.Session()
        self._session.trust_env = False
        self._client = hvac.Client(url=addr, timeout=TIMEOUT, session=self._session, token="")
        self._role_id_file, self._secret_id_file, self._mount = Path(role_id_file), Path(secret_id_file), mount
        self._login_again = 0.0
        self._lock = threading.Lock()

    def read(self, path: str) -> dict[str, str]:
        """The newest values. Raises NotFound when there are none."""
        answer = self._call(
            lambda: self._client.secrets.kv.v2.read_secret_version(
                path=_checked(path), mount_point=self._mount, raise_on_deleted_version=True
            )
        )
        return {str(key): str(value) for key, value in answer["data"]["data"].items()}

    def write(self, path: str, values: Mapping[str, str]) -> None:
        """Store a new version."""
        self._call(
            lambda: self._client.secrets.kv.v2.create_or_update_secret(
                path=_checked(path), secret=dict(values), mount_point=self._mount
            )
        )

    def delete(self, path: str) -> None:
        """Destroy all versions and what is known of them; what was not there is no error."""
        self._call(
            lambda: self._client.secrets.kv.v2.delete_metadata_and_all_versions(
                path=_checked(path), mount_point=self._mount
            )
        )

    def put_policy(self, name: str, text: str) -> None:
        """Make a policy say this, whatever it said before."""
        self._call(lambda: self._client.sys.create_or_update_acl_policy(_checked(name), text))

    def lend(self, role: str, policies: list[str], meta: Mapping[str, str]) -> Lent:
        """A token with these policies, as the token role allows. It is an orphan where the role says so: a child would
        end with our own token, which is replaced every hour."""
        answer = self._call(
            lambda: self._client.auth.token.create(role_name=_checked(role), policies=policies, meta=dict(meta))
        )["auth"]
        return Lent(str(answer["client_token"]), str(answer["accessor"]), int(answer["lease_duration"]))

    def read_as(self, lent: Lent, path: str, version: int) -> dict[str, str]:
        """One version, with a lent token's rights alone. Raises NotFound when it is not there, Refused."""
        outside_transaction()
        client = hvac.Client(url=self._client.url, timeout=TIMEOUT, session=self._session, token=lent.token)
        with _translated():
            answer = client.secrets.kv.v2.read_secret_version(
                path=_checked(path), version=version, mount_point=self._mount, raise_on_deleted_version=True
            )
        return {str(key): str(value) for key, value in answer["data"]["data"].items()}

    def renew(self, accessor: str) -> int:
        """Prolong a lent token; the seconds it has now. Raises NotFound when it is over."""
        answer = self._call(lambda: _of_accessor(lambda: self._client.auth.token.renew_accessor(accessor)))
        return int(answer["auth"]["lease_duration"])

    def revoke(self, accessor: str) -> None:
        """End a lent token now; one that is over is no error."""
        try:
            self._call(lambda: _of_accessor(lambda: self._client.auth.token.revoke_accessor(accessor)))
        except NotFound:
            return

    def _call(self, what: Callable[[], R]) -> R:
        outside_transaction()
        with _translated():
            self._login()
            try:
                return what()
            except exceptions.Forbidden:
                # A dead token and a policy's no look the same; asking for ourselves tells them apart.
                if self._alive():
                    raise
            self._login(anew=True)
            return what()

    def _login(self, *, anew: bool = False) -> None:
        with self._lock:
            if not anew and time.monotonic() < self._login_again:
                return
            try:
                role_id = self._role_id_file.read_text().strip()
                secret_id = self._secret_id_file.read_text().strip()
            except OSError as error:
                raise Unavailable(
                    f"The secrets server's role files cannot be read: {error.strerror}", system="secrets"
                ) from error
            began = time.monotonic()
            try:
                answer: dict[str, Any] = self._client.auth.approle.login(role_id=role_id, secret_id=secret_id)
            except (exceptions.InvalidRequest, exceptions.Forbidden) as error:
                text = "The secrets server does not accept the portal's own role."
                raise Unavailable(text, code=400, retry_after=CREDENTIAL_RETRY, system="secrets") from error
            self._login_again = began + float(answer["auth"]["lease_duration"]) * 2 / 3

    def _alive(self) -> bool:
        try:
            self._client.auth.token.lookup_self()
        except exceptions.Forbidden:
            return False
        return True


def _of_accessor(call: Callable[[], R]) -> R:
    """A token that is over is an "invalid accessor", with a code that elsewhere is a policy's no or our mistake."""
    try:
        return call()
    except (exceptions.Forbidden, exceptions.InvalidRequest) as error:
        if any("invalid accessor" in text or "not find" in text for text in error.errors or []):
            raise exceptions.InvalidPath("invalid accessor") from error
        raise


class _translated:  # noqa: N801 (reads as a statement)
    """Turns the SDK's errors into ours. None of their texts quotes a value."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, exceptions.VaultError | requests.RequestException):
            raise _ours(error) from error


def _ours(error: exceptions.VaultError | requests.RequestException) -> OutsideError:
    if isinstance(error, requests.RequestException):
        return Unavailable(f"The secrets server did not answer ({type(error).__name__}).", system="secrets")
    if isinstance(error, exceptions.InvalidPath):
        return NotFound("Nothing is stored there.", code=404)
    if isinstance(error, exceptions.Forbidden):
        return Refused("The secrets server's policy does not let the portal do this.", code=403)
    if isinstance(error, exceptions.VaultDown):
        return Unavailable("The secrets server is sealed or down.", code=503, system="secrets")
    if isinstance(error, exceptions.InvalidRequest):
        return Refused(f"The secrets server refused: {'; '.join(error.errors or [])[:1000]}", code=400)
    return Unavailable(f"The secrets server failed ({type(error).__name__}).", system="secrets")


def _checked(path: str) -> str:
    if not _PATH.fullmatch(path) or ".." in path:
        raise ValueError(f"Not a path of a secret: {path!r}.")
    return path
