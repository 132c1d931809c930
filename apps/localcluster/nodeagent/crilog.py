"""Container logs on disk, in the format of the container runtime interface. Standard library only: the shim uses it.

One entry a line: `2026-01-01T00:00:00.123456789Z stdout F the text`. Text longer than `CHUNK` bytes is cut into entries
tagged P (partial), the last of them F (full).
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

CHUNK = 16 * 1024


class Entry(NamedTuple):
    """One entry. `time` is RFC 3339 with nanoseconds, always UTC, so times compare as text."""

    time: bytes
    stream: bytes
    full: bool
    text: bytes


def parse(line: bytes) -> Entry | None:
    """Read one entry without its newline; None for a line torn by a crash or a full disk."""
    parts = line.split(b" ", 3)
    if len(parts) != 4 or parts[2] not in (b"F", b"P"):
        return None
    return Entry(parts[0], parts[1], parts[2] == b"F", parts[3])


def stamp(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as `2026-01-01T00:00:00.123456789Z`."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z"


def generations(path: Path) -> list[Path]:
    """The log's files, oldest first: `log.2`, `log.1`, `log`."""
    older = [(int(p.suffix[1:]), p) for p in path.parent.glob(f"{path.name}.*") if p.suffix[1:].isdigit()]
    files = [p for _, p in sorted(older, reverse=True)]
    return [*files, path] if path.exists() else files


class CriWriter:
    """Writes raw output of a process as entries; starts a new file past `limit` bytes and keeps `keep` files."""

    def __init__(self, path: Path, limit: int, keep: int) -> None:
        self.path, self.limit, self.keep = path, limit, keep
        self._rest: dict[str, bytes] = {}
        self._open()

    def write(self, stream: str, data: bytes) -> None:
        """Take what the process wrote; a line without its end waits for it."""
        lines = (self._rest.pop(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        out = [entry for line in lines for entry in self._entries(stream, line)]
        while len(rest) > CHUNK:
            out.append(self._entry(stream, b"P", rest[:CHUNK]))
            rest = rest[CHUNK:]
        if rest:
            self._rest[stream] = rest
        self._append(out)

    def close(self) -> None:
        """Write what is left without a newline, as full entries."""
        self._append([self._entry(stream, b"F", rest) for stream, rest in self._rest.items()])
        os.close(self._file)

    def _entries(self, stream: str, line: bytes) -> list[bytes]:
        cuts = [line[at : at + CHUNK] for at in range(0, len(line), CHUNK)] or [b""]
        return [self._entry(stream, b"P", cut) for cut in cuts[:-1]] + [self._entry(stream, b"F", cuts[-1])]

    def _entry(self, stream: str, tag: bytes, text: bytes) -> bytes:
        return b"%b %b %b %b\n" % (stamp(time.time_ns()).encode(), stream.encode(), tag, text)

    def _append(self, entries: list[bytes]) -> None:
        if not entries:
            return
        data = b"".join(entries)
        try:
            os.write(self._file, data)
        except OSError:
            return  # disk full: the container goes on, its lines are lost, as on any node
        self._size += len(data)
        if self._size >= self.limit:
            self._rotate()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        os.close(self._file)
        name = str(self.path)
        for number in range(self.keep - 1, 0, -1):
            older = name if number == 1 else f"{name}.{number - 1}"
            if Path(older).exists():
                Path(older).replace(f"{name}.{number}")
        self._open()
