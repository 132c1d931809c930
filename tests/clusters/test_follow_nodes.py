"""A followed log under cuts, over our node agent: on the small API server, and on a real one."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from apps.adapters.kubernetes import Endpoint, objects
from apps.adapters.kubernetes.stream import StreamReader
from apps.clusters.domain.resume import Place
from apps.clusters.services.registry import WorkloadKind
from apps.clusters.watch import follow
from apps.clusters.watch.follow import Follower, Run, Target
from apps.jobs.domain.traininglog import LogReader
from apps.localcluster.client import Kubeconfig
from apps.streams import services as streams
from apps.streams.domain.frames import Kind
from apps.streams.services.buffer import Keys, entry_of, redis
from tests.clusters.cuttingproxy import CuttingProxy
from tests.localcluster.contract.nodes import Agent, Cluster, Server, entry, pods, server
from tests.localcluster.test_nodeagent import wait_for

__all__ = ["pods", "server"]

CUTS = int(os.environ.get("MAAS_CUTS", "60"))
LINES = 50_000
"""Of a run of the container, at 10,000 a second: then it ends, and is started again."""
LOG_BYTES = 1_000_000
"""Every 12,000 lines or so begin a new file, and five files are kept."""
WRITER = f"""
import time
run, start, done = time.time_ns(), time.monotonic(), 0
while done < {LINES}:
    due = min({LINES}, int((time.monotonic() - start) * 10_000))
    print("".join(f"{{run}} {{n}}\\n" for n in range(done, due)), end="", flush=True)
    done = due
    time.sleep(0.01)
"""
KIND = WorkloadKind("maas.portal/job", "jobs.reconcile_job", lambda row: f"job.{row}", LogReader)


@pytest.fixture(scope="module")
def agent(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("pods") / "dir"
    flags = "--client-ca", str(server.client_ca), "--log-bytes", str(LOG_BYTES), "--backoff", "0"
    one = Agent(server.kubeconfig, folder, *flags)
    yield one
    one.end()


@dataclass
class Heard:
    """What came of the log, held against what was written: the lines of every run from 0 on, none twice. Where some are
    missing a gap was declared before the next one."""

    topic: str
    last: tuple[int, int] = (0, LINES - 1)
    lines: int = 0
    runs: int = 0
    gaps: int = 0
    passed_over: int = 0
    """Gaps between two runs, in which there may have been others."""
    _entry: str = "0-0"
    _said: bool = False

    def read(self) -> None:
        found: Any = redis().xrange(Keys.of(self.topic).stream, f"({self._entry}", "+")
        for raw in found:
            self._entry = raw[0].decode()
            one = entry_of(raw)
            if one.kind is Kind.LOG:
                self._frame(msgspec.json.decode(one.body))

    def _frame(self, frame: dict[str, Any]) -> None:
        if "gap" in frame:
            self.gaps, self._said = self.gaps + 1, True
        for line in frame["lines"]:
            run, number = map(int, line[4].split())
            known, before = self.last
            if run == known:
                right = number == before + 1 or (self._said and number > before)
            else:
                right = run > known and (self._said or (before == LINES - 1 and number == 0))
                self.runs, self.passed_over = self.runs + 1, self.passed_over + self._said
            assert right, f"{run} {number} after {known} {before}"
            self.last, self.lines, self._said = (run, number), self.lines + 1, False


def authority_of(server: Server) -> str:
    cluster = yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]
    if text := cluster.get("certificate-authority-data"):
        return base64.b64decode(text).decode()
    return Path(cluster["certificate-authority"]).read_text()


@pytest.mark.prove
@pytest.mark.timeout(3600)
async def test_reconnects_with_rotations_and_restarts_hide_and_double_nothing(
    server: Server, pods: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 lines a second. MAAS_CUTS=1000 makes it as long as promised."""
    monkeypatch.setattr(follow, "FIRST_PAUSE", 0.01)
    topic, config = f"job.{secrets.token_hex(6)}", Kubeconfig.load(server.kubeconfig)
    token, authority = config.token, authority_of(server)
    pods.run("p", "python", "-c", WRITER, image="maas/python:1", spec={"restartPolicy": "Always"})
    wait_for(lambda: entry(pods, "p").get("started"))
    heard = Heard(topic)
    async with CuttingProxy(config.server, random.Random(5)) as proxy:
        reader = StreamReader(Endpoint(proxy.server, authority, lambda fresh=False: token))
        live = streams.LiveBuffer()
        target = Target(
            objects.path(objects.POD, pods.namespace, "p"), "main", pods.pod("p")["metadata"]["uid"], topic, KIND,
            streams.Source(0, 1, "p"),
        )  # fmt: skip
        follower = Follower(target, reader, live, Run(0, False))
        task = asyncio.create_task(follower.run())
        try:
            runs_after = 2
            while runs_after:
                await asyncio.sleep(0.1)
                seen = await asyncio.to_thread(entry, pods, "p")
                follower.update(Run(seen["restartCount"], "terminated" in seen["state"]))
                runs = heard.runs
                await asyncio.to_thread(heard.read)
                if not proxy.is_calm:
                    proxy.is_calm = proxy.cuts >= CUTS
                else:
                    runs_after -= heard.runs > runs
                assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        place = Place.load(await live.place(topic, target.name))
        await live.close()
        await reader.close()
    await asyncio.to_thread(heard.read)
    streams.forget(topic)
    assert place is not None
    restarts = place.restarts
    print(f"{proxy.cuts} cuts, {heard.lines} lines, {restarts} restarts, {heard.gaps} gaps declared")
    assert heard.runs == restarts + 1 or (heard.runs <= restarts and heard.passed_over)
    assert restarts >= 2
