"""Runs a command with servers of its own: `python -m deploy.local.with_servers [--dir DIR] [--with openbao] -- CMD…`

PostgreSQL and Valkey are started (OpenBao with `--with openbao`), the command finds them in its environment, and they
are stopped after it. Without --dir they live in a temporary folder that is removed. The exit code is the command's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.home import Home
from deploy.local.program import Failed, Missing
from deploy.local.servers import Running, choose

SERVERS = ("postgres", "valkey", "openbao")


@contextmanager
def servers(names: tuple[str, ...] = SERVERS, directory: Path | None = None) -> Iterator[dict[str, str]]:
    """Gives the environment in which those servers are found; they are fast and forgetful (no fsync).

    A server whose address is in os.environ already is used as it is. Raises Missing, Failed.
    """
    root = directory or Path(tempfile.mkdtemp(prefix="maas-portal-test-"))
    home = Home(root)
    try:
        with Running(home, choose(home, names, os.environ, durable=False)) as running:
            yield running.environ()
    finally:
        if directory is None:
            shutil.rmtree(root, ignore_errors=True)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.with_servers", description=__doc__)
    parser.add_argument("--dir", type=Path, help="where they keep their data (default: a temporary folder)")
    parser.add_argument("--with", dest="more", action="append", default=[], choices=["openbao"])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(argv)
    try:
        with servers(("postgres", "valkey", *options.more), options.dir) as found:
            return _run(options.command, {**os.environ, **found})
    except (Missing, Failed, PermissionError) as error:
        print(f"with_servers: {error}", file=sys.stderr)
        return 1


def _run(command: list[str], env: dict[str, str]) -> int:
    """The command's exit code, 128 + N where signal N ended it.

    Ctrl-C reaches it by the terminal, TERM is passed on.
    """
    with subprocess.Popen(command, env=env) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
