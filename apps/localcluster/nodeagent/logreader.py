"""Reads a container's log files and follows them as they grow and are rotated."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from apps.localcluster.nodeagent.crilog import generations, parse

BLOCK = 64 * 1024
LOOK = 0.2  # seconds between two looks at a followed log


@dataclass(frozen=True)
class LogOptions:
    """What a reader asks for. `since` is compared with the entries' times as text: RFC 3339, UTC, nine digits."""

    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: str = ""
    limit: int | None = None


def start_of_tail(files: list[Path], lines: int) -> tuple[int, int]:
    """Index of the file and offset in it where the last `lines` entries begin."""
    left = lines
    for index in range(len(files) - 1, -1, -1):
        with files[index].open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            if index == len(files) - 1 and lines == 0:
                return index, end
            position = end
            while position > 0:
                begin = max(0, position - BLOCK)
                file.seek(begin)
                block = file.read(position - begin)
                # The newline that ends the file begins no further entry.
                stop = len(block) - 1 if position == end else len(block)
                while (found := block.rfind(b"\n", 0, stop)) >= 0:
                    left -= 1
                    if left == 0:
                        return index, begin + found + 1
                    stop = found
                position = begin
            left -= 1 if end else 0
            if left <= 0:
                return index, 0
    return 0, 0


class Renderer:
    """Turns entries into the lines a reader sees."""

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        self.since, self.left = options.since.encode(), options.limit
        self._fresh = True

    @property
    def full(self) -> bool:
        return self.left is not None and self.left <= 0

    def render(self, lines: list[bytes]) -> bytes:
        out = []
        for line in lines:
            entry = parse(line)
            if entry is None or entry.time < self.since:
                continue
            stamp = entry.time + b" " if self.options.timestamps and self._fresh else b""
            out.append(stamp + entry.text + (b"\n" if entry.full else b""))
            self._fresh = entry.full
        data = b"".join(out)
        if self.left is not None:
            data = data[: self.left]
            self.left -= len(data)
        return data


class Source:
    """The bytes of a log from a place on, over all its files, oldest first."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file = path, file
        self._torn = b""

    def lines(self) -> list[bytes]:
        """Whole entries that are there now; empty at the end."""
        while True:
            data = self.file.read(BLOCK)
            if not data and not self._advance():
                return []
            *lines, self._torn = (self._torn + data).split(b"\n")
            if lines:
                return lines

    def _advance(self) -> bool:
        """Go to the next newer file, if this one was rotated away."""
        own = _number(self.file)
        files = generations(self.path)
        numbers = [_inode(file) for file in files]
        if not files or own == numbers[-1]:
            return False
        rest = self.file.read()  # written between the last read and the rotation
        if rest:
            self.file.seek(-len(rest), os.SEEK_CUR)
            return True
        newer = _opened(files[numbers.index(own) + 1] if own in numbers else files[0])
        if newer is None:
            return True  # rotated again just now: look anew
        if not _follows(own, _number(newer), self.path):
            newer.close()  # the names have moved on between the look and the opening
            return True
        self.file.close()
        self.file, self._torn = newer, b""
        return True


def _follows(own: int | None, other: int, path: Path) -> bool:
    """Whether a file is the next one after our own; for None, and where that is gone, whether it is the oldest."""
    numbers = [_inode(file) for file in generations(path)]
    after = numbers[numbers.index(own) + 1 :] if own in numbers else numbers
    return after[:1] == [other]


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _number(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _open(path: Path, options: LogOptions) -> Source | None:
    """None where there is no log yet."""
    while files := generations(path):
        index, offset = (0, 0) if options.tail is None else start_of_tail(files, options.tail)
        file = _opened(files[index])
        if file is None:
            continue  # rotated under our hands
        if options.tail is None and not _follows(None, _number(file), path):
            file.close()
            continue
        file.seek(offset)
        return Source(path, file)
    return None


async def read(path: Path, options: LogOptions, ended: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """The log at `path` as text. With `follow` it ends once `ended()` and everything written has been given out."""
    source = _open(path, options)
    while source is None and options.follow and not ended():
        await asyncio.sleep(LOOK)
        source = _open(path, options)
    if source is None:
        return
    renderer = Renderer(options)
    try:
        over = not options.follow
        while not renderer.full:
            lines = source.lines()
            if lines:
                data = renderer.render(lines)
                if data:
                    yield data
                await asyncio.sleep(0)
            elif over:
                return
            else:
                over = ended()  # then read once more: the last lines came before the end was known
                if not over:
                    await asyncio.sleep(LOOK)
    finally:
        source.file.close()
