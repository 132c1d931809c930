"""A coroutine that is begun at once goes on as any task would, through results, failures and cancellation."""

from __future__ import annotations

import asyncio

from apps.streams.services.eager import begin


async def test_what_has_nothing_to_wait_for_is_done_at_once() -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    assert begin(work()) is None
    assert done == [1]


async def test_the_rest_gets_results_and_failures() -> None:
    heard: list[str] = []
    first: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    second: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            await first
        except ValueError:
            heard.append("failed")
        heard.append(await second)
        await asyncio.sleep(0)

    task = begin(work())
    assert task is not None
    first.set_exception(ValueError())
    await asyncio.sleep(0.01)
    second.set_result("went on")
    await task
    assert heard == ["failed", "went on"]


async def test_the_rest_can_be_cancelled_before_it_has_begun() -> None:
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    task = begin(work())
    assert task is not None
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert ended == [True]
