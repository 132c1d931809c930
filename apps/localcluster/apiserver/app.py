"""The ASGI application: reads a request, finds who asks for what, and hands it to the room that answers."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from typing import Any

from apps.localcluster.apiserver import discovery, reading, reviews, tables, watching
from apps.localcluster.apiserver.admission import Admission
from apps.localcluster.apiserver.answers import (
    TEXT,
    Answer,
    Receive,
    Scope,
    Send,
    error_answer,
    json_answer,
    send_answer,
)
from apps.localcluster.apiserver.deleting import Deleter
from apps.localcluster.apiserver.errors import (
    PlainError,
    StatusError,
    bad_request,
    no_method,
    no_resource,
    not_implemented,
)
from apps.localcluster.apiserver.hooks import Webhooks
from apps.localcluster.apiserver.kinds import Kind, Registry
from apps.localcluster.apiserver.logs import PodLogs
from apps.localcluster.apiserver.openapi import OpenApi
from apps.localcluster.apiserver.rbac import VERBS, Rbac, path_refusal, verb_of
from apps.localcluster.apiserver.requests import Request, Target, User, parse_path, parse_query
from apps.localcluster.apiserver.scaling import Scaling
from apps.localcluster.apiserver.store import Store
from apps.localcluster.apiserver.subresources import Subresources
from apps.localcluster.apiserver.tokens import Tokens
from apps.localcluster.apiserver.writing import Writer
from apps.localcluster.controllers.base import Cluster
from apps.localcluster.controllers.manager import Controllers

log = logging.getLogger(__name__)

Object = dict[str, Any]

LARGEST_BODY = 3 * 1024 * 1024
HEALTH = ("/healthz", "/livez", "/readyz")
NOT_ACCEPTABLE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf"
)
WRITE_SUBRESOURCES = {("pods", "binding"): "bind", ("pods", "eviction"): "evict", ("serviceaccounts", "token"): "token"}


class ApiServer:
    """One API server over one store. `authority` is the certificate (PEM) that its own is checked against."""

    def __init__(self, store: Store, registry: Registry, tokens: Tokens, authority: str) -> None:
        self.store, self.registry, self.tokens = store, registry, tokens
        self.rbac = Rbac(store)
        self.openapi = OpenApi(registry)
        self.hooks = Webhooks(store)
        admission = Admission(store, registry, self.hooks, self.rbac)
        self.writer = Writer(store, registry, admission)
        self.deleter = Deleter(store, admission)
        self.subresources = Subresources(store, admission, self.deleter, tokens)
        self.logs = PodLogs(store)
        self.scaling = Scaling(store, self.writer)
        self.controllers = Controllers(Cluster(store, registry, self.writer, self.deleter), tokens, authority)
        self.stopping = False
        self._loop: asyncio.Task[None] | None = None

    # -- life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1002})
            return
        try:
            answer = await self._answer(scope, receive)
        except (StatusError, PlainError) as error:
            answer = error_answer(error)
        await send_answer(answer, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._loop = asyncio.create_task(self.controllers.run())
                self._loop.add_done_callback(_loop_ended)
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._loop:
                    self._loop.cancel()
                await self.hooks.close()
                await self.logs.close()
                self.store.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def stop(self) -> None:
        """End every open watch, so that the server can close."""
        self.stopping = True
        for resource in self.store.resources():
            self.store.ring(resource)

    # -- one request

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        method, path = scope["method"], scope["path"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        body = await _read(receive)
        if any(name.startswith("impersonate-") for name in headers):
            raise not_implemented("impersonation")
        user = self.tokens.authenticate(headers.get("authorization", ""))
        target = parse_path(path)
        if not target.is_resource:
            return self._outside(method, target.path, user, headers)
        kind = self.registry.find(target.group, target.version, target.plural)
        query = parse_query(scope["query_string"])
        request = Request(method, target, query, headers, user, kind or _unknown(target), body)
        self.rbac.check(request, verb_of(request))
        if kind is None or (target.namespace and not kind.namespaced and kind.plural != "namespaces"):
            raise self._nothing(target)
        _check_accept(request)
        _check_timeout(request)
        return await self._route(request)

    def _outside(self, method: str, path: str, user: User, headers: dict[str, str]) -> Answer:
        verb = VERBS.get(method, method.lower())
        if not self.rbac.allows_path(user, verb, path):
            raise path_refusal(user, verb, path)
        if path in HEALTH:
            return Answer(200, b"ok", TEXT)
        if path == "/version":
            return json_answer(discovery.VERSION)
        if path == "/":
            return json_answer({"paths": ["/api", "/api/v1", "/apis", *HEALTH, "/version"]})
        if path.startswith("/openapi/"):
            found = self.openapi.answer(path)
        else:
            found = discovery.answer(self.registry, path, headers.get("accept", ""), headers.get("host", ""))
        if found is None:
            raise self._nothing(parse_path(path + "/x")) if path.startswith("/apis/") else PlainError(404, NOT_FOUND)
        if method not in ("GET", "HEAD"):
            raise no_method()
        return found

    def _nothing(self, target: Target) -> Exception:
        """A kind of a built-in group that is not there is a Status, anything else plain text."""
        kinds = [kind for versions in self.registry.groups().get(target.group, {}).values() for kind in versions]
        built_in = bool(kinds) and not any(kind.custom for kind in kinds)
        return no_resource() if built_in else PlainError(404, NOT_FOUND)

    async def _route(self, request: Request) -> Answer:
        kind, target, method = request.kind, request.target, request.method
        if kind.review:
            if method != "POST" or target.name:
                raise no_method()
            return reviews.review(self.store, self.rbac, request)
        if target.subresource:
            return await self._subresource(request)
        if verb_of(request) not in kind.verbs:
            raise no_method()
        if not target.name:
            return await self._collection(request)
        if method == "GET":
            return await reading.get(self.store, request)
        if method == "PUT":
            return await self.writer.update(request)
        if method == "PATCH":
            return await self.writer.patch(request)
        if method == "DELETE":
            return await self.deleter.delete(request)
        raise no_method()

    async def _collection(self, request: Request) -> Answer:
        inside = bool(request.namespace) or not request.kind.namespaced
        if request.method == "GET" and request.flag("watch"):
            kind = request.kind
            return await watching.watch(self.store, request, lambda: not self.stopping and self._offers(kind))
        if request.method == "GET":
            return await reading.list_(self.store, request)
        if request.method == "POST" and inside:
            return await self.writer.create(request)
        if request.method == "DELETE" and inside:
            return await self.deleter.delete_collection(request)
        raise no_method()

    def _offers(self, kind: Kind) -> bool:
        return self.registry.find(kind.group, kind.version, kind.plural) is not None

    async def _subresource(self, request: Request) -> Answer:
        kind, name = request.kind, request.target.subresource
        if name not in kind.subresources:
            raise no_resource()
        if VERBS.get(request.method) not in kind.subresources[name][1]:
            raise no_method()
        if (kind.resource, name) in WRITE_SUBRESOURCES:
            handler = getattr(self.subresources, WRITE_SUBRESOURCES[kind.resource, name])
            answer: Answer = await handler(request)
            return answer
        if name == "scale":
            return await self.scaling.answer(request)
        if name == "log":
            return await self.logs.read(request)
        if request.method == "GET":
            return await reading.get(self.store, request)
        if request.method == "PUT":
            return await self.writer.update(request)
        return await self.writer.patch(request)


def _loop_ended(loop: asyncio.Task[None]) -> None:
    """Without its controllers the cluster would stand still unnoticed: end the server instead."""
    if not loop.cancelled() and (error := loop.exception()):
        log.critical("the controllers broke", exc_info=error)
        signal.raise_signal(signal.SIGTERM)


NOT_FOUND = "404 page not found\n"


def _unknown(target: Target) -> Kind:
    """Stands in for a kind that is not there, so that rights can be asked before existence."""
    return Kind(target.group, target.version, "", target.plural)


def _check_accept(request: Request) -> None:
    """Refuse a client that can read nothing of what is offered: JSON, tables, and metadata alone outside watches."""
    accept, watching = request.headers.get("accept", ""), request.flag("watch")
    if not accept or tables.wanted(accept):
        return
    if not watching and any(tables.wanted(accept, tables.PARTIAL + end) for end in ("", "List")):
        return
    for part in accept.split(","):
        media, _, parameters = part.strip().partition(";")
        if "as=" not in parameters and media.strip() in ("*/*", "application/*", "application/json"):
            return
    raise StatusError(406, "NotAcceptable", NOT_ACCEPTABLE, {})


def _check_timeout(request: Request) -> None:
    """Refuse a `timeout` that is no duration of Go."""
    text = request.query.get("timeout", "")
    if text and not re.fullmatch(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+", text):
        told = f'invalid timeout specified in the request URL - time: invalid duration "{text}"'
        raise bad_request(told)


async def _read(receive: Receive) -> bytes:
    """The body of a request. Raises StatusError 413 when it is too large."""
    pieces, size = [], 0
    while True:
        message = await receive()
        piece = message.get("body", b"")
        size += len(piece)
        if size > LARGEST_BODY:
            raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_BODY}")
        pieces.append(piece)
        if not message.get("more_body"):
            return b"".join(pieces)
