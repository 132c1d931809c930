"""NumPy's .npy and .npz: a small header before plain numbers. An array of objects is a pickle and is not opened."""

from __future__ import annotations

import ast
import re
import zipfile
from typing import Any

from apps.catalog.domain.formats.tensors import Found, product
from apps.catalog.domain.formats.window import Malformed, Window, WindowFile

MAGIC = b"\x93NUMPY"
HEADER = 64 << 10
MEMBERS = 10_000
_DTYPE = re.compile(r"[<>|=]?([biufcSVUmM?O])(\d{0,4})")
_NAMES = {"b": "I", "i": "I", "u": "U", "f": "F", "c": "C"}
_UNIT = {"U": 4}


def read(window: Window) -> Found:
    """One array. Raises Malformed."""
    start, about = _header(window.read(0, min(window.size, 12 + HEADER)))
    found = Found("numpy")
    if about is None:
        found.unopened = True
        return found
    size = _add(found, about)
    if start + size != window.size:
        raise Malformed("truncated" if start + size > window.size else "gap")
    return found


def read_archive(window: Window) -> Found:
    """The arrays of a .npz. What else is in it is not looked at. Raises Malformed."""
    found = Found("numpy")
    try:
        with zipfile.ZipFile(WindowFile(window)) as archive:
            members = archive.infolist()
            if len(members) > MEMBERS:
                raise Malformed("too-many")
            for member in members:
                if not member.filename.endswith(".npy"):
                    raise Malformed("member")
                with archive.open(member) as file:
                    start, about = _header(file.read(12 + HEADER))
                if about is None:
                    found.unopened = True
                elif start + _add(found, about) != member.file_size:
                    raise Malformed("truncated")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise Malformed("archive") from error
    return found


def holds_pickle(window: Window) -> bool:
    """Whether a zip archive holds a pickle, as what torch.save writes does."""
    try:
        with zipfile.ZipFile(WindowFile(window)) as archive:
            return any(name.endswith(".pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError, Malformed):
        return False


def _header(head: bytes) -> tuple[int, dict[str, Any] | None]:
    """Where the numbers begin, and the header; None for one whose numbers are a pickle."""
    if head[:6] != MAGIC or len(head) < 12:
        raise Malformed("magic")
    wide = head[6] in (2, 3)
    if head[6] not in (1, 2, 3):
        raise Malformed("version")
    start = 12 if wide else 10
    length = int.from_bytes(head[8:start], "little")
    if length > HEADER:
        raise Malformed("header-length")
    if start + length > len(head):
        raise Malformed("truncated")
    try:
        about = ast.literal_eval(head[start : start + length].decode("utf-8" if head[6] == 3 else "latin-1").strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise Malformed("header-text") from error
    if not isinstance(about, dict) or about.keys() != {"descr", "fortran_order", "shape"}:
        raise Malformed("header-text")
    return start + length, None if "O" in str(about["descr"]) else about


def _add(found: Found, about: dict[str, Any]) -> int:
    """Add an array; how many bytes its numbers take."""
    match = _DTYPE.fullmatch(about["descr"]) if isinstance(about["descr"], str) else None
    if match is None:
        raise Malformed("dtype")
    parameters = product(about["shape"]) if isinstance(about["shape"], tuple) else None
    if parameters is None:
        raise Malformed("shape")
    kind, each = match[1], int(match[2] or 1) * _UNIT.get(match[1], 1)
    found.add(f"{_NAMES.get(kind, kind.upper())}{each * 8}", parameters, parameters * each)
    return parameters * each
