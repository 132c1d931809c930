"""How charlm's ranks find each other and sum, and what they do about a peer that is lost or does not belong."""

import re
import signal
import socket
import threading
import time

import numpy as np
import pytest

from deploy.workloads.charlm.log import Log
from deploy.workloads.charlm.rendezvous import RendezvousError, Terms, join
from deploy.workloads.charlm.ring import Ring
from deploy.workloads.charlm.training import Settings
from deploy.workloads.charlm.world import World
from tests.ports import free_port


def meet(worlds: list[World], terms: list[Terms]) -> list:
    """Join as all ranks at once, each in a thread; what each got, or its error."""
    results: list = [None] * len(worlds)

    def enter(place: int) -> None:
        try:
            results[place] = join(worlds[place], terms[place], Log("test", worlds[place].rank))
        except RendezvousError as error:
            results[place] = error

    threads = [threading.Thread(target=enter, args=(place,)) for place in range(len(worlds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return results


def worlds(*ranks: int, size: int) -> list[World]:
    port = free_port()
    return [World("test", rank, size, "127.0.0.1", port) for rank in ranks]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 400_000])
def test_all_ranks_get_the_same_sum(length):
    rings = meet(worlds(0, 1, 2, size=3), [Terms()] * 3)
    vectors = [np.random.default_rng(rank).normal(size=length) for rank in range(3)]
    expected = sum(vectors)
    threads = [threading.Thread(target=ring.all_reduce, args=(v,)) for ring, v in zip(rings, vectors, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for ring in rings:
        ring.close()
    assert np.allclose(vectors[0], expected, atol=1e-12)
    assert vectors[0].tobytes() == vectors[1].tobytes() == vectors[2].tobytes()


def test_a_peer_that_closes_its_socket_ends_the_rank(start):
    """The peer is played here: it comes in, takes part in nothing and hangs up."""
    ranks = start("r", 2, "--steps", "50")
    ranks.processes[1].kill()
    ranks.processes[1].wait()
    port = int(re.search(r"127\.0\.0\.1:(\d+)", (ranks.reach(0), ranks.text())[1])[1])
    settings = Settings(steps=50, lr=0.1, global_batch=256, seed=1).digest()
    ring = join(World("test", 1, 2, "127.0.0.1", port), Terms(settings=settings), Log("test", 1))
    assert isinstance(ring, Ring)
    ring.close()
    assert ranks.processes[0].wait(3) == 1
    assert re.search(r"\[ERROR\] \[harbour\] \[Rank-0\] .*All-reduce failed: rank 1 lost", ranks.text())


def test_a_peer_that_falls_silent_is_given_up(start):
    ranks = start("r", 2, "--comm-timeout", "1.5", "--step-seconds", "0.01")
    ranks.reach(3)
    ranks.processes[1].send_signal(signal.SIGSTOP)
    assert ranks.processes[0].wait(5) == 1
    assert "rank 1 unreachable for 1.5s" in ranks.text()


def test_a_rank_that_does_not_fit_is_told_so_and_the_right_one_still_gets_in(capsys):
    right = worlds(0, 1, size=2)
    wrong_size = World("test", 1, 3, "127.0.0.1", right[0].master_port)
    stale, other = Terms(token="job/1", seconds=1), Terms(token="job/2", settings="other")
    current = Terms(token="job/2", seconds=10)
    late = threading.Timer(1.5, lambda: late_results.append(join(right[1], current, Log("test", 1))))
    late_results: list = []
    late.start()
    results = meet([right[0], wrong_size, right[1], right[1]], [current, current, stale, other])
    late.join()
    assert isinstance(results[0], Ring)
    assert "refused: its world size is 3, here it is 2" in str(results[1])
    assert "refused: it belongs to another job or attempt" in str(results[2])
    assert "refused: it was started with other arguments" in str(results[3])
    for ring in (results[0], *late_results):
        ring.close()


def test_ranks_that_never_come_are_named():
    [result] = meet(worlds(0, size=3), [Terms(seconds=0.3)])
    assert str(result) == "not all ranks met within 0.3s; ranks missing: 1, 2"


def test_a_stranger_at_the_door_does_no_harm():
    pair = worlds(0, 1, size=2)
    results: list = []
    master = threading.Thread(target=lambda: results.extend(meet(pair[:1], [Terms(seconds=10)])))
    master.start()
    for words in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"rank": "x"}\n', b'{"rank": 1, "address": 5}\n', b""):
        while True:
            try:
                stranger = socket.create_connection(("127.0.0.1", pair[0].master_port))
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        with stranger:
            stranger.sendall(words)
    results += meet(pair[1:], [Terms(seconds=10)])
    master.join(10)
    assert [type(result) for result in results] == [Ring, Ring]
    for ring in results:
        ring.close()


def test_volcano_2952_a_master_whose_name_is_not_known_yet_is_waited_for(tmp_path, monkeypatch):
    """volcano-sh/volcano#2952, #452: the launcher came before the names of the other pods, and gave up."""
    names, port = tmp_path / "hosts", free_port()
    names.write_text("")
    monkeypatch.setenv("MAAS_HOSTS_FILE", str(names))
    host = "j-1-master-0.j-1"
    results: list = []
    early = World("test", 1, 2, host, port)
    follower = threading.Thread(target=lambda: results.extend(meet([early], [Terms(seconds=20)])))
    follower.start()
    follower.join(0.5)
    assert follower.is_alive(), "a name that is not known is no reason to fail"
    names.write_text(f"127.0.0.1 {host}\n")
    results += meet([World("test", 0, 2, host, port)], [Terms(seconds=20)])
    follower.join(20)
    assert all(isinstance(ring, Ring) for ring in results), results
    for ring in results:
        ring.close()
