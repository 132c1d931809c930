"""What a version's files say of themselves, from their headers alone. Nothing is ever unpickled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from apps.catalog.domain.formats import charlm, gguf, numpy, onnx, safetensors
from apps.catalog.domain.formats.tensors import Found, tidy
from apps.catalog.domain.formats.window import Malformed, Window

__all__ = ["Malformed", "Window", "facts_of", "read_file"]

PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".joblib")
_HEADS: dict[bytes, Callable[[Window], Found]] = {gguf.MAGIC: gguf.read, numpy.MAGIC: numpy.read}
_ENDINGS: dict[str, Callable[[Window], Found]] = {
    ".safetensors": safetensors.read,
    ".gguf": gguf.read,
    ".npy": numpy.read,
    ".npz": numpy.read_archive,
    ".onnx": onnx.read,
}
_STRENGTH = ("charlm", "safetensors", "gguf", "onnx", "numpy", "pickle")
"""The format of a version is the first of these that one of its files has."""
CONFIG = 1 << 20
FAULTS = 50


def read_file(path: str, window: Window) -> Found | None:
    """What one file is; None for one that is no model. Raises Malformed for one that is not what its name says."""
    lower = path.lower()
    reader = next((reader for ending, reader in _ENDINGS.items() if lower.endswith(ending)), None)
    if reader is not None:
        return reader(window)
    head = window.read(0, min(8, window.size))
    if lower.endswith(PICKLES) or _is_pickle(head) or (head[:4] == b"PK\x03\x04" and numpy.holds_pickle(window)):
        return Found("pickle", unopened=True)
    named = next((reader for magic, reader in _HEADS.items() if head.startswith(magic)), None)
    if named is not None:
        return named(window)
    return charlm.read(window) if lower.rpartition("/")[2] == "manifest.json" else None


def facts_of(files: Mapping[str, Window]) -> dict[str, Any]:
    """The facts of a version (see `ModelVersion.facts`) from all of its files."""
    found: list[Found] = []
    faults: list[dict[str, str]] = []
    unopened: list[str] = []
    for path, window in sorted(files.items()):
        try:
            one = read_file(path, window)
        except Malformed as malformed:
            faults.append({"path": path, "code": malformed.code})
            continue
        if one is not None:
            found.append(one)
            if one.unopened:
                unopened.append(path)
    facts = _added([one for one in found if one.format == _strongest(found)])
    for path, window in files.items():
        if path.rpartition("/")[2] == "config.json":
            facts = _configured(facts, window)
    facts["bytes"] = sum(window.size for window in files.values())
    return facts | {"unopened": unopened[:FAULTS], "faults": faults[:FAULTS]}


def _strongest(found: list[Found]) -> str:
    formats = {one.format for one in found}
    return next((name for name in _STRENGTH if name in formats), "")


def _added(found: list[Found]) -> dict[str, Any]:
    """Files of one format, added up."""
    dtypes: dict[str, int] = {}
    for one in found:
        for name, count in one.dtypes.items():
            dtypes[name] = dtypes.get(name, 0) + count
    return {
        "format": found[0].format if found else "unknown",
        "parameters": sum(dtypes.values()) or None,
        "weight_bytes": sum(one.weight_bytes for one in found) or None,
        "tensors": sum(one.tensors for one in found) or None,
        "dtypes": dtypes,
        "context": next((one.context for one in found if one.context), None),
        "architecture": next((one.architecture for one in found if one.architecture), ""),
        "quantisation": next((one.quantisation for one in found if one.quantisation), ""),
        "step": next((one.step for one in found if one.step is not None), None),
    }


def _configured(facts: dict[str, Any], window: Window) -> dict[str, Any]:
    """Add what a config.json says and no header does."""
    if window.size > CONFIG:
        return facts
    try:
        config = json.loads(window.read(0, window.size))
    except (ValueError, RecursionError):
        return facts
    if not isinstance(config, dict):
        return facts
    context, names = config.get("max_position_embeddings"), config.get("architectures")
    if facts["context"] is None and isinstance(context, int) and not isinstance(context, bool) and 0 < context < 2**40:
        facts = facts | {"context": context}
    if not facts["architecture"] and isinstance(names, list) and names:
        facts = facts | {"architecture": tidy(names[0])}
    return facts


def _is_pickle(head: bytes) -> bool:
    return len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5
