"""Reading the scalars of a TensorBoard event file: TFRecords, each with an Event of Protocol Buffers in it.

A file is often cut in the middle, for it is read while it is written or its writer was killed: what is whole before the
cut counts. Nothing else of TensorBoard's is read: no images, histograms, graphs.

Plain Python without imports of ours: the pod that reads a job's volume has this file and no other of the portal's.
"""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

MOST_BYTES = 16 << 20
MOST_RECORD = 64 << 10
"""A longer record is passed over: scalars are short, and a checksum takes its time."""
MOST_SERIES = 100

_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_FLOAT_TYPE, _DOUBLE_TYPE = 1, 2


class NoEventFile(ValueError):
    """The bytes do not begin as an event file does."""


class Scalar(NamedTuple):
    """`at` in seconds since 1970."""

    tag: str
    step: int
    value: float
    at: float


@dataclass
class EventFile:
    """`cut` where the file ends in the middle of a record or is damaged: what came before counts. `left_out` counts
    scalars of more series than are kept."""

    scalars: list[Scalar] = field(default_factory=list)
    cut: bool = False
    left_out: int = 0


@dataclass
class Piece:
    """What was read of a file from a place on. `next` is where the first record begins that was not read; where bytes
    lie there that are no whole record, or not yet, `waits`. `begun` is the time of the file's first record, in seconds
    since 1970, where that was read."""

    scalars: list[Scalar]
    next: int
    waits: bool = False
    begun: float | None = None


class _Damaged(Exception):
    """A record's bytes are no Event."""


class _Torn(_Damaged):
    """A record is not whole."""


def read(data: bytes) -> EventFile:
    """The scalars of a file, in its order. Raises NoEventFile."""
    found, tags = EventFile(), set[str]()
    is_first = True
    try:
        for record, _next in _records(io.BytesIO(data), 0, len(data)):
            if record is None:
                continue
            step, at, values, is_event = _event(record)
            if is_first and not is_event:
                raise NoEventFile
            is_first = False
            for tag, value in values:
                if tag not in tags and len(tags) >= MOST_SERIES:
                    found.left_out += 1
                    continue
                tags.add(tag)
                found.scalars.append(Scalar(tag, step, value, at))
    except _Damaged:
        found.cut = True
    if is_first:
        raise NoEventFile
    return found


def read_on(file: BinaryIO, start: int, *, most_scalars: int, most_bytes: int) -> Piece:
    """Go on reading where an earlier piece ended (0: at the beginning), up to about so many scalars and bytes; no more
    than one record is in memory. Raises NoEventFile, OSError."""
    size = os.fstat(file.fileno()).st_size
    piece = Piece([], start)
    try:
        for record, after in _records(file, start, size):
            step, at, values, is_event = _event_or_none(record)
            if piece.next == 0:
                if not is_event:
                    raise NoEventFile
                piece.begun = at
            piece.next = after
            piece.scalars += [Scalar(tag, step, value, at) for tag, value in values]
            if len(piece.scalars) >= most_scalars or after - start >= most_bytes:
                break
    except _Torn:
        if piece.next == 0 and size >= _LENGTH.size + _CRC.size and not _begins_well(file):
            raise NoEventFile from None
        piece.waits = True
    return piece


def _event_or_none(record: bytes | None) -> tuple[int, float, list[tuple[str, float]], bool]:
    """An Event, or nothing of a record that is passed over or is none: the next one begins where it says."""
    try:
        return _event(record) if record is not None else (0, 0.0, [], False)
    except _Damaged:
        return 0, 0.0, [], False


def _begins_well(file: BinaryIO) -> bool:
    """Whether a file begins with the length of a record."""
    file.seek(0)
    return _length(file.read(_LENGTH.size + _CRC.size)) is not None


def _length(head: bytes) -> int | None:
    """The length of the record behind a head; None for a head that is none."""
    size = _LENGTH.size
    if len(head) < size + _CRC.size or _masked(head[:size]) != _CRC.unpack_from(head, size)[0]:
        return None
    return int(_LENGTH.unpack_from(head)[0])


def _records(file: BinaryIO, at: int, size: int) -> Iterator[tuple[bytes | None, int]]:
    """The whole records from a place on, None for one too long to be read, each with where the next begins. Raises
    _Torn where one is not whole."""
    while at < size:
        file.seek(at)
        length = _length(file.read(_LENGTH.size + _CRC.size))
        if length is None:
            raise _Torn
        first = at + _LENGTH.size + _CRC.size
        at = first + length + _CRC.size
        if at > size:
            raise _Torn
        if length > MOST_RECORD:
            yield None, at
            continue
        body = file.read(length + _CRC.size)
        if len(body) < length + _CRC.size or _masked(body[:length]) != _CRC.unpack_from(body, length)[0]:
            raise _Torn
        yield body[:length], at


def _table() -> tuple[int, ...]:
    rows = []
    for n in range(256):
        for _bit in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        rows.append(n)
    return tuple(rows)


_TABLE = _table()


def _masked(data: bytes) -> int:
    """CRC-32C as TFRecord keeps it: turned and moved, for checksums of checksums are poor."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


Field = tuple[int, int, int | bytes]
"""Number, wire type, value."""


def _fields(data: bytes) -> Iterator[Field]:
    """The fields of a message. Raises _Damaged."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at : at + size], at + size
        elif wire == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise _Damaged
        if at > len(data) or number == 0:
            raise _Damaged
        yield number, wire, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _Damaged
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise _Damaged


def _event(record: bytes) -> tuple[int, float, list[tuple[str, float]], bool]:
    """Step, time, scalars, and whether it has what every Event has."""
    step, at, values, is_event = 0, 0.0, list[tuple[str, float]](), False
    for number, wire, value in _fields(record):
        if (number, wire) == (1, 1) and isinstance(value, bytes):
            at, is_event = _DOUBLE.unpack(value)[0], True
        elif (number, wire) == (2, 0) and isinstance(value, int):
            step = value - (1 << 64) if value >> 63 else value
        elif (number, wire) == (5, 2) and isinstance(value, bytes):
            values = [scalar for n, w, one in _fields(value) if (n, w) == (1, 2) for scalar in _value(one)]
    return step, at, values, is_event


def _value(message: int | bytes) -> list[tuple[str, float]]:
    """A Summary.Value that is a scalar; none for any other."""
    tag, found = "", None
    for number, wire, value in _fields(message if isinstance(message, bytes) else b""):
        if not isinstance(value, bytes):
            continue
        if (number, wire) == (1, 2):
            tag = value.decode("utf-8", "replace")
        elif (number, wire) == (2, 5):
            found = float(_FLOAT.unpack(value)[0])
        elif (number, wire) == (8, 2):
            found = _tensor(value)
    return [(tag, found)] if tag and found is not None else []


def _tensor(message: bytes) -> float | None:
    """A tensor of one number, as newer writers keep scalars; None for any other."""
    kind, content, number_of = 0, b"", list[float]()
    for number, wire, value in _fields(message):
        if (number, wire) == (1, 0) and isinstance(value, int):
            kind = value
        elif (number, wire) == (2, 2) and isinstance(value, bytes):
            if value and any(n == 2 for n, _w, _v in _fields(value)):
                return None  # it has dimensions
        elif (number, wire) == (4, 2) and isinstance(value, bytes):
            content = value
        elif number in (5, 6) and isinstance(value, bytes):
            pattern = _FLOAT if number == 5 else _DOUBLE
            if len(value) == pattern.size:
                number_of.append(float(pattern.unpack(value)[0]))
    if number_of:
        return number_of[0] if len(number_of) == 1 else None
    pattern = {_FLOAT_TYPE: _FLOAT, _DOUBLE_TYPE: _DOUBLE}.get(kind, _FLOAT)
    return float(pattern.unpack(content)[0]) if len(content) == pattern.size else None


_NAMES = {
    "loss": "loss", "train/loss": "loss", "train_loss": "loss", "loss/train": "loss", "training/loss": "loss",
    "lm loss": "loss", "train/train_loss": "loss", "loss_metrics/global_avg_loss": "loss",
    "eval/loss": "eval_loss", "eval_loss": "eval_loss", "val_loss": "eval_loss", "val/loss": "eval_loss",
    "loss/val": "eval_loss", "validation/loss": "eval_loss", "lm loss validation": "eval_loss",
    "lr": "learning_rate", "learning_rate": "learning_rate", "learning-rate": "learning_rate",
    "train/learning_rate": "learning_rate", "train/lr": "learning_rate",
    "grad_norm": "grad_norm", "grad-norm": "grad_norm", "train/grad_norm": "grad_norm", "loss-scale": "loss_scale",
    "loss_scale": "loss_scale",
}  # fmt: skip
_ODD = re.compile(r"[^A-Za-z0-9_./-]+")


def series_of(tag: str) -> str:
    """The series of a tag: one with a name of ours, else the tag without what a name cannot have; "" for none."""
    name = _NAMES.get(tag.strip().lower()) or _ODD.sub("_", tag.strip()).lstrip("_./-")[:40]
    return name if name[:1].isalpha() else ""
