"""GGUF: keys and values, the list of tensors, then their bytes."""

from __future__ import annotations

import struct

from apps.catalog.domain.formats.tensors import MOST_TENSORS, Found, product, tidy
from apps.catalog.domain.formats.window import Cursor, Malformed, Window

MAGIC = b"GGUF"
HEADER = 64 << 20
"""A header holds the vocabulary; more than this is none."""
MOST_KEYS = 10_000
LONGEST_NAME = 65_535

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9

TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2),
}  # fmt: skip
"""Number of a type: its name, how many numbers a block has, and how many bytes that takes."""

Scalar = str | int | float | bool | None


def read(window: Window) -> Found:
    """Raises Malformed."""
    cursor = Cursor(window, HEADER)
    if cursor.take(4) != MAGIC:
        raise Malformed("magic")
    if cursor.whole(4) not in (2, 3):
        raise Malformed("version")
    tensors, keys = cursor.whole(8), cursor.whole(8)
    if tensors > MOST_TENSORS or keys > MOST_KEYS:
        raise Malformed("too-many")
    values = {_string(cursor): _value(cursor) for _ in range(keys)}
    found = Found("gguf")
    spans = [_tensor(cursor, found) for _ in range(tensors)]
    _check_spans(spans, values, cursor, window)
    found.architecture = tidy(values.get("general.architecture"))
    context = values.get(f"{found.architecture}.context_length")
    found.context = context if isinstance(context, int) and 0 < context < 2**40 else None
    found.quantisation = max(found.dtypes, key=lambda name: found.dtypes[name], default="")
    return found


def _check_spans(spans: list[tuple[int, int]], values: dict[str, Scalar], cursor: Cursor, window: Window) -> None:
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise Malformed("alignment")
    begin = -(-cursor.position // alignment) * alignment
    end = 0
    for start, size in sorted(spans):
        if start % alignment:
            raise Malformed("offsets")
        if start < end:
            raise Malformed("overlap")
        end = start + size
    if spans and begin + end > window.size:
        raise Malformed("truncated")


def _tensor(cursor: Cursor, found: Found) -> tuple[int, int]:
    """Add a tensor; where its bytes begin, and how many there are at least."""
    _string(cursor)
    dimensions = cursor.whole(4)
    if not 0 <= dimensions <= 8:
        raise Malformed("shape")
    parameters = product(cursor.whole(8) for _ in range(dimensions))
    if parameters is None:
        raise Malformed("shape")
    name, block, size = TYPES.get(cursor.whole(4), ("?", 1, 0))
    start = cursor.whole(8)
    if parameters % block:
        raise Malformed("shape")
    length = parameters // block * size
    found.add(name, parameters, length)
    return start, length


def _string(cursor: Cursor) -> str:
    length = cursor.whole(8)
    if length > LONGEST_NAME:
        raise Malformed("name-length")
    return cursor.take(length).decode("utf-8", "replace")


def _value(cursor: Cursor) -> Scalar:
    kind = cursor.whole(4)
    if kind == _STRING:
        length = cursor.whole(8)
        if length <= LONGEST_NAME:
            return cursor.take(length).decode("utf-8", "replace")
        cursor.skip(length)
        return None
    if kind == _ARRAY:
        _skip_array(cursor)
        return None
    return _scalar(cursor, kind)


def _scalar(cursor: Cursor, kind: int) -> Scalar:
    form = _SCALARS.get(kind)
    if form is None:
        raise Malformed("value-type")
    value: Scalar = struct.unpack(form, cursor.take(struct.calcsize(form)))[0]
    return value


def _skip_array(cursor: Cursor) -> None:
    kind, count = cursor.whole(4), cursor.whole(8)
    if kind in _SCALARS:
        cursor.skip(count * struct.calcsize(_SCALARS[kind]))
    elif kind == _STRING:
        if count * 8 > cursor.limit:
            raise Malformed("header-length")
        for _ in range(count):
            cursor.skip(cursor.whole(8))
    else:  # arrays of arrays are allowed and used by nobody
        raise Malformed("value-type")
