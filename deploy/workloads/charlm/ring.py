"""All-reduce around a ring of TCP connections.

Each rank sends to its right neighbour and receives from its left one. A vector is cut into as many chunks as there
are ranks; in size - 1 turns every chunk collects its sum (reduce-scatter), in size - 1 more the sums go round
(all-gather). A rank sends 2 * (size - 1) / size times the vector, whatever the size. Each chunk is summed in one order
and copied from there, so all ranks end with the same bits.
"""

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from deploy.workloads.charlm.model import Vector


class PeerLost(Exception):
    """A neighbour closed its connection or was silent for too long; the ring is of no more use."""


class Neighbour:
    def __init__(self, rank: int, link: socket.socket) -> None:
        self.rank = rank
        self.link = link
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: memoryview) -> memoryview:
        """Send what fits; return the rest."""
        return data[self._try(self.link.send, data) :]

    def receive(self, space: memoryview) -> memoryview:
        """Fill with what is there; return what is still empty."""
        return space[self._try(self.link.recv_into, space) :]

    def _try(self, call: Callable[[memoryview], int], data: memoryview) -> int:
        try:
            moved = call(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"rank {self.rank} lost: {error.strerror or error}") from error
        if moved == 0:
            raise PeerLost(f"rank {self.rank} lost: it closed the connection")
        return moved


@dataclass
class Ring:
    rank: int
    size: int
    left: Neighbour
    right: Neighbour
    silence: float  # seconds without a byte moving after which a neighbour counts as lost
    waited: float = field(default=0.0, init=False)  # seconds spent in all_reduce so far

    def all_reduce(self, vector: Vector) -> Vector:
        """Replace a contiguous vector by its sum over all ranks, and return it. Raise PeerLost."""
        started = time.monotonic()
        edges = [len(vector) * chunk // self.size for chunk in range(self.size + 1)]
        chunks = [vector[edges[chunk] : edges[chunk + 1]] for chunk in range(self.size)]
        space = np.empty(max(map(len, chunks)))
        for turn in range(self.size - 1):
            growing = chunks[(self.rank - turn - 1) % self.size]
            received = space[: len(growing)]
            self._exchange(chunks[(self.rank - turn) % self.size], received)
            growing += received
        for turn in range(self.size - 1):
            self._exchange(chunks[(self.rank + 1 - turn) % self.size], chunks[(self.rank - turn) % self.size])
        self.waited += time.monotonic() - started
        return vector

    def close(self) -> None:
        self.left.link.close()
        self.right.link.close()

    def _exchange(self, outgoing: Vector, incoming: Vector) -> None:
        """Send and receive at the same time: did all ranks send first, full buffers would stop the ring."""
        to_send, to_fill = outgoing.view(np.uint8).data, incoming.view(np.uint8).data
        while to_send or to_fill:
            readable, writable, _ = select.select(
                [self.left.link] if to_fill else [], [self.right.link] if to_send else [], [], self.silence
            )
            if readable:
                to_fill = self.left.receive(to_fill)
            if writable:
                to_send = self.right.send(to_send)
            if not readable and not writable:
                silent = self.left if to_fill else self.right
                raise PeerLost(f"rank {silent.rank} unreachable for {self.silence:g}s")


class Alone:
    """The ring of one rank."""

    rank = 0
    size = 1
    waited = 0.0

    def all_reduce(self, vector: Vector) -> Vector:
        return vector

    def close(self) -> None:
        pass
