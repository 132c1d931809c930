"""A text as it goes over a WebSocket: made once for all pages that are sent it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_WHOLE_TEXT = 0x81
_SHORT, _TWO_BYTES, _EIGHT_BYTES = 125, 126, 127
WIRE = "maas.wire"
"""The ASGI extension under which a server offers a `Wire` to a socket."""
Buffer = bytes | memoryview


class Wire(Protocol):
    """A server's connection to a page that takes whole frames."""

    def put(self, frame: bytes) -> bool:
        """Send a frame; False, and nothing is sent, while the page has still to take others, or is gone."""

    async def ready(self) -> None:
        """Wait until it may be worth another try. Raises OSError where the page is gone."""


@dataclass(frozen=True, slots=True)
class Message:
    """`frame` is a whole unmasked frame (RFC 6455, 5.2), in which the text begins at `start`."""

    frame: bytes
    start: int

    @classmethod
    def of(cls, *parts: Buffer) -> Message:
        """The message whose text these are together, in UTF-8."""
        head = header(sum(map(len, parts)))
        return cls(b"".join((head, *parts)), len(head))

    @property
    def text(self) -> str:
        return self.frame[self.start :].decode()


def header(size: int) -> bytes:
    """What stands before a text of so many bytes."""
    if size <= _SHORT:
        return bytes((_WHOLE_TEXT, size))
    if size < 1 << 16:
        return bytes((_WHOLE_TEXT, _TWO_BYTES)) + size.to_bytes(2, "big")
    return bytes((_WHOLE_TEXT, _EIGHT_BYTES)) + size.to_bytes(8, "big")


def joined(items: Sequence[Sequence[Buffer]]) -> list[Buffer]:
    """The parts of some items with commas between them."""
    found: list[Buffer] = []
    for item in items:
        found += item
        found.append(b",")
    return found[:-1]
