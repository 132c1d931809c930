"""Idle pages: 10,000 sockets of signed-in people, each following its inbox, on one web process."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil

from deploy.local.memory import by_program
from deploy.local.stack import TREE
from deploy.local.supervise import Supervisor
from deploy.local.testing import demo
from tests.bench.figure import Figure
from tests.prove.stack import SCIENTIST, Stack

SOCKETS, AT_ONCE = int(os.environ.get("MAAS_SOCKETS", "10000")), 50
IDLE_SECONDS = 60
"""Two rounds in which each socket is judged again."""


def figures() -> Iterator[Figure]:
    with demo(None, "--port", "8480", "--without", "volcano,nodeagent,gateway,worker,watch") as running:
        stack = Stack(running)
        with stack.browser(SCIENTIST) as client:
            session, page = client.cookies["sessionid"], client.get("/").text
        inbox = re.search(r"inbox\.[0-9a-f-]{36}", page)
        assert inbox
        web = psutil.Process(int(Supervisor(running.home, TREE).states()["web"]["pid"]))
        before, context = by_program(running.home)["web"], multiprocessing.get_context("spawn")
        with context.Manager() as shared, ProcessPoolExecutor(1, context) as pool:
            opened, end = shared.Event(), shared.Event()
            pages = pool.submit(run, Pages(stack.url, session, inbox[0]), opened, end)
            while not opened.wait(1) and not pages.done():
                pass
            busy, start = sum(web.cpu_times()[:2]), time.monotonic()
            time.sleep(IDLE_SECONDS)
            cpu = (sum(web.cpu_times()[:2]) - busy) / (time.monotonic() - start)
            added = by_program(running.home)["web"] - before
            end.set()
            closed, took = pages.result()
        yield Figure("sockets-memory", added / 1e6, "MB", None, 400)
        yield Figure("sockets-cpu", 100 * cpu, "% of a core", None, 100)
        yield Figure("sockets-opening", 1000 * took / SOCKETS, "ms a socket", None, 10)
        yield Figure("sockets-closed", closed, "closed by the portal", None, 0)


@dataclass(frozen=True)
class Pages:
    url: str
    session: str
    topic: str


def run(pages: Pages, opened: Any, end: Any) -> tuple[int, float]:
    """Open them, keep them open until told; how many were closed meanwhile, and the seconds that opening took."""
    return asyncio.run(_run(pages, opened, end))


async def _run(pages: Pages, opened: Event, end: Event) -> tuple[int, float]:
    address = urlsplit(pages.url)._replace(scheme="ws", path="/ws/").geturl()
    headers = {"Cookie": f"sessionid={pages.session}", "Origin": pages.url}
    gate, listening = asyncio.Semaphore(AT_ONCE), list[asyncio.Task[None]]()
    start = time.monotonic()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        async def one() -> None:
            async with gate:
                socket = await client.ws_connect(address, headers=headers, compress=15)  # offered, as browsers do
                await socket.send_json({"op": "subscribe", "topic": pages.topic, "cursor": None, "log": False})
            listening.append(asyncio.create_task(_listen(socket)))

        async with asyncio.TaskGroup() as group:
            for _ in range(SOCKETS):
                group.create_task(one())
        took = time.monotonic() - start
        opened.set()
        await asyncio.to_thread(end.wait)
        closed = sum(task.done() for task in listening)
        for task in listening:
            task.cancel()
    return closed, took


async def _listen(socket: aiohttp.ClientWebSocketResponse) -> None:
    async for _message in socket:
        pass
