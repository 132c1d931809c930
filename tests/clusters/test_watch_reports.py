"""What others' watches were reported to do wrong, put before ours: each test is named after the report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from apps.adapters.kubernetes import Endpoint, stream
from apps.adapters.kubernetes.stream import StreamReader
from apps.clusters.watch import projections, reflect
from apps.clusters.watch.database import in_thread
from apps.clusters.watch.reflect import Reflector
from tests.clusters.smallcluster import SmallCluster
from tests.clusters.test_watch import config_map, job, pod, row, send, small, until, watch  # noqa: F401 (fixtures)

pytestmark = pytest.mark.django_db(transaction=True)
MAPS = "/api/v1/configmaps"


@dataclass
class Wire:
    """Passes bytes on to a server, unless it is `frozen`: then it keeps its connections and says nothing."""

    target: Endpoint
    frozen: bool = False
    connections: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Endpoint]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield Endpoint(host, self.target.ca_pem, self.target.token_source)
        finally:
            server.close()
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        port = int(self.target.server.rpartition(":")[2])
        there, back = await asyncio.open_connection("127.0.0.1", port)
        for pair in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pass(*pair))
            self.tasks.add(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dropped = False
        with suppress(OSError):
            while piece := await reader.read(65536):
                dropped = dropped or self.frozen
                if not dropped:
                    writer.write(piece)
                    await writer.drain()
            writer.close()


@asynccontextmanager
async def reflecting(endpoint: Endpoint, broke: list[float]) -> AsyncIterator[Reflector[Any]]:
    reader = StreamReader(endpoint)
    loop = asyncio.get_running_loop()
    reflector = Reflector(
        reader, MAPS, projections.OBJECTS, lambda _old, _new: None, lambda: broke.append(loop.time())
    )  # fmt: skip
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(10):
            await reflector.synced.wait()
        yield reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reader.close()


async def holds(reflector: Reflector[Any], name: str, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while ("team-a", name) not in reflector.store:
            await asyncio.sleep(0.05)


async def test_kubespawner_209_a_reflector_never_gives_up_and_does_not_hammer(
    small: SmallCluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """jupyterhub/kubespawner#209: after some failures the reflector ended, its store stayed as it was for good; and one
    for events asked 4,000 times a minute."""
    monkeypatch.setattr(reflect, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(reflect, "LONGEST_PAUSE", 0.2)
    broke: list[float] = []
    async with reflecting(small.endpoint, broke) as reflector:
        await in_thread(small.stop)
        async with asyncio.timeout(60):
            while len(broke) < 25:
                await asyncio.sleep(0.05)
        pauses = [after - before for before, after in pairwise(broke[5:])]
        assert min(pauses) >= 0.2, "it waits between its tries"
        await in_thread(small.start)
        await in_thread(send, small, config_map("after-209"))
        await holds(reflector, "after-209")


async def test_kubespawner_577_a_connection_that_died_without_a_word_is_not_waited_for(
    small: SmallCluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """jupyterhub/kubespawner#577: what stood between had forgotten the connection, and the hub heard nothing for hours.
    The same second of silence here, as 60 in service."""
    monkeypatch.setattr(stream, "SILENCE_SECONDS", 1.0)
    wire, broke = Wire(small.endpoint), []
    async with wire.open() as endpoint, reflecting(endpoint, broke) as reflector:
        await in_thread(send, small, config_map("before-577"))
        await holds(reflector, "before-577")
        wire.frozen = True
        await in_thread(send, small, config_map("meanwhile-577"))
        async with asyncio.timeout(20):
            while not broke:
                await asyncio.sleep(0.05)
        assert ("team-a", "meanwhile-577") not in reflector.store
        wire.frozen = False
        await holds(reflector, "meanwhile-577")
        assert wire.connections > 1, "over a new connection"


async def test_kubespawner_829_a_watch_that_starts_anew_knows_everybody_who_was_there(
    small: SmallCluster,  # noqa: F811
    row: Any,  # noqa: F811
) -> None:
    """jupyterhub/kubespawner#829: after the hub restarted, the first person's pod was known again and the others ran
    on without anybody: they were judged before the first list was complete."""
    rows = [f"ROW829{n}" for n in range(12)]
    async with watch(small, row) as heard:
        for number, name in enumerate(rows[:6]):
            await in_thread(send, small, job(f"j-829-{number}", name))
            await in_thread(send, small, pod(f"p-829-{number}", name))
        await until(lambda: set(rows[:6]) <= set(heard.ids))
    for number, name in enumerate(rows[6:], 6):
        await in_thread(send, small, pod(f"p-829-{number}", name))
    async with watch(small, row) as again:
        await until(lambda: set(rows) <= set(again.ids))


@pytest.fixture(autouse=True)
def _kept_apart(small: SmallCluster) -> Iterator[None]:  # noqa: F811
    """A test that breaks off leaves the server running for the next."""
    yield
    if small.process is not None and small.process.poll() is not None:
        small.start()
