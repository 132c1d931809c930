"""TensorBoard event files, as far as scalars go: TFRecords, each with an Event of Protocol Buffers in it."""

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path


class EventFile:
    """One file of one run in `directory`, named as TensorBoard names them. A record is whole when `write` is back."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.0"
        self._file = (directory / name).open("ab", buffering=0)
        self._put(_field(3, b"brain.Event:2"))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """What a step came to, by tag."""
        parts = (
            _field(1, _field(1, tag.encode()) + _key(2, 5) + struct.pack("<f", _float(value)))
            for tag, value in values.items()
        )
        self._put(_key(2, 0) + _varint(step) + _field(5, b"".join(parts)))

    def _put(self, rest: bytes) -> None:
        event = _key(1, 1) + struct.pack("<d", time.time()) + rest
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))


def _float(value: float) -> float:
    """What 32 bits can say of it."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, 2) + _varint(len(content)) + content


def _table() -> tuple[int, ...]:
    rows = []
    for n in range(256):
        for _bit in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        rows.append(n)
    return tuple(rows)


_TABLE = _table()


def _checksum(data: bytes) -> bytes:
    """CRC-32C as TFRecord keeps it: turned and moved."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
