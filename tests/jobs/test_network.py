"""Which way NCCL sends between nodes: read from its lines, kept by the follower, told on the page and by REST."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from apps.jobs.domain.traininglog import LogReader
from apps.jobs.domain.traininglog.network import Way, heard, slow_way
from apps.jobs.models import Job, JobRank
from apps.streams import services as streams
from tests import factories
from tests.factories import World
from tests.pages import browser

PREFIX = "gpu-1:4242:4301 [0] NCCL INFO "
LINES = {
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.1.5<0>": Way.RDMA,
    "Using network IB": Way.RDMA,
    "NET/IB : No device found.": None,
    "NET/Socket : Using [0]eth0:10.0.1.5<0>": Way.SOCKETS,
    "Using network Socket": Way.SOCKETS,
    "Channel 00/02 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA": Way.DIRECT,
    "Channel 01/0 : 15[7] -> 0[0] [receive] via NET/IB/3(8)/GDRDMA": Way.DIRECT,
    "Channel 00/02 : 0[0] -> 8[0] [send] via NET/IB/0": Way.STAGED,
    "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0": Way.SOCKETS,
    "Channel 00 : 0[0] -> 1[1] via P2P/CUMEM": None,
}


@dataclass
class Line:
    text: str
    drawn: str = ""
    step: int | None = None


@pytest.mark.parametrize("text", LINES)
def test_a_way_is_known_by_nccls_own_line(text: str) -> None:
    assert heard(PREFIX + text) == LINES[text]


def test_who_only_speaks_of_a_network_names_none() -> None:
    assert heard("warning: NET/Socket : Using [0]eth0 is slow") is None


def test_a_way_is_told_once_a_run_and_makes_no_step() -> None:
    reader = LogReader()
    told = [reader.read(Line(PREFIX + "Using network Socket")) for _channel in range(3)]
    assert [dict(one.marks) for one in told] == [{"nccl_sockets": 1.0}, {}, {}]
    assert {one.step for one in told} == {None}


def test_sockets_are_slow_unless_rdma_is_used_too() -> None:
    assert slow_way({"nccl_sockets", "loss"}) is Way.SOCKETS
    assert slow_way({"nccl_sockets", "nccl_rdma"}) is None
    assert slow_way({"nccl_rdma", "nccl_staged"}) is Way.STAGED
    assert slow_way({"nccl_staged", "nccl_direct"}) is None


def rank(job: Job, number: int, node: str) -> None:
    names = {"pod_uid": f"{job.pk}-{number}", "pod_name": f"w-{number}"}
    JobRank.objects.create(job=job, attempt=1, rank=number, node=node, phase="Running", **names)


@pytest.mark.django_db
def test_a_job_on_several_nodes_says_that_it_sends_over_sockets(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase="running")
    mark = ("nccl_sockets", 0, 1.0, datetime.now(UTC))
    streams.record_points(job.topic, 1, [mark])
    client = browser(world.scientist)

    def told() -> tuple[bool, str | None]:
        page = client.get(f"/jobs/{job.pk}/").content.decode()
        return "over sockets, not RDMA" in page, client.get(f"/api/v1/jobs/{job.pk}").json()["slow_network"]

    rank(job, 0, "gpu-1")
    assert told() == (False, None)  # on one node no network is needed
    rank(job, 1, "gpu-2")
    assert told() == (True, "nccl_sockets")
    streams.record_points(job.topic, 1, [("nccl_rdma", 0, 1.0, datetime.now(UTC))])
    assert told() == (False, None)
