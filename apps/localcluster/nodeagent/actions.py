"""What probes and hooks do: run a command, ask a URL, open a connection, wait. Failures have the kubelet's words."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from apps.localcluster.nodeagent import execute, restarts
from apps.localcluster.nodeagent.execute import ExecError

Object = dict[str, Any]
OUTPUT = 10 * 1024  # bytes kept of what a command prints
HOPS = 10  # redirects followed, on the same host only


class Failed(Exception):
    """It was done, and failed; the text says how."""


class Undone(Exception):
    """It could not be done: nothing is known."""


@dataclass(frozen=True)
class Place:
    """The container an action is about: the folder of its running attempt, its spec and its pod's address."""

    folder: Path
    container: Object
    ip: str


class Actions:
    """Does them; holds the HTTP client that all of an agent's pods share."""

    def __init__(self) -> None:
        # Certificates are not checked: a kubelet does not either.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.AsyncClient(verify=False, trust_env=False, timeout=None, limits=limits)  # noqa: S113, S501

    async def do(self, action: Object, place: Place, agent: str, seconds: float | None = None) -> None:
        """Do one, in so many seconds. Raises Failed, Undone; TimeoutError where a hook takes longer."""
        try:
            async with asyncio.timeout(seconds) as limit:
                await self._do(action, place, agent)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Failed(_too_long(action, place, seconds or 0)) from None

    async def _do(self, action: Object, place: Place, agent: str) -> None:
        if action.get("exec"):
            await _run(action["exec"].get("command") or [], place)
        elif action.get("httpGet"):
            await self._get(action["httpGet"], place, agent)
        elif action.get("tcpSocket"):
            await _connect(action["tcpSocket"], place)
        elif action.get("sleep"):
            await asyncio.sleep(action["sleep"].get("seconds") or 0)
        else:
            kinds = [key for key in ("grpc",) if key in action] or ["nothing"]
            raise Undone(f"this node does not do {kinds[0]}")

    async def _get(self, wish: Object, place: Place, agent: str) -> None:
        try:
            url = httpx.URL(_url(wish, place))
        except httpx.InvalidURL as error:
            raise Undone(str(error)) from error
        given = [(each["name"], each.get("value", "")) for each in wish.get("httpHeaders") or ()]
        names = {name.lower() for name, _ in given}
        usual = {"User-Agent": f"kube-{agent}/1.36", "Accept": "*/*", "Connection": "close"}
        headers = [*((name, value) for name, value in usual.items() if name.lower() not in names), *given]
        request = self._http.build_request("GET", url, headers=headers)
        try:
            for _ in range(HOPS):
                response = await self._http.send(request, stream=True)
                await response.aclose()
                onward = response.next_request
                if onward is None or onward.url.host != url.host:
                    break
                request = onward
        except httpx.HTTPError as error:
            raise Failed(f'Get "{url}": {_network(error, url.host, url.port or 80)}') from error
        if not 200 <= response.status_code < 400:
            raise Failed(f"HTTP probe failed with statuscode: {response.status_code}")


async def _run(command: list[str], place: Place) -> None:
    try:
        code, output = await execute.output(place.folder, command, OUTPUT)
    except (ExecError, OSError) as error:
        raise Undone(str(error)) from error
    if code:
        raise Failed(output)


async def _connect(wish: Object, place: Place) -> None:
    host, port = wish.get("host") or place.ip, port_of(wish.get("port"), place.container)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        raise Failed(_network(error, host, port)) from error
    writer.close()


def _network(error: Exception, host: str, port: int) -> str:
    """In the words of Go's network library."""
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, OSError) and cause.errno):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, OSError) and cause.errno:
        return f"dial tcp {host}:{port}: connect: {os.strerror(cause.errno).lower()}"
    return str(error) or "EOF"


def _too_long(action: Object, place: Place, seconds: float) -> str:
    if action.get("exec"):
        command = " ".join(action["exec"].get("command") or ())
        return f'command timed out: "{command}" timed out after {restarts.duration(seconds)}'
    if action.get("httpGet"):
        return (
            f'Get "{_url(action["httpGet"], place)}": context deadline exceeded '
            "(Client.Timeout exceeded while awaiting headers)"
        )
    wish = action.get("tcpSocket") or {}
    return f"dial tcp {wish.get('host') or place.ip}:{wish.get('port')}: i/o timeout"


def _url(wish: Object, place: Place) -> str:
    path = wish.get("path") or "/"
    host, port = wish.get("host") or place.ip, port_of(wish.get("port"), place.container)
    return f"{(wish.get('scheme') or 'HTTP').lower()}://{host}:{port}{path if path.startswith('/') else '/' + path}"


def port_of(port: Any, container: Object) -> int:
    """A port by number, or by its name in the container. Raises Undone."""
    if isinstance(port, str) and not port.isdigit():
        named: Callable[[Object], bool] = lambda each: each.get("name") == port  # noqa: E731
        found = next(filter(named, container.get("ports") or ()), None)
        if found is None:
            raise Undone(f"couldn't find port: {port} in container {container['name']}")
        return int(found["containerPort"])
    return int(port or 0)
