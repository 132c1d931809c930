"""The corridor between the rooms: a small asynchronous client of any Kubernetes API.

Objects are plain dicts as the server sends them. The portal itself does not use this module; it has its own adapter.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

log = logging.getLogger(__name__)

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""

# A server ends a watch after this many seconds; a stream silent for longer than the read timeout is taken for dead.
WATCH_SECONDS = 240
TIMEOUT = httpx.Timeout(connect=3, read=30, write=10, pool=10)


class ApiError(Exception):
    """An answer other than 2xx. `status` is the HTTP code, `reason` and `message` come from the Status object."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


@dataclass(frozen=True)
class Kubeconfig:
    """Where a cluster is and who speaks. `verify` is what httpx takes: a context, or False for "do not check"."""

    server: str
    token: str
    verify: ssl.SSLContext | bool

    @classmethod
    def load(cls, path: str | Path) -> Kubeconfig:
        """Read the current context of a kubeconfig with a token or a client certificate. Raises KeyError, OSError."""
        document = yaml.safe_load(Path(path).read_text())
        context = _named(document["contexts"], document["current-context"])["context"]
        cluster = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"])["user"]
        return cls(cluster["server"], user.get("token", ""), _verification(cluster, user))


def _named(items: list[Object], name: str) -> Object:
    return next(item for item in items if item["name"] == name)


def _pem(section: Object, key: str) -> str:
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"]).decode()
    return Path(section[key]).read_text() if section.get(key) else ""


def _verification(cluster: Object, user: Object) -> ssl.SSLContext | bool:
    if not cluster["server"].startswith("https:"):
        return False
    authority = _pem(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority or None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate and key:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as chain:  # ssl reads key pairs from files only
            chain.write(certificate + "\n" + key)
            chain.flush()
            context.load_cert_chain(chain.name)
    return context


class KubeClient:
    """Calls one API server. Paths are absolute (`/api/v1/namespaces/team-a/pods`); errors are `ApiError`,
    and `httpx.TransportError` when there is no answer."""

    def __init__(self, config: Kubeconfig, manager: str) -> None:
        self.manager = manager
        # On loopback it takes longer to compress an answer than to send it.
        headers = {"User-Agent": manager, "Accept-Encoding": "identity"}
        headers |= {"Authorization": f"Bearer {config.token}"} if config.token else {}
        self._http = httpx.AsyncClient(
            base_url=config.server,
            headers=headers,
            verify=config.verify,
            timeout=TIMEOUT,
            trust_env=False,
            limits=httpx.Limits(max_connections=200, max_keepalive_connections=20),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, **params: str) -> Object:
        return await self._send("GET", path, params=params)

    async def create(self, path: str, body: Object) -> Object:
        return await self._send("POST", path, params={"fieldManager": self.manager}, body=body)

    async def replace(self, path: str, body: Object) -> Object:
        """PUT; the body must carry the resourceVersion it was read with."""
        return await self._send("PUT", path, params={"fieldManager": self.manager}, body=body)

    async def merge_patch(self, path: str, patch: Object) -> Object:
        """JSON merge patch (RFC 7386). Put `metadata.resourceVersion` in it to make it conditional (409 if stale)."""
        return await self._send(
            "PATCH", path, params={"fieldManager": self.manager}, body=patch, kind="application/merge-patch+json"
        )

    async def apply(self, path: str, body: Object) -> Object:
        """Server-side apply, taking over conflicting fields."""
        params = {"fieldManager": self.manager, "force": "true"}
        return await self._send("PATCH", path, params=params, body=body, kind="application/apply-patch+yaml")

    async def delete(self, path: str, *, grace: int | None = None, uid: str = "") -> bool:
        """Delete with background propagation; False if it was gone already."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self._send("DELETE", path, body=options)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def watch(self, path: str, resource_version: str, **params: str) -> AsyncIterator[tuple[str, Object]]:
        """Events `(type, object)` until the server ends the stream. An ERROR event is raised as `ApiError`."""
        query = {
            **params,
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = httpx.Timeout(connect=3, read=WATCH_SECONDS + 15, write=10, pool=10)
        async with self._http.stream("GET", path, params=query, timeout=timeout) as response:
            if response.status_code >= 400:
                await response.aread()
                raise _error(response)
            async for line in response.aiter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                yield event["type"], event["object"]

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Object | None = None,
        kind: str = "application/json",
    ) -> Object:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind} if content else {}
        response = await self._http.request(method, path, params=params, content=content, headers=headers)
        if response.status_code >= 400:
            raise _error(response)
        return dict(response.json()) if response.content else {}


def _error(response: httpx.Response) -> ApiError:
    # Some refusals (431, an unknown group, a full queue) are plain text, not a Status object.
    try:
        status = response.json()
    except ValueError:
        status = {}
    return ApiError(response.status_code, status.get("reason", ""), status.get("message", response.text[:500]))


def key_of(item: Object) -> Key:
    """Namespace and name of an object."""
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


@dataclass
class Reflector:
    """Keeps `store` equal to one collection of the server and tells `changed` about each difference.

    `changed(old, new)` is called for every event, with None for "was not there" or "is gone". `synced` is set after the
    first list. `run()` never returns: it lists, watches, and lists again after 410 or when the server was away.
    """

    client: KubeClient
    path: str
    changed: Callable[[Object | None, Object | None], None]
    params: dict[str, str] = field(default_factory=dict)
    store: dict[Key, Object] = field(default_factory=dict)
    synced: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        version, pause = "", 0.1
        while True:
            try:
                version = version or await self._list()
                pause = 0.1
                async for kind, item in self.client.watch(self.path, version, **self.params):
                    version = item["metadata"]["resourceVersion"]
                    if kind == "DELETED":
                        self._deleted(item)
                    elif kind != "BOOKMARK":
                        self._take(item, key_of(item))
            except ApiError as error:
                log.info("watch of %s: %s", self.path, error)
                version = ""
            except (httpx.TransportError, ValueError) as error:
                log.info("watch of %s broke: %r", self.path, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5)

    async def _list(self) -> str:
        answer = await self.client.get(self.path, **self.params)
        # Items of a list carry no kind of their own; watch events do. Give both the same shape.
        kind, api = answer["kind"].removesuffix("List"), answer["apiVersion"]
        fresh = {key_of(item): {"kind": kind, "apiVersion": api, **item} for item in answer["items"]}
        for key in self.store.keys() - fresh.keys():
            self._take(None, key)
        for key, item in fresh.items():
            if (
                self.store.get(key, {}).get("metadata", {}).get("resourceVersion")
                != item["metadata"]["resourceVersion"]
            ):
                self._take(item, key)
        self.synced.set()
        return str(answer["metadata"]["resourceVersion"])

    def _deleted(self, last: Object) -> None:
        self._take(None, key_of(last))

    def _take(self, new: Object | None, key: Key) -> None:
        old = self.store.pop(key, None) if new is None else self.store.get(key)
        if new is not None:
            self.store[key] = new
        self.changed(old, new)
