"""Pipes and terminals on the event loop, read and written no faster than the other side goes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

BLOCK = 32 * 1024


async def _until(watch: Callable[..., object], forget: Callable[[int], object], file: int) -> None:
    ready = asyncio.Event()
    watch(file, ready.set)
    try:
        await ready.wait()
    finally:
        forget(file)


async def pieces(file: int) -> AsyncIterator[bytes]:
    """What comes out of a pipe or a terminal until nobody has its other end open any more."""
    loop = asyncio.get_running_loop()
    os.set_blocking(file, False)
    while True:
        try:
            data = os.read(file, BLOCK)
        except BlockingIOError:
            await _until(loop.add_reader, loop.remove_reader, file)
            continue
        except OSError:
            return  # so a terminal says that it was left
        if not data:
            return
        yield data


async def write(file: int, data: bytes) -> None:
    """Write all of it; what nobody reads any more is dropped."""
    loop = asyncio.get_running_loop()
    os.set_blocking(file, False)
    while data:
        try:
            data = data[os.write(file, data) :]
        except BlockingIOError:
            await _until(loop.add_writer, loop.remove_writer, file)
        except OSError:
            return
