"""Connections to clusters. Only background work imports this: it brings the SDKs along."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from apps.accounts.types import Actor
from apps.adapters.errors import NotFound, Unavailable
from apps.adapters.kubernetes import Endpoint, KubeApi
from apps.adapters.kubernetes.accounts import speak_for
from apps.clusters.models import Cluster
from apps.clusters.services.registration import Registration, register_cluster, require_operator
from apps.secrets.services.store import vault

__all__ = ["Credential", "address", "connect", "connect_for", "endpoint", "register", "vault"]

TOKEN_SECONDS = 60.0
"""A token is read again this often, so that a rotated one is used in time."""


class Credential:
    """The bearer token of one cluster, kept in memory for a minute."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._token, self._read_at = "", float("-inf")
        self._lock = threading.Lock()

    def __call__(self, *, fresh: bool = False) -> str:
        with self._lock:
            if fresh or self._clock() - self._read_at > TOKEN_SECONDS:
                self._token, self._read_at = self._read(), self._clock()
            return self._token

    def _read(self) -> str:
        try:
            token = vault().read(self._path).get("token", "")
        except (NotFound, ValueError) as error:
            raise Unavailable("The cluster's credential is not in the secrets server.", system="secrets") from error
        if not token:  # an empty bearer would be taken for an anonymous request
            raise Unavailable("The cluster's credential in the secrets server is empty.", system="secrets")
        return token


def endpoint(cluster: Cluster) -> Endpoint:
    """Where the cluster is, with a credential of its own."""
    return Endpoint(cluster.server, cluster.ca_pem or None, Credential(cluster.credential_path))


Address = tuple[str, str, str]

Account = tuple[str, str]
"""Namespace and name of a service account."""

_apis: dict[int, tuple[Address, KubeApi]] = {}
_accounts: dict[tuple[int, Account], tuple[KubeApi, KubeApi]] = {}
_apis_lock = threading.Lock()


def address(cluster: Cluster) -> Address:
    """What makes a connection another one."""
    return cluster.server, cluster.ca_pem, cluster.credential_path


def connect(cluster: Cluster) -> KubeApi:
    """The portal's own connection to a cluster, shared by all threads of this process. Its account sees everything and
    makes places for tenants; it can do no work in them."""
    with _apis_lock:
        known = _apis.get(cluster.pk)
        if known is None or known[0] != address(cluster):
            known = _apis[cluster.pk] = (address(cluster), KubeApi(endpoint(cluster)))
        return known[1]


def connect_for(cluster: Cluster, account: Account) -> KubeApi:
    """The connection for what is done in a tenant's name, as the account of its place: whatever the portal asks for by
    mistake, the cluster refuses it in the place of anybody else. Raises RightMissing, AccountMissing when used."""
    own = connect(cluster)
    with _apis_lock:
        known = _accounts.get((cluster.pk, account))
        if known is None or known[0] is not own:
            known = _accounts[cluster.pk, account] = (own, speak_for(own, account))
        return known[1]


def register(actor: Actor, registration: Registration, token: str) -> Cluster:
    """Register a cluster with a credential that the caller vouches for: it is checked by a worker, but used at once.
    First the credential, which alone harms nobody, then the row."""
    require_operator(actor)
    registration.check()
    vault().write(registration.credential_path, {"token": token.strip()})
    return register_cluster(actor, registration)
