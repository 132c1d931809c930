"""Command line: python -m deploy.workloads.charlm.serve --help."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.workloads.charlm.checkpoint import NotGood
from deploy.workloads.charlm.log import Log
from deploy.workloads.charlm.serve.engine import Engine
from deploy.workloads.charlm.serve.metrics import Metrics
from deploy.workloads.charlm.serve.server import Server, Serving, Slots

EXIT_FAILED = 1
ENDING = {signal.SIGTERM, signal.SIGINT}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    log = Log(os.environ.get("MAAS_JOB_NAME") or options.name, 0)
    # Waited for, not handled: a handler that sets what the main thread waits for can find the lock taken by it.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        engine = Engine.load(options.checkpoint, options.token_seconds)
        serving = Serving(options.name, engine, Slots(options.parallel, options.waiting), Metrics(options.name), log)
        server = Server((options.host, options.port), serving)
    except NotGood as error:
        log.error(f"No model to serve: {error}")
        return EXIT_FAILED
    except OSError as error:
        log.error(f"Cannot listen on {options.host}:{options.port}: {error}")
        return EXIT_FAILED
    log.step = engine.step
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    log.info(
        f"Serving {options.name} on {options.host}:{server.server_address[1]}: {engine.model.size} parameters, "
        f"{options.parallel} answers at once, {options.waiting} may wait"
    )
    signal.sigwait(ENDING)
    _end(server, options.linger, options.drain)
    return 0


def _end(server: Server, linger: float, drain: float) -> None:
    """Serves on until whoever sends requests knows better, then finishes what is under way."""
    serving = server.serving
    serving.ending = True
    serving.log.info(f"Asked to end: takes requests for {linger:g} s more")
    time.sleep(linger)
    server.shutdown()
    server.server_close()
    deadline = time.monotonic() + drain
    while not serving.slots.idle() and time.monotonic() < deadline:
        time.sleep(0.05)
    left = serving.slots.running
    serving.log.info(f"Ended; {left} answers were broken off" if left else "Ended; every answer was finished")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="charlm.serve", description="Serve a checkpoint of charlm by OpenAI's chat API."
    )
    add = parser.add_argument
    add(
        "--checkpoint",
        type=Path,
        required=True,
        help="its folder, or a folder of checkpoints: then the newest good one",
    )
    add("--name", required=True, help="what clients call the model")
    add("--port", type=int, default=8000, help="(%(default)s)")
    add("--host", default=os.environ.get("POD_IP") or "127.0.0.1", help="address; $POD_IP, else loopback")
    add("--parallel", type=int, default=16, help="answers made at a time (%(default)s)")
    add("--waiting", type=int, default=64, help="requests that may wait; more get 503 (%(default)s)")
    add("--token-seconds", type=float, default=0.0, help="least duration of a token, for watching (%(default)s)")
    add("--linger", type=float, default=5.0, help="seconds after SIGTERM in which requests are taken (%(default)s)")
    add("--drain", type=float, default=20.0, help="seconds after that for answers under way (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
