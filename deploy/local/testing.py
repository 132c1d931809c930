"""Servers for a test run, so that a bare `pytest` works. tests/conftest.py calls `serve()` as it is imported.

The first process starts them and puts their addresses into its environment; xdist's workers inherit it and start none.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack

from deploy.local.with_servers import servers

_running = ExitStack()


def serve(*names: str) -> None:
    """Makes sure that these servers (default: postgres, valkey) can be found in os.environ, until this process ends.

    Raises Missing, Failed.
    """
    # A worker that was handed addresses finds them all in place: `servers` starts nothing for it.
    os.environ.update(_running.enter_context(servers(names or ("postgres", "valkey"))))


atexit.register(_running.close)
