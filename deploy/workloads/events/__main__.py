"""Command line: python -m deploy.workloads.events --help.

What was read of each file is noted by the portal, not here: a pod that is made anew goes on where the last one was
heard of. The portal says after each look whether there is to be another one, and when.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apps.jobs.domain.eventfiles import NoEventFile, Piece, read_on
from deploy.workloads.events.door import Door, GaveUp
from deploy.workloads.events.find import event_files, opened

MOST_SCALARS = 2000
MOST_BYTES = 8 << 20
"""Of a file in one go: the others have their turn."""
SETTLE_SECONDS = 5.0
"""Before the last look: a shared volume may show a moment later what another node has written."""


def main(arguments: Sequence[str] | None = None, sleep: Callable[[float], None] = time.sleep) -> int:
    options = _parser().parse_args(arguments)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    door = Door(options.portal.rstrip("/"), options.job, options.token_file, options.patience, print)
    try:
        Reader(door, options.directory, sleep).run()
    except GaveUp as why:
        print(f"Failed: {why}")
        return 1
    return 0


class Reader:
    """Looks at a folder until the portal says that it is enough."""

    def __init__(self, door: Door, directory: Path, sleep: Callable[[float], None]) -> None:
        self.door, self.directory, self.sleep = door, directory, sleep
        self.places: dict[str, int] = {}
        self.strange: set[str] = set()
        """Files of that name that are none."""

    def run(self) -> None:
        """Raises GaveUp."""
        told = self.door.ask("GET")
        self.places = {str(path): int(place) for path, place in told.get("files", {}).items()}
        while True:
            last = bool(told.get("ended"))
            if last:
                self.sleep(SETTLE_SECONDS)
            files, waiting, scalars = self.look()
            print(f"{len(files)} event files, {scalars} new scalars")
            document = {"files": len(files), "waiting": waiting, "scalars": scalars, "last": last}
            told = self.door.ask("POST", document)
            if told.get("enough"):
                return
            if not told.get("ended"):
                self.sleep(float(told.get("pause", 30)))

    def look(self) -> tuple[list[str], int, int]:
        """Everything new of all files, each a piece at a time in turn; how many end with what is no whole record."""
        files = [path for path in event_files(self.directory) if path not in self.strange]
        behind, waiting, scalars = list(files), 0, 0
        while behind:
            left = []
            for path in behind:
                piece = self._piece(path)
                if piece is None:
                    continue
                scalars += len(piece.scalars)
                if piece.waits:
                    waiting += 1
                elif self._is_more(path):
                    left.append(path)
            behind = left
        return [path for path in files if path not in self.strange], waiting, scalars

    def _piece(self, path: str) -> Piece | None:
        """Read and tell the next piece of a file; None where there is none."""
        start = self.places.get(path, 0)
        try:
            with opened(self.directory, path) as file:
                piece = read_on(file, start, most_scalars=MOST_SCALARS, most_bytes=MOST_BYTES)
        except NoEventFile:
            print(f"{path} is no event file")
            self.strange.add(path)
            return None
        except OSError as error:
            print(f"{path} cannot be read: {error.strerror}")
            return None
        if piece.next > start:
            self.places[path] = self._tell(path, start, piece)
        return piece

    def _tell(self, path: str, start: int, piece: Piece) -> int:
        """Where the portal stands afterwards, which may be elsewhere: it was told before, and its answer was lost."""
        document = {
            "path": path,
            "from": start,
            "next": piece.next,
            "begun": piece.begun,
            "scalars": [[one.tag, one.step, repr(one.value), one.at] for one in piece.scalars],
        }
        return int(self.door.ask("PUT", document).get("next", piece.next))

    def _is_more(self, path: str) -> bool:
        try:
            return (self.directory / path).lstat().st_size > self.places.get(path, 0)
        except OSError:
            return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="events", description="Tell the portal the scalars of event files.")
    add: Any = parser.add_argument
    add("--portal", required=True, metavar="URL", help="the portal's address as seen from here")
    add("--job", required=True, metavar="ID", help="whose volume it is")
    add("--token-file", required=True, type=Path, metavar="FILE", help="holds the reader's token")
    add("--directory", required=True, type=Path, metavar="DIR", help="the job's volume")
    add("--patience", type=float, default=600, metavar="SECONDS", help="how long outages are sat out")
    return parser


if __name__ == "__main__":
    sys.exit(main())
