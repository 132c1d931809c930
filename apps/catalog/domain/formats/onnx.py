"""ONNX: that it is one, and which operators it needs. Its weights are not counted."""

from __future__ import annotations

from apps.catalog.domain.formats.tensors import Found, tidy
from apps.catalog.domain.formats.window import Cursor, Malformed, Window

MOST_FIELDS = 10_000
_IR_VERSION, _PRODUCER, _GRAPH = 1, 2, 7
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read(window: Window) -> Found:
    """Walk the fields of the outermost protobuf message. Raises Malformed."""
    cursor, found = Cursor(window, window.size), Found("onnx")
    seen: set[int] = set()
    for _ in range(MOST_FIELDS):
        if cursor.position == window.size:
            break
        field, kind = divmod(_varint(cursor), 8)
        seen.add(field)
        if kind == _VARINT:
            _varint(cursor)
        elif kind == _BYTES:
            length = _varint(cursor)
            if field == _PRODUCER and length <= 200:
                found.architecture = tidy(cursor.take(length).decode("utf-8", "replace"))
            else:
                cursor.skip(length)
        elif kind in (_FIXED32, _FIXED64):
            cursor.skip(4 if kind == _FIXED32 else 8)
        else:
            raise Malformed("value-type")
    if not {_IR_VERSION, _GRAPH} <= seen:
        raise Malformed("magic")
    return found


def _varint(cursor: Cursor) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = cursor.whole(1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise Malformed("value-type")
