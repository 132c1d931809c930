"""Brings the files of a registered model into a folder, before its server starts.

    python -m deploy.workloads.charlm.fetch --ticket /run/maas/transfer --into /model

The ticket is a folder with two files: `url`, the portal's address, and `token`, which opens the files of one version.
The portal says which there are; each is held against its digest, and one that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

CHUNK = 1 << 20
SILENCE = 30.0
LONGEST_PAUSE = 10.0


class GaveUp(Exception):
    """It cannot be brought; the text says why."""


class Away(Exception):
    """The portal does not answer, or breaks off: worth another try."""


@dataclass(frozen=True)
class File:
    path: str
    digest: str  # SHA-256, hexadecimal
    size: int

    @classmethod
    def read(cls, value: Any) -> File:
        """Raises GaveUp for what is no file of a model: nothing may be written beside the folder."""
        try:
            file = cls(str(value["path"]), str(value["sha256"]), int(value["size"]))
        except (KeyError, TypeError, ValueError) as error:
            raise GaveUp(f"The portal names no file: {value!r}") from error
        parts = PurePosixPath(file.path).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in file.path:
            raise GaveUp(f"The portal names a file outside of the folder: {file.path!r}")
        return file


@dataclass(frozen=True)
class Portal:
    """`patience`: seconds without a byte after which it is given up."""

    ticket: Path
    patience: float

    def files(self) -> list[File]:
        """Raises GaveUp."""
        pauses = self._pauses()
        while True:
            try:
                with self._ask("/artifacts/files", 0) as answer:
                    return [File.read(each) for each in json.load(answer)["files"]]
            except (Away, OSError, ValueError, KeyError, http.client.HTTPException) as error:
                _wait(pauses, error)

    def content(self, file: File, start: int) -> Iterator[bytes]:
        """From this byte on, over as many answers as it takes. Raises GaveUp."""
        pauses = self._pauses()
        while start < file.size:
            try:
                with self._ask(f"/artifacts/files/{file.digest}", start) as answer:
                    while chunk := answer.read1(CHUNK):
                        start += len(chunk)
                        pauses = self._pauses()
                        yield chunk
                    if start < file.size:
                        raise Away(f"{file.path} broke off at byte {start}")
            except (Away, OSError, http.client.HTTPException) as error:
                _wait(pauses, error)

    def _ask(self, path: str, start: int) -> http.client.HTTPResponse:
        """Raises Away, GaveUp, OSError, HTTPException."""
        # Read for each request, as they are replaced while the old ones still hold.
        url, token = ((self.ticket / name).read_text().strip() for name in ("url", "token"))
        request = urllib.request.Request(url.rstrip("/") + path)
        # Not to where it may be sent on to: a store of objects has credentials of its own.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
        if start:
            request.add_header("Range", f"bytes={start}-")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            answer: http.client.HTTPResponse = opener.open(request, timeout=SILENCE)
        except urllib.error.HTTPError as error:
            text = error.read(300).decode(errors="replace").strip()
            if error.code == 429 or error.code >= 500:
                raise Away(f"the portal answers {error.code}: {text}") from error
            raise GaveUp(f"The portal refuses with {error.code}: {text}") from error
        if start and answer.status != 206:
            raise GaveUp(f"The portal cannot go on from byte {start}.")
        return answer

    def _pauses(self) -> Iterator[float]:
        deadline, pause = time.monotonic() + self.patience, 0.2
        while time.monotonic() < deadline:
            yield pause
            pause = min(pause * 2, LONGEST_PAUSE)


def _wait(pauses: Iterator[float], why: Exception) -> None:
    if (pause := next(pauses, None)) is None:
        raise GaveUp(f"The portal was away for too long: {why}") from why
    print(f"Again in {pause:g} s: {why}")
    time.sleep(pause)


@dataclass
class Progress:
    """A line at most once a second, and at the end: `fetched 1048576 of 2097152 bytes`."""

    total: int
    done: int = 0
    _told: float = field(default_factory=time.monotonic)

    def add(self, size: int) -> None:
        self.done += size
        if time.monotonic() - self._told >= 1:
            self.tell()

    def tell(self) -> None:
        self._told = time.monotonic()
        print(f"fetched {self.done} of {self.total} bytes")


def fetch(portal: Portal, folder: Path) -> None:
    """Raises GaveUp, OSError (a full disk)."""
    files = portal.files()
    progress = Progress(sum(file.size for file in files))
    progress.tell()
    for file in files:
        if not (_bring(portal, file, folder, progress) or _bring(portal, file, folder, progress)):
            raise GaveUp(f"{file.path} is twice not what was registered.")
    progress.tell()


def _bring(portal: Portal, file: File, folder: Path, progress: Progress) -> bool:
    """Whether the file is there now as it was registered."""
    target = folder / file.path
    unfinished = target.with_name(f".{target.name}.unfinished")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        target.rename(unfinished)  # from a run before this one; its digest is looked at below
    before, digest = progress.done, hashlib.sha256()
    with unfinished.open("a+b") as out:
        out.seek(0)
        while chunk := out.read(CHUNK):
            digest.update(chunk)
            progress.add(len(chunk))
        for chunk in portal.content(file, out.tell()):
            out.write(chunk)
            digest.update(chunk)
            progress.add(len(chunk))
    if digest.hexdigest() != file.digest:
        print(f"{file.path} is not what was registered")
        unfinished.unlink()
        progress.done = before
        return False
    unfinished.replace(target)
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="charlm.fetch", description="Bring the files of a model into a folder.")
    parser.add_argument("--ticket", type=Path, required=True, help="folder with the files url and token")
    parser.add_argument("--into", type=Path, required=True, help="folder; what is in it already is not fetched again")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds without the portal (%(default)s)")
    options = parser.parse_args(arguments)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        fetch(Portal(options.ticket, options.patience), options.into)
    except (GaveUp, OSError) as why:
        print(f"Failed: {why}")
        return 1
    print("Done: every file is as it was registered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
