"""Command line: python -m deploy.workloads.carry --help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.workloads.carry.find import Changed, NoCheckpoint, newest
from deploy.workloads.carry.send import GaveUp, Portal

LOOKS = 5
"""A running job prunes and writes checkpoints; so often another one is begun."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    portal = Portal(options.portal.rstrip("/"), options.transfer, options.token_file, options.patience, print)
    try:
        _carry(portal, options.checkpoints, options.until_step)
    except (NoCheckpoint, GaveUp) as why:
        print(f"Failed: {why.code}: {why.text}")
        try:
            portal.tell_failure(why.code, why.text)
        except GaveUp as again:
            print(f"The portal could not be told: {again.text}")
        return 1
    print("Done: everything is in the portal")
    return 0


def _carry(portal: Portal, checkpoints: Path, until_step: int | None) -> None:
    """Raises NoCheckpoint, GaveUp."""
    for _look in range(LOOKS):
        try:
            found = newest(checkpoints, until_step)
            print(f"Found {found.folder.name}: {sum(file.size for file in found.files):,} bytes, every digest is right")
            portal.bring(found)
        except Changed as changed:
            print(f"The job has changed {changed} meanwhile; looking again")
        else:
            return
    raise NoCheckpoint("checkpoint-torn", f"The volume changed {LOOKS} times while it was read.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="carry", description="Bring the newest good checkpoint to the portal.")
    parser.add_argument("--portal", required=True, metavar="URL", help="the portal's address as seen from here")
    parser.add_argument("--transfer", required=True, metavar="ID", help="the transfer it asked for")
    parser.add_argument("--token-file", required=True, type=Path, metavar="FILE", help="holds the transfer's token")
    parser.add_argument("--checkpoints", required=True, type=Path, metavar="DIR", help="the job's volume")
    parser.add_argument("--until-step", type=int, metavar="STEP", help="later checkpoints do not count")
    parser.add_argument("--patience", type=float, default=600, metavar="SECONDS", help="how long outages are sat out")
    return parser


if __name__ == "__main__":
    sys.exit(main())
