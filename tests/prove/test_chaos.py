"""kill -9 of anything at any moment of a job's way: it ends right, once, with its whole log.

The kills of a seed come at the same moments each time; what they hit is the machine's affair. MAAS_CHAOS_SEEDS=100-180
runs others, by hand.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.prove.stack import Stack, charlm, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(240)]

VICTIMS = ("web", "worker", "watch", "apiserver", "volcano", "nodeagent", "valkey")
SPAN_SECONDS = 9.0
"""A job left alone takes about as long, from its submission to its end."""
STEPS = 80
LOG_EVERY = 5


def seeds() -> range:
    first, _, last = os.environ.get("MAAS_CHAOS_SEEDS", "1-20").partition("-")
    return range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Plan:
    """What happens to one job: kills as (seconds after the start, program), and when it is stopped, if it is."""

    kills: tuple[tuple[float, str], ...]
    stop_after: float | None

    @classmethod
    def of(cls, seed: int) -> Plan:
        dice = random.Random(seed)
        # Half of the kills fall into the first seconds, where most is written.
        times = sorted(dice.uniform(0, dice.choice((2.0, SPAN_SECONDS))) for _ in range(dice.randint(2, 4)))
        kills = tuple((at, dice.choice(VICTIMS)) for at in times)
        return cls(kills, dice.uniform(0.1, SPAN_SECONDS) if dice.random() < 0.3 else None)


@contextmanager
def kills(stack: Stack, plan: Plan) -> Iterator[None]:
    """Carries out the plan's kills beside the block; at its end all of them have happened."""

    def run() -> None:
        start = time.monotonic()
        for at, name in plan.kills:
            time.sleep(max(0.0, start + at - time.monotonic()))
            stack.demo.kill(name)

    thread = threading.Thread(target=run, name="kills")
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("seed", seeds())
def test_whatever_is_killed_the_job_ends_right_and_once(seed: int, stack: Stack) -> None:
    stack.await_all()
    plan, key = Plan.of(seed), f"chaos {seed} {time.time_ns()}"
    print(f"seed {seed}: {plan}")
    rest, version = stack.rest(), stack.cluster.version()
    document = charlm(key, steps=STEPS, grace_seconds=5)
    with kills(stack, plan):
        start = time.monotonic()
        job_id = rest.submit_through_outages(document, key)
        if plan.stop_after is not None:
            time.sleep(max(0.0, start + plan.stop_after - time.monotonic()))
            rest.stop_through_outages(job_id)
        ended = rest.await_phase(job_id, *(("stopped", "succeeded") if plan.stop_after else ("succeeded",)))
    stack.await_all()
    assert ended["attempt"] == 1, "no kill of ours is a reason to start the ranks anew"
    assert_once(stack, job_id, key, version)
    if ended["phase"] == "stopped":
        until(lambda: not stack.cluster.pods(job_id), 60, what="a stopped job leaves no pod")
        assert stack.rank_process(job_id, 0) is None
        assert stack.audited(job_id, "job.stop") == 1
    assert_log_is_whole(stack, job_id, finished=ended["phase"] == "succeeded")


def assert_once(stack: Stack, job_id: str, key: str, version: str) -> None:
    """One row, one entry in the audit log, one object in the cluster: the one that the row names."""
    assert stack.rows("SELECT id FROM jobs_job WHERE name = %s", key) == [(job_id,)]
    assert stack.audited(job_id, "job.submitted") == 1
    uids = stack.cluster.uids_since(version, job_id)
    ((named,),) = stack.rows("SELECT object_uid FROM jobs_job WHERE id = %s", job_id)
    assert uids == ({named} if named else set())


def assert_log_is_whole(stack: Stack, job_id: str, *, finished: bool) -> None:
    """No line twice, none missing before the last, and the curve has the same steps. Of a stopped job, the end of the
    log may have gone with its pods."""
    rest = stack.rest()
    if finished:
        wanted = sorted(on_the_nodes(stack, job_id))
        assert wanted
        with suppress(AssertionError):  # what is missing says more than how much
            until(lambda: len(rest.lines(job_id)) >= len(wanted), 30)
        assert sorted((rank, text) for _, rank, _, text in rest.lines(job_id)) == wanted
    lines = rest.lines(job_id)
    assert len(lines) == len(set(lines)), "a line came twice"
    steps = loss_steps(rest.log_frames(job_id))
    expected = [step for step in range(1, STEPS + 1) if step == 1 or step % LOG_EVERY == 0]
    # Asked to end, the ranks finish a step of their own choice and tell its loss.
    whole = steps if finished else steps[:-1]
    assert whole == expected[: len(whole)]
    points = rest.points(job_id).get(1, {}).keys()
    assert points == set(steps) if finished else points >= set(steps)


def loss_steps(frames: list[dict[str, Any]]) -> list[int]:
    """The steps whose loss rank 0 told, in the order of the log."""
    rank_0 = [line for frame in frames if frame["src"]["rank"] == 0 for line in frame["lines"]]
    return [step for _at, _level, _rank, step, text, *_look in rank_0 if text.startswith("Loss: ")]


def on_the_nodes(stack: Stack, job_id: str) -> list[tuple[int, str]]:
    """Rank and text of every line that the job's pods wrote, read from the files on their nodes."""
    found = []
    for pod in stack.cluster.pods(job_id):
        folder = stack.demo.home.root / "nodes/pods" / pod["metadata"]["uid"] / "containers/main/0"
        rank = int(next(v["value"] for v in pod["spec"]["containers"][0]["env"] if v["name"] == "RANK"))
        for path in sorted(folder.glob("log*")):
            found += [(rank, message(line)) for line in path.read_text().splitlines()]
    return found


def message(line: str) -> str:
    """The message of a line in the platform's format, in the runtime's envelope."""
    return line.rsplit("] [", 1)[1].removesuffix("]")
