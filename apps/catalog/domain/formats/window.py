"""Looking at a few bytes of a file that may be anything, wherever it lies."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field

BUFFER = 64 << 10


class Malformed(Exception):
    """The file is not what it says it is; `code` says in which way."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Window:
    """A file of `size` bytes; `fetch(start, length)` returns exactly those, which lie inside it."""

    size: int
    fetch: Callable[[int, int], bytes]

    def read(self, start: int, length: int) -> bytes:
        """Raises Malformed when the file ends before."""
        if start < 0 or length < 0 or start + length > self.size:
            raise Malformed("truncated")
        return self.fetch(start, length) if length else b""


@dataclass
class Cursor:
    """Reads on and on from a window, which it asks for larger pieces; after `limit` bytes it is no header any more."""

    window: Window
    limit: int
    position: int = 0
    _held: bytes = field(default=b"", repr=False)
    _held_at: int = 0

    def take(self, length: int) -> bytes:
        """The next bytes. Raises Malformed."""
        if self.position + length > self.limit:
            raise Malformed("header-length")
        start = self.position - self._held_at
        if start < 0 or start + length > len(self._held):
            if length > BUFFER:
                found = self.window.read(self.position, length)
                self.position += length
                return found
            self._held_at, start = self.position, 0
            self._held = self.window.read(self.position, min(BUFFER, self.window.size - self.position))
            if length > len(self._held):
                raise Malformed("truncated")
        self.position += length
        return self._held[start : start + length]

    def skip(self, length: int) -> None:
        """Leave bytes out. Raises Malformed."""
        if length < 0 or self.position + length > self.window.size:
            raise Malformed("truncated")
        if self.position + length > self.limit:
            raise Malformed("header-length")
        self.position += length

    def whole(self, size: int) -> int:
        """A little-endian whole number without sign."""
        return int.from_bytes(self.take(size), "little")


class WindowFile(io.RawIOBase):
    """A window as a file, for readers of the standard library."""

    def __init__(self, window: Window) -> None:
        self._window, self._at = window, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._window.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._window.size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        found = self._window.read(self._at, length)
        self._at += length
        return found
