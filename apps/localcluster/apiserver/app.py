"""The ASGI application: reads a request, finds who asks for what, and hands it to the room that answers."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from apps.localcluster.apiserver import discovery, reading, reviews, watching, workloads
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
    no_method,
    no_path,
    no_resource,
    not_implemented,
    out_of_time,
)
from apps.localcluster.apiserver.exec import PodExec
from apps.localcluster.apiserver.hooks import Webhooks
from apps.localcluster.apiserver.kinds import Kind, Registry
from apps.localcluster.apiserver.logs import PodLogs
from apps.localcluster.apiserver.openapi import OpenApi
from apps.localcluster.apiserver.rbac import VERBS, Rbac, path_refusal, verb_of
from apps.localcluster.apiserver.requests import Request, Target, User, form_of, parse_path, parse_query, timeout_of
from apps.localcluster.apiserver.scaling import Scaling
from apps.localcluster.apiserver.store import Store
from apps.localcluster.apiserver.subresources import Subresources
from apps.localcluster.apiserver.tokens import Tokens
from apps.localcluster.apiserver.writing import Writer
from apps.localcluster.controllers.base import Cluster
from apps.localcluster.controllers.manager import Controllers

log = logging.getLogger(__name__)

Object = dict[str, Any]
Handler = Callable[[Request], Awaitable[Answer]]

LARGEST_BODY = 3 * 1024 * 1024
HEALTH = ("/healthz", "/livez", "/readyz")
ENDLESS = ("watch", "log")
"""Verb and subresource of what may go on for longer than `timeout` says."""


class ApiServer:
    """One API server over one store. `authority` is the certificate (PEM) that its own is checked against, `identity`
    what it shows to nodes."""

    def __init__(
        self, store: Store, registry: Registry, tokens: Tokens, authority: str, identity: ssl.SSLContext
    ) -> None:
        self.store, self.registry, self.tokens = store, registry, tokens
        self.rbac = Rbac(store)
        self.openapi = OpenApi(registry)
        self.hooks = Webhooks(store)
        admission = Admission(store, registry, self.hooks, self.rbac)
        writer, deleter = Writer(store, registry, admission), Deleter(store, admission)
        self.logs, self.exec = PodLogs(store, identity), PodExec(store, self.rbac, identity)
        self.controllers = Controllers(Cluster(store, registry, writer, deleter), tokens, authority)
        self.controlled = True
        """Whether the controllers run; without them it is kube-apiserver alone."""
        self.stopping = False
        self._loop: asyncio.Task[None] | None = None
        self._handlers: dict[str, Handler] = {
            "get": partial(reading.get, store),
            "list": partial(reading.list_, store),
            "watch": self._watch,
            "create": writer.create,
            "update": writer.update,
            "patch": writer.patch,
            "delete": deleter.delete,
            "deletecollection": deleter.delete_collection,
        }
        subresources = Subresources(store, admission, deleter, tokens)
        self._special: dict[tuple[str, str], Handler] = {
            ("pods", "binding"): subresources.bind,
            ("pods", "eviction"): subresources.evict,
            ("pods", "exec"): self.exec.open,
            ("pods", "log"): self.logs.read,
            ("serviceaccounts", "token"): subresources.token,
            **{(resource, "scale"): Scaling(store, writer).answer for resource in workloads.SCALABLE},
        }

    # -- life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            answer = await self._answer(scope, headers, receive)
        except (StatusError, PlainError) as error:
            answer = error_answer(error)
        if scope["type"] == "websocket":
            await self.exec.serve(answer, scope, receive, send)
        else:
            await send_answer(answer, headers, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        if self.controlled:
            self._loop = asyncio.create_task(self.controllers.run())
            self._loop.add_done_callback(_loop_ended)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self._loop:
            self._loop.cancel()
        await self.hooks.close()
        await self.logs.close()
        self.store.close()
        await send({"type": "lifespan.shutdown.complete"})

    def stop(self) -> None:
        """End every open watch, so that the server can close."""
        self.stopping = True
        for resource in self.store.resources():
            self.store.ring(resource)

    # -- one request

    async def _answer(self, scope: Scope, headers: dict[str, str], receive: Receive) -> Answer:
        method, body = scope.get("method", "GET"), await _read(receive)  # a WebSocket begins with a GET
        if any(name.startswith("impersonate-") for name in headers):
            raise not_implemented("impersonation")
        user = self.tokens.authenticate(headers.get("authorization", ""))
        target, query = parse_path(scope["path"]), parse_query(scope["query_string"])
        if not target.plural:
            return self._outside(method, target.path, query, user, headers)
        kind = self.registry.find(target.group, target.version, target.plural)
        # Rights are asked before existence.
        asked = kind or Kind(target.group, target.version, "", target.plural)
        request = Request(method, target, query, headers, user, asked, body)
        verb = verb_of(request)
        self.rbac.check(request, verb)
        if kind is None or (target.namespace and not kind.namespaced and kind.plural != "namespaces"):
            raise self._nothing(target)
        request = replace(request, form=form_of(headers.get("accept", ""), verb))
        handler, seconds = self._handler(request, verb), timeout_of(request)
        if verb in ENDLESS or target.subresource in ENDLESS:
            return await handler(request)
        try:
            async with asyncio.timeout(seconds):
                return await handler(request)
        except TimeoutError:
            raise out_of_time() from None

    def _handler(self, request: Request, verb: str) -> Handler:
        """Raises StatusError 404 or 405."""
        kind, target = request.kind, request.target
        if target.subresource and target.subresource not in kind.subresources:
            raise no_resource()
        if kind.review:
            if verb != "create" or target.name:
                raise no_method()
            return partial(reviews.review, self.rbac)
        offered = kind.subresources[target.subresource][1] if target.subresource else kind.verbs
        about_one = verb in ("get", "update", "patch", "delete") or bool(target.subresource)
        everywhere = kind.namespaced and not request.namespace
        if verb not in offered or request.method == "HEAD" or about_one != bool(target.name):
            raise no_method()
        if everywhere and verb in ("create", "deletecollection"):
            raise no_method()
        return self._special.get((kind.resource, target.subresource)) or self._handlers[verb]

    async def _watch(self, request: Request) -> Answer:
        kind = request.kind
        known = partial(self.registry.find, kind.group, kind.version, kind.plural)
        return await watching.watch(self.store, request, lambda: not self.stopping and known() is not None)

    def _outside(self, method: str, path: str, query: dict[str, str], user: User, headers: dict[str, str]) -> Answer:
        """Paths outside the API, and those that tell what is inside."""
        verb = VERBS.get(method, method.lower())
        if not self.rbac.allows_path(user, verb, path):
            raise path_refusal(user, verb, path)
        found: Answer | None
        if path in HEALTH:
            if query:
                raise not_implemented("a detailed report of health")
            found = Answer(200, b"ok", TEXT)
        elif path == "/version":
            found = json_answer(discovery.VERSION)
        elif path == "/":
            found = json_answer({"paths": ["/api", "/api/v1", "/apis", *HEALTH, "/openapi/v3", "/version"]})
        elif path.startswith("/openapi/"):
            found = self.openapi.answer(path)
        else:
            found = discovery.answer(self.registry, path, headers.get("accept", ""), headers.get("host", ""))
        if found is None:
            raise self._nothing(parse_path(path + "/x")) if path.startswith("/apis/") else no_path()
        if method not in ("GET", "HEAD"):
            raise no_method()
        return found

    def _nothing(self, target: Target) -> Exception:
        """A kind of a built-in group that is not there is a Status, anything else plain text."""
        kinds = [kind for versions in self.registry.groups().get(target.group, {}).values() for kind in versions]
        built_in = bool(kinds) and not any(kind.custom for kind in kinds)
        return no_resource() if built_in else no_path()


def _loop_ended(loop: asyncio.Task[None]) -> None:
    """Without its controllers the cluster would stand still unnoticed: end the server instead."""
    if not loop.cancelled() and (error := loop.exception()):
        log.critical("the controllers broke", exc_info=error)
        signal.raise_signal(signal.SIGTERM)


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
