"""A proxy that passes bytes on, whatever they are, and resets each connection after a number of them that dice give."""

from __future__ import annotations

import asyncio
import random
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from urllib.parse import urlsplit

RESET = struct.pack("ii", 1, 0)


@dataclass
class CuttingProxy:
    """In front of the server at `target`. `bytes` are the fewest and the most of an answer that come through."""

    target: str
    dice: random.Random
    bytes: tuple[int, int] = (10_000, 900_000)
    is_calm: bool = False
    cuts: int = 0
    server: str = ""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.server = f"{urlsplit(self.target).scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        address = urlsplit(self.target)
        try:
            answers, asks = await asyncio.open_connection(address.hostname, address.port)
            asking = asyncio.create_task(self._pass(reader, asks))
            try:
                await self._pass(answers, writer, self.dice.randint(*self.bytes))
            finally:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                asks.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None = None) -> None:
        while data := await reader.read(65_536):
            if left is not None and not self.is_calm:
                data, left = data[:left], left - len(data)
            writer.write(data)
            await writer.drain()
            if left is not None and left <= 0 and not self.is_calm:
                self.cuts += 1
                with suppress(OSError):
                    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, RESET)
                return
