"""The watch process: one at a time by lease, all clusters, and the clock for rows that are due."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.db import Error as DatabaseError

from apps.clusters.models import Cluster
from apps.clusters.services import lease
from apps.clusters.services.connect import Address, address, endpoint
from apps.clusters.services.lease import LeaseLost
from apps.clusters.services.registry import Id, due_sweeps, first_sweeps
from apps.clusters.watch import keep
from apps.clusters.watch.cluster import ClusterWatch
from apps.clusters.watch.database import Writer, in_own_thread, in_thread
from apps.clusters.watch.wakes import Wakes
from apps.streams import services as streams

log = structlog.get_logger(__name__)

LEASE_NAME = "watch"
RENEW_SECONDS = 2.0
DUE_SECONDS = 1.0
CLUSTERS_SECONDS = 5.0
TRIES = 3


async def watch() -> None:
    """Wait for the lease, then watch until told to stop (SIGTERM, SIGINT). Raises LeaseLost."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    holder = f"{socket.gethostname()[:40]}/{os.getpid()}/{secrets.token_hex(4)}"
    epoch = await _lease(holder)
    log.info("watching", holder=holder, epoch=epoch)
    try:
        await _work(holder, epoch)
    except* LeaseLost as group:
        raise LeaseLost from group
    finally:
        await in_thread(lease.give_up, LEASE_NAME, holder, epoch)


async def _lease(holder: str) -> int:
    while True:
        try:
            if epoch := await in_thread(lease.take, LEASE_NAME, holder):
                return epoch
        except DatabaseError as error:
            log.warning("lease_unasked", error=str(error)[:200])
        await asyncio.sleep(RENEW_SECONDS / 2)


async def _work(holder: str, epoch: int) -> None:
    wakes, buffer, write = Wakes(), streams.LiveBuffer(keep.known), Writer(LEASE_NAME, epoch)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_keep_lease(holder, epoch))
            group.create_task(wakes.run())
            group.create_task(_wake_due(wakes))
            group.create_task(keep.keep_logs(buffer, write))
            group.create_task(_keep_clusters(group, wakes, buffer, write))
    finally:
        await buffer.close()


async def _keep_lease(holder: str, epoch: int) -> None:
    failures, executor = 0, ThreadPoolExecutor(1, "lease")
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            if not await in_own_thread(executor, lease.renew, LEASE_NAME, holder, epoch):
                raise LeaseLost
            failures = 0
        except DatabaseError as error:
            failures += 1
            log.warning("lease_unrenewed", error=str(error)[:200])
            if failures >= TRIES:
                raise LeaseLost from error


async def _wake_due(wakes: Wakes) -> None:
    """The only clock: asks each app every second which of its rows are due."""
    while True:
        first = [(task, sweep, True) for task, sweep in first_sweeps().items()]
        for task, sweep, asked in [*first, *((task, sweep, False) for task, sweep in due_sweeps().items())]:
            try:
                wakes.add_due(task, await in_thread(_listed, sweep), asked=asked)
            except DatabaseError as error:
                log.warning("due_unasked", task=task, error=str(error)[:200])
        await asyncio.sleep(DUE_SECONDS)


def _listed(sweep: Callable[[], Iterable[Id]]) -> list[Id]:
    return list(sweep())


async def _keep_clusters(group: asyncio.TaskGroup, wakes: Wakes, buffer: streams.LiveBuffer, write: Writer) -> None:
    """Watch every registered cluster; begin anew when one's address changed."""
    running: dict[int, tuple[Address, asyncio.Task[None]]] = {}
    while True:
        try:
            wanted = {cluster.pk: cluster for cluster in await in_thread(_clusters)}
        except DatabaseError as error:
            log.warning("clusters_unasked", error=str(error)[:200])
            await asyncio.sleep(CLUSTERS_SECONDS)
            continue
        for pk, (known, task) in list(running.items()):
            if pk not in wanted or address(wanted[pk]) != known:
                task.cancel()
                await asyncio.wait({task})
                del running[pk]
        for pk, cluster in wanted.items():
            if pk not in running:
                one = ClusterWatch(pk, endpoint(cluster), wakes, buffer, write)
                running[pk] = address(cluster), group.create_task(one.run())
        await asyncio.sleep(CLUSTERS_SECONDS)


def _clusters() -> list[Cluster]:
    return list(Cluster.objects.for_system().used())
