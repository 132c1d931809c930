"""The part of a kubelet's HTTP interface that the API server needs: `GET /containerLogs/NAMESPACE/POD/CONTAINER`, and
`/exec/NAMESPACE/POD/CONTAINER` over WebSocket."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

from apps.localcluster.nodeagent import logreader
from apps.localcluster.nodeagent.crilog import stamp
from apps.localcluster.nodeagent.records import PodFolder, attempt
from apps.localcluster.nodeagent.remotecommand import Session, Wish, protocol

Object = dict[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PULLS = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
"""What a container waits for, where the reason of its state does not say it."""
_PATH = re.compile(r"/containerLogs/([^/]+)/([^/]+)/([^/]+)")
_EXEC = re.compile(r"/exec/([^/]+)/([^/]+)/([^/]+)")


class Pods(Protocol):
    """Where the server finds pods."""

    def find(self, namespace: str, name: str) -> tuple[Object, PodFolder] | None: ...


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class LogServer:
    """An ASGI application. `known` says that its clients have shown who they are: only those may run commands."""

    pods: Pods
    known: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] == "websocket":
                await self._exec(scope, receive, send)
            else:
                await self._answer(scope, receive, send)
        except Refusal as refusal:
            await _text(send, refusal.status, str(refusal), "websocket." if scope["type"] == "websocket" else "")

    async def _exec(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # "websocket.connect"
        found = _EXEC.fullmatch(scope["path"])
        if not found:
            raise Refusal(404, "404 page not found\n")
        if not self.known:
            raise Refusal(403, "this node runs commands for clients with a certificate only (see --client-ca)")
        try:
            wish = Wish.read(scope["query_string"].decode())
        except ValueError as error:
            raise Refusal(400, str(error)) from error
        chosen = protocol(scope["subprotocols"])
        if chosen is None:
            raise Refusal(400, f"none of the protocols is known: {', '.join(scope['subprotocols'])}")
        folder = self._running(*found.groups())
        await send({"type": "websocket.accept", "subprotocol": chosen})
        try:
            await Session(wish, receive, send).run(folder)
        except OSError:
            pass  # the client has left

    def _running(self, namespace: str, name: str, container: str) -> Path:
        found = self.pods.find(namespace, name)
        if not found:
            raise Refusal(404, "pod does not exist")
        attempts = found[1].attempts(container)
        if not attempts or not attempts[-1].running:
            raise Refusal(500, f'container not found ("{container}")')
        return attempts[-1].folder

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":
            await _text(send, 200, "ok")
            return
        found = _PATH.fullmatch(scope["path"])
        if not found:
            upgrade = _EXEC.fullmatch(scope["path"])
            raise Refusal(400, "Upgrade request required") if upgrade else Refusal(404, "404 page not found\n")
        if scope["method"] != "GET":
            raise Refusal(405, "405: Method Not Allowed")
        query = {key: values[-1] for key, values in parse_qs(scope["query_string"].decode()).items()}
        options = parse_options(query, datetime.now(UTC))
        folder = self._attempt(*found.groups(), previous=query.get("previous") == "true")
        gone = asyncio.ensure_future(_disconnected(receive))

        def ended() -> bool:
            now = attempt(folder) if folder.exists() else None
            return gone.done() or now is None or now.ended is not None

        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        lines = logreader.read(folder / "log", options, ended)
        try:
            async for data in lines:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await lines.aclose()

    def _attempt(self, namespace: str, name: str, container: str, *, previous: bool) -> Path:
        """The folder of the attempt whose log is meant, by the kubelet's rules and in its words."""
        found = self.pods.find(namespace, name)
        if not found:
            raise Refusal(404, f'pod "{name}" does not exist\n')
        pod, folder = found
        spec = pod["spec"]
        if container not in {c["name"] for c in (*spec["containers"], *(spec.get("initContainers") or ()))}:
            raise Refusal(404, f'container "{container}" not found in pod "{name}"\n')
        begun = [one for one in folder.attempts(container) if one.started or one.ended]
        waiting = waiting_reason(pod, container)
        if previous:
            # While it waits to run again, the newest run is already the previous one.
            begun = begun if waiting else begun[:-1]
            if not begun:
                raise Refusal(400, f'previous terminated container "{container}" in pod "{name}" not found')
        if not begun:
            reason = PULLS.get(waiting, waiting or "ContainerCreating")
            raise Refusal(400, f'container "{container}" in pod "{name}" is waiting to start: {reason}')
        return begun[-1].folder


def waiting_reason(pod: Object, container: str) -> str:
    """Why a container waits, from the pod's status; empty if it does not."""
    status = pod.get("status") or {}
    entries = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    state = next((entry.get("state") or {} for entry in entries if entry["name"] == container), {})
    return str((state.get("waiting") or {}).get("reason", ""))


def parse_options(query: dict[str, str], now: datetime) -> logreader.LogOptions:
    """Raises Refusal for values that cannot be read."""
    try:
        since = query.get("sinceTime", "")
        moment = datetime.fromisoformat(since) if since else None
        if "sinceSeconds" in query:
            moment = now - timedelta(seconds=int(query["sinceSeconds"]))
        return logreader.LogOptions(
            follow=query.get("follow") == "true",
            timestamps=query.get("timestamps") == "true",
            tail=int(query["tailLines"]) if "tailLines" in query else None,
            # Whole seconds, as the API has it: a reader that resumes gets the lines of that second again.
            since=stamp(int(moment.timestamp()) * 1_000_000_000) if moment else "",
            limit=int(query["limitBytes"]) if "limitBytes" in query else None,
        )
    except (ValueError, OverflowError) as error:
        raise Refusal(400, f"unable to decode the request: {error}") from error


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _text(send: Send, status: int, text: str, kind: str = "") -> None:
    headers = [(b"content-type", b"text/plain")]
    await send({"type": f"{kind}http.response.start", "status": status, "headers": headers})
    await send({"type": f"{kind}http.response.body", "body": text.encode()})
