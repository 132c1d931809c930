"""Command line of the node agent."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from apps.localcluster.nodeagent import records
from apps.localcluster.nodeagent.agent import Agent, Start
from apps.localcluster.nodeagent.host import DEFAULT_GRACE, Settings
from apps.localcluster.nodeagent.machine import ROOT

log = logging.getLogger("nodeagent")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nodeagent", description="Play the nodes of a fleet file.")
    parser.add_argument("--kubeconfig", type=Path, help="how to reach the API server")
    parser.add_argument("--fleet", type=Path, help="fleet file: which nodes to play")
    parser.add_argument("--dir", type=Path, default=Path("var/nodeagent"), help="state, logs and volumes (%(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port of the log server; 0 takes a free one")
    parser.add_argument("--tls", action="store_true", help="serve logs over TLS, as a real API server wants")
    parser.add_argument(
        "--client-ca", type=Path, help="answer over TLS, and those only whose certificate this vouches for; allows exec"
    )
    parser.add_argument("--max", type=int, default=4, help="containers that run at once (%(default)s)")
    parser.add_argument("--images", type=Path, default=ROOT / "deploy/workloads/images.json", help="image table")
    parser.add_argument("--no-mounts", action="store_true", help="do not use private mounts even where allowed")
    parser.add_argument("--backoff", type=float, default=10.0, help="first pause before a restart or pull, in seconds")
    parser.add_argument("--log-bytes", type=int, default=10 << 20, help="size at which a log is rotated (%(default)s)")
    parser.add_argument(
        "--end", action="store_true", help="end all containers of --dir and leave; they run again later"
    )
    options = parser.parse_args()
    if not options.end and not (options.kubeconfig and options.fleet):
        parser.error("--kubeconfig and --fleet are needed")
    return options


def end_all(directory: Path) -> None:
    """Ask every container left in this folder to end, and wait until it has."""
    deadline = time.monotonic() + DEFAULT_GRACE + 5
    while living := [a for folder in records.pods(directory) for a in folder.living()]:
        for attempt in living:
            records.ask_to_stop(attempt, min(DEFAULT_GRACE, max(0.0, deadline - time.monotonic() - 5)))
        if time.monotonic() > deadline:
            sys.exit(f"{len(living)} containers did not end")
        time.sleep(0.1)


def claim(directory: Path) -> int:
    """Lock the state folder for this process; two agents in one folder would each undo the other's work."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(directory / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"another node agent works in {directory}")
    return lock


async def serve(start: Start) -> None:
    task = asyncio.ensure_future(Agent(start).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        log.info("stopped; containers go on")


def main() -> None:
    options = arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    directory = options.dir.resolve()
    if options.end:
        end_all(directory)
        return
    lock = claim(directory)
    certificate = None
    if options.tls or options.client_ca:
        command = [sys.executable, "-m", "apps.localcluster.nodeagent.certificate", str(directory)]
        subprocess.run(command, check=True, cwd=ROOT)
        certificate = (directory / "tls.crt", directory / "tls.key")
    settings = Settings(directory, options.max, options.backoff, options.log_bytes)
    start = Start(
        options.kubeconfig,
        options.fleet,
        options.images,
        settings,
        options.port,
        certificate,
        not options.no_mounts,
        options.client_ca,
    )
    try:
        asyncio.run(serve(start))
    finally:
        os.close(lock)


if __name__ == "__main__":
    main()
