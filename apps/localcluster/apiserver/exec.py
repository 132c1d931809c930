"""pods/exec: a WebSocket that is passed on to the agent of the pod's node, which speaks a kubelet's `/exec/…`."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from apps.localcluster.apiserver.answers import TEXT, Answer, Receive, Scope, Send, error_answer
from apps.localcluster.apiserver.errors import StatusError, bad_request, not_found, not_implemented
from apps.localcluster.apiserver.logs import address_of, container_of
from apps.localcluster.apiserver.rbac import Rbac
from apps.localcluster.apiserver.requests import Request
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""Parameters of the API, by the kubelet's names for them."""


@dataclass
class Tunnel(Answer):
    """What a client with a WebSocket is to be connected with."""

    address: str = ""
    path: str = ""


class PodExec:
    """Connects clients with node agents; `identity` shows the agents who asks."""

    def __init__(self, store: Store, rbac: Rbac, identity: ssl.SSLContext) -> None:
        self.store, self.rbac, self.identity = store, rbac, identity

    async def open(self, request: Request) -> Answer:
        """Where the way leads. Raises StatusError."""
        self.rbac.check(request, "create")  # a WebSocket begins with a GET, but running a command is no reading
        record = self.store.get("pods", request.key)
        if record is None:
            raise not_found(request.kind, request.name)
        spec = record.load()["spec"]
        container = container_of(request, spec)
        if not spec.get("nodeName"):
            raise bad_request(f"pod {request.name} does not have a host assigned")
        node = self.store.get("nodes", ("", spec["nodeName"]))
        if node is None:
            raise not_found(request.kind, spec["nodeName"])
        upgrade = request.headers.get("upgrade", "").lower()
        if not upgrade:
            raise bad_request("Upgrade request required")
        address = address_of(node.load().get("status") or {})
        if upgrade != "websocket":
            await self._reach(address)
            raise not_implemented(f"exec over {upgrade.upper()}")
        return Tunnel(address=address, path=f"/exec/{request.namespace}/{request.name}/{container}")

    async def _reach(self, address: str) -> None:
        """kubectl asks in the old way after it was refused in the new one, and shows this answer only. Raises
        StatusError where the trouble lies with the node."""
        host, _, port = address.rpartition(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port), ssl=self.identity)
        except OSError as error:
            raise _unreachable(address, error) from error
        writer.close()

    async def serve(self, answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a client with a WebSocket: connect it, or refuse it the connection."""
        try:
            if answer.stream is not None or (answer.status < 300 and not isinstance(answer, Tunnel)):
                raise not_implemented("this over WebSocket")
            if isinstance(answer, Tunnel):
                answer = await self._connect(answer, scope, receive, send)
        except StatusError as error:
            answer = error_answer(error)
        if not isinstance(answer, Tunnel):
            headers = [(b"content-type", answer.content_type.encode())]
            await send({"type": "websocket.http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": answer.body})

    async def _connect(self, tunnel: Tunnel, scope: Scope, receive: Receive, send: Send) -> Answer:
        """Raises StatusError; an Answer that is no tunnel is the node's refusal."""
        query = parse_qs(scope["query_string"].decode(), keep_blank_values=True)
        wanted = [(theirs, "1") for ours, theirs in STREAMS.items() if _is_true(query.get(ours, ["false"])[0])]
        wanted += [("command", word) for word in query.get("command", ())]
        try:
            node = await connect(
                f"wss://{tunnel.address}{tunnel.path}?{urlencode(wanted)}",
                ssl=self.identity,
                subprotocols=scope["subprotocols"] or None,
                compression=None,
                max_size=None,
                proxy=None,
            )
        except InvalidStatus as refusal:
            return Answer(refusal.response.status_code, bytes(refusal.response.body or b""), TEXT)
        except (OSError, InvalidHandshake) as error:
            raise _unreachable(tunnel.address, error) from error
        async with node:
            await send({"type": "websocket.accept", "subprotocol": node.subprotocol})
            await _carry(node, receive, send)
        return tunnel


def _unreachable(address: str, error: Exception) -> StatusError:
    told = f"error dialing backend: dial tcp {address}: {error}"
    return StatusError(500, "InternalError", f"Internal error occurred: {told}", {"causes": [{"message": told}]})


def _is_true(text: str) -> bool:
    return text.lower() not in ("0", "false")


async def _carry(node: ClientConnection, receive: Receive, send: Send) -> None:
    """Messages both ways until either side leaves."""
    ways = {asyncio.create_task(_to_client(node, send)), asyncio.create_task(_to_node(node, receive))}
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.wait(ways)


async def _to_client(node: ClientConnection, send: Send) -> None:
    try:
        async for message in node:
            await send({"type": "websocket.send", "bytes" if isinstance(message, bytes) else "text": message})
        await send({"type": "websocket.close", "code": node.close_code or 1000})
    except (ConnectionClosed, OSError):
        return  # one of both has gone without a word


async def _to_node(node: ClientConnection, receive: Receive) -> None:
    try:
        while (message := await receive())["type"] != "websocket.disconnect":
            data = message.get("bytes")
            await node.send(message["text"] if data is None else data)
    except ConnectionClosed:
        return
