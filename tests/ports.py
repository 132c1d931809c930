"""Ports for servers that tests start, end and start again at the same address."""

from __future__ import annotations

import itertools
import socket

BLOCKS = range(10_000, 18_000, 500)
"""Below what the kernel gives away by itself, so nobody is given a port while its server is down."""


def _claim() -> tuple[socket.socket, range]:
    """A block that no other process of tests has: its first port is held for as long as this process lives."""
    for first in BLOCKS:
        claim = socket.socket()
        try:
            claim.bind(("127.0.0.1", first))
        except OSError:
            claim.close()
            continue
        return claim, range(first + 1, first + BLOCKS.step)
    raise OSError("no block of ports is free")


_claimed, _block = _claim()
_next = itertools.cycle(_block)


def free_port() -> int:
    """A port of this process that nobody listens at, and that no test has had for a long time."""
    for port in itertools.islice(_next, len(_block)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError("no port is free")
