"""`python -m apps.localcluster.volcano --kubeconfig FILE [--scheduler-conf FILE] [--port N]`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from pathlib import Path

from apps.localcluster.client import Kubeconfig
from apps.localcluster.volcano.manager import Manager
from apps.localcluster.volcano.scheduler.settings import DEFAULT, Settings


async def _serve(kubeconfig: Path, settings: Settings, port: int) -> None:
    work = asyncio.ensure_future(Manager(Kubeconfig.load(kubeconfig), settings, port).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        logging.getLogger(__name__).info("stopped")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m apps.localcluster.volcano", description="A stand-in for Volcano.")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the cluster to work on")
    parser.add_argument("--scheduler-conf", type=Path, default=DEFAULT, help="in Volcano's own format (%(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port of the admission webhooks on loopback (any free one)")
    parser.add_argument("--verbose", action="store_true", help="log every retry")
    args = parser.parse_args()
    try:
        settings = Settings.load(args.scheduler_conf)
    except (OSError, ValueError) as error:
        parser.error(f"{args.scheduler_conf}: {error}")
    level = logging.INFO if args.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(_serve(args.kubeconfig, settings, args.port))


if __name__ == "__main__":
    main()
