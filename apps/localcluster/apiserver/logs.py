"""pods/log: passed on to the agent of the pod's node, which speaks a kubelet's `GET /containerLogs/…`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import httpx

from apps.localcluster.apiserver.answers import Answer
from apps.localcluster.apiserver.errors import (
    Cause,
    StatusError,
    bad_request,
    forbidden_value,
    invalid,
    invalid_value,
    not_found,
)
from apps.localcluster.apiserver.requests import Request, number_of
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

PASSED_ON = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes")
AT_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
TEXT = "text/plain"


class PodLogs:
    """Reads logs from node agents; `identity` shows them who asks."""

    def __init__(self, store: Store, identity: ssl.SSLContext) -> None:
        self.store = store
        # An agent on loopback serves plain HTTP or TLS with a certificate of its own; which one is learnt by trying.
        self._schemes: dict[str, str] = {}
        timeout = httpx.Timeout(5, read=None)  # a followed log is silent as long as the program is
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._client = httpx.AsyncClient(verify=identity, trust_env=False, timeout=timeout, limits=limits)

    async def close(self) -> None:
        await self._client.aclose()

    async def read(self, request: Request) -> Answer:
        """The log of one container. Raises StatusError."""
        record = self.store.get("pods", request.key)
        if record is None:
            raise not_found(request.kind, request.name)
        query = _options(request)
        spec = record.load()["spec"]
        container = container_of(request, spec)
        if not spec.get("nodeName"):
            return Answer(204, content_type="")
        node = self.store.get("nodes", ("", spec["nodeName"]))
        if node is None:
            raise not_found(request.kind, spec["nodeName"])
        path = f"/containerLogs/{request.namespace}/{request.name}/{container}"
        address = address_of(node.load().get("status") or {})
        response = await self._open(address, path + (f"?{urlencode(query)}" if query else ""))
        if response.status_code != 200:
            text = (await response.aread()).decode("utf-8", "replace")
            await response.aclose()
            raise _refusal(response.status_code, text.strip() or "the node's agent gave no log", request.name)
        return Answer(200, content_type=TEXT, stream=_pieces(response))

    async def _open(self, address: str, path: str) -> httpx.Response:
        known, failure = self._schemes.pop(address, None), ""
        for scheme in [known] if known else ["http", "https"]:
            request = self._client.build_request("GET", f"{scheme}://{address}{path}")
            try:
                response = await self._client.send(request, stream=True)
            except httpx.HTTPError as error:
                failure = str(error) or "timed out"
            else:
                self._schemes[address] = scheme
                return response
        raise StatusError(500, "", f'Get "https://{address}{path}": dial tcp {address}: connect: {failure}')


def _refusal(code: int, text: str, pod: str) -> StatusError:
    """What is passed on of an agent's refusal."""
    if code == 404:
        told = f"the server could not find the requested resource ( pods/log {pod})"
        return StatusError(404, "NotFound", told, {"name": pod, "kind": "pods/log"})
    return StatusError(code, "BadRequest" if code == 400 else "InternalError", text)


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    """The log as it comes; a node that goes away ends it."""
    try:
        async for piece in response.aiter_raw():
            yield piece
    except httpx.TransportError:
        return
    finally:
        await response.aclose()


def _options(request: Request) -> dict[str, str]:
    """PodLogOptions to pass on. Raises StatusError 400 or 422."""
    query = {name: request.query[name] for name in PASSED_ON if request.query.get(name)}
    causes: list[Cause] = []
    for name, least in AT_LEAST.items():
        if name in query and (number := number_of(request, name)) < least:
            text = "must be greater than or equal to 0" if least == 0 else "must be greater than 0"
            causes.append(invalid_value(name, number, text))
    if "sinceTime" in query:
        try:
            datetime.fromisoformat(query["sinceTime"])
        except ValueError as error:
            parsed = f'parsing time "{query["sinceTime"]}" as "2006-01-02T15:04:05Z07:00"'
            raise bad_request(f'{parsed}: cannot parse "{query["sinceTime"]}" as "2006"') from error
        if "sinceSeconds" in query:
            causes.append(forbidden_value("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if "stream" in request.query:
        causes.append(forbidden_value("stream", "may not be specified"))
    if causes:
        raise invalid(("", "PodLogOptions"), request.name, causes)
    return query


def container_of(request: Request, spec: Object) -> str:
    """The container that is meant. Raises StatusError 400 when none or a wrong one is named."""
    names = [each["name"] for each in spec.get("containers") or ()]
    others = [each["name"] for field in ("initContainers", "ephemeralContainers") for each in spec.get(field) or ()]
    named = request.query.get("container", "")
    if named and named not in names + others:
        raise bad_request(f"container {named} is not valid for pod {request.name}")
    if not named and len(names) > 1:
        told = f"a container name must be specified for pod {request.name}, choose one of: [{' '.join(names)}]"
        raise bad_request(told + (f" or one of the init containers: [{' '.join(others)}]" if others else ""))
    return named or names[0]


def address_of(status: Object) -> str:
    """Where the node's agent listens."""
    addresses = {each.get("type"): each.get("address") for each in status.get("addresses") or ()}
    host = addresses.get("InternalIP") or addresses.get("Hostname") or "127.0.0.1"
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 10250
    return f"{host}:{port}"
