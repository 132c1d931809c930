"""Ports for servers that tests start, end and start again at the same address."""

from __future__ import annotations

import itertools
import os
import socket

FIRST, EACH = 10_000, 2_000
"""Below what the kernel gives away by itself, so nobody is given a port while its server is down; some for each worker."""

_own = FIRST + EACH * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4)
_next = itertools.cycle(range(_own, _own + EACH))


def free_port() -> int:
    """A port of this worker that nobody listens at, and that no test has had for a long time."""
    for port in itertools.islice(_next, EACH):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError("no port is free")
