"""safetensors: eight bytes of length, a JSON header, then the tensors without holes."""

from __future__ import annotations

import json
from typing import Any

from apps.catalog.domain.formats.tensors import MOST_TENSORS, Found, product
from apps.catalog.domain.formats.window import Malformed, Window

LONGEST = 100_000_000
"""The format's own limit of a header."""
BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "C64": 64, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


def read(window: Window) -> Found:
    """Raises Malformed."""
    length = int.from_bytes(window.read(0, 8), "little")
    if not 2 <= length <= LONGEST or length > window.size - 8:
        raise Malformed("header-length")
    header = _header(window.read(8, length))
    found, spans = Found("safetensors"), []
    for name, about in header.items():
        if name != "__metadata__":
            spans.append(_tensor(found, about))
    end = 0
    for start, stop in sorted(spans):
        if start < end:
            raise Malformed("overlap")
        if start > end:
            raise Malformed("gap")
        end = stop
    held = window.size - 8 - length
    if end != held:
        raise Malformed("truncated" if end > held else "gap")
    return found


def _header(raw: bytes) -> dict[str, Any]:
    if raw[:1] != b"{":
        raise Malformed("header-json")
    try:
        header = json.loads(raw, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Malformed("header-json") from error
    if len(header) > MOST_TENSORS:
        raise Malformed("too-many")
    return dict(header)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("name-twice")
    return found


def _tensor(found: Found, about: Any) -> tuple[int, int]:
    """Add a tensor; where its bytes begin and end."""
    about = about if isinstance(about, dict) else {}
    bits = BITS.get(about.get("dtype", "")) if isinstance(about.get("dtype"), str) else None
    if bits is None:
        raise Malformed("dtype")
    shape, offsets = about.get("shape"), about.get("data_offsets")
    parameters = product(shape) if isinstance(shape, list) else None
    if parameters is None:
        raise Malformed("shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or product(offsets) is None:
        raise Malformed("offsets")
    start, stop = offsets
    if stop < start or (stop - start) * 8 != parameters * bits:
        raise Malformed("offsets")
    found.add(about["dtype"], parameters, stop - start)
    return start, stop
