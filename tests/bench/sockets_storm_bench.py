"""Pages that all lose their sockets at once and come back, as pages do, and pages that come and go all day."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import numpy as np
from ulid import ULID

from deploy.local.memory import by_program
from deploy.local.testing import demo
from tests.bench.figure import Figure
from tests.bench.watch_hint_bench import ROWS
from tests.prove.stack import SCIENTIST, Stack

PAGES, AT_ONCE = int(os.environ.get("MAAS_STORM", "2000")), 50
CHURN, ROUNDS = 1000, int(os.environ.get("MAAS_ROUNDS", "20"))
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 20.0
"""Of `static/js/lib/backoff.js`."""
NORMAL_SECONDS = 5.0
LOG = """
from apps.streams import services as streams
lines = [streams.LogLine(1, "INFO", 0, None, f"line {n}") for n in range(20)]
streams.append(TOPIC, streams.LogFrame(streams.Source(0, 1, "p"), lines))
"""


def figures() -> Iterator[Figure]:
    with demo(None, "--port", "8490", "--without", "volcano,nodeagent,gateway,worker,watch") as running:
        stack, context = Stack(running), multiprocessing.get_context("spawn")
        with stack.browser(SCIENTIST) as client:
            session = client.cookies["sessionid"]
        job_id = str(ULID())
        crowd = Crowd(stack.url, session, f"job.{job_id}")
        running.manage("shell", "-v0", "-c", f"IDS, TOPIC = {[job_id]}, {crowd.topic!r}\n{ROWS}\n{LOG}")
        with context.Manager() as shared, ProcessPoolExecutor(1, context) as pool:
            opened, drop = shared.Event(), shared.Event()
            storm = pool.submit(run_storm, crowd, opened, drop)
            while not opened.wait(1) and not storm.done():
                pass
            normal, during = Visits(stack.url, session), Visits(stack.url, session)
            normal.run(lambda: time.sleep(NORMAL_SECONDS))
            during.run(lambda: (drop.set(), storm.result()))
            yield Figure("storm-back", storm.result(), "s until all have lines again", None, 5)
            yield Figure("storm-page-p99", during.p99, "ms", normal.p99, 2.0)
            memory = []
            for _ in range(ROUNDS):
                pool.submit(run_churn, crowd).result()
                memory.append(by_program(running.home)["web"])
        half = memory[len(memory) // 2 :]
        slope = float(np.polynomial.polynomial.polyfit(np.arange(len(half)), half, 1)[1]) * len(half) / half[0]
        yield Figure("churn-growth", 100 * slope, f"% over the last {len(half)} of {ROUNDS} rounds", None, 1)
        yield Figure("churn-memory", memory[-1] / 1e6, "MB", memory[0] / 1e6, 1.2)


@dataclass
class Visits:
    """Somebody looks at the list of jobs, again and again."""

    url: str
    session: str
    took: list[float] = field(default_factory=list)

    def run(self, while_: Any) -> None:
        ended = threading.Event()
        visitor = threading.Thread(target=self._visit, args=(ended,))
        visitor.start()
        try:
            while_()
        finally:
            ended.set()
            visitor.join()

    @property
    def p99(self) -> float:
        """In milliseconds."""
        return float(np.percentile(self.took, 99)) * 1000

    def _visit(self, ended: threading.Event) -> None:
        with httpx.Client(base_url=self.url, cookies={"sessionid": self.session}, timeout=60) as client:
            while not ended.wait(0.02):
                start = time.monotonic()
                client.get("/jobs/").raise_for_status()
                self.took.append(time.monotonic() - start)


@dataclass(frozen=True)
class Crowd:
    url: str
    session: str
    topic: str

    async def open(self, client: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
        """A page's socket, once the first lines of its log have come."""
        address = urlsplit(self.url)._replace(scheme="ws", path="/ws/").geturl()
        headers = {"Cookie": f"sessionid={self.session}", "Origin": self.url}
        socket = await client.ws_connect(address, headers=headers, compress=15)
        await socket.send_json({"op": "subscribe", "topic": self.topic, "cursor": None, "log": True})
        while (await socket.receive_json(timeout=60))["t"] != "log":
            pass
        return socket


def run_storm(crowd: Crowd, opened: Any, drop: Any) -> float:
    """Open them, lose all when told, and the seconds until every one has its lines again."""

    async def run() -> float:
        gate = asyncio.Semaphore(AT_ONCE)
        async with _client() as lost:

            async def first() -> None:
                async with gate:
                    await crowd.open(lost)

            await asyncio.gather(*(first() for _ in range(PAGES)))
            opened.set()
            await asyncio.to_thread(drop.wait)
        start = time.monotonic()
        async with _client() as client:

            async def again() -> None:
                for tries in itertools.count():
                    whole = min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries)
                    await asyncio.sleep(whole / 2 * (1 + random.random()))
                    with suppress(aiohttp.ClientError, TimeoutError, TypeError):
                        await crowd.open(client)
                        return

            await asyncio.gather(*(again() for _ in range(PAGES)))
            return time.monotonic() - start

    return asyncio.run(run())


def _client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


def run_churn(crowd: Crowd) -> None:
    """Open a thousand, and close them."""

    async def run() -> None:
        gate = asyncio.Semaphore(AT_ONCE)
        async with _client() as client:

            async def one() -> aiohttp.ClientWebSocketResponse:
                async with gate:
                    return await crowd.open(client)

            sockets = await asyncio.gather(*(one() for _ in range(CHURN)))
            await asyncio.gather(*(socket.close() for socket in sockets))

    asyncio.run(run())
