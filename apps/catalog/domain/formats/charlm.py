"""The manifest of a charlm checkpoint: sizes of the model, and its shards of parameters and velocity."""

from __future__ import annotations

import json
from typing import Any

from apps.catalog.domain.formats.tensors import Found
from apps.catalog.domain.formats.window import Malformed, Window

FORMAT = "charlm-checkpoint/1"
LONGEST = 1 << 20
_BYTES = 8


def read(window: Window) -> Found | None:
    """None for a manifest of something else. Raises Malformed."""
    if window.size > LONGEST:
        return None
    try:
        manifest = json.loads(window.read(0, window.size))
    except (ValueError, RecursionError):
        return None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return None
    model, shards, step = manifest.get("model"), manifest.get("shards"), manifest.get("step")
    if not isinstance(model, dict) or not isinstance(shards, list) or not shards or not _whole(step):
        raise Malformed("header-json")
    end = 0
    for shard in shards:
        if not isinstance(shard, dict) or shard.get("start") != end or not _whole(shard.get("stop")):
            raise Malformed("gap")
        if shard["stop"] < end:
            raise Malformed("overlap")
        end = shard["stop"]
    context = model.get("context")
    found = Found("charlm", step=step, context=context if _whole(context) else None, architecture="charlm")
    found.add("F64", end, end * _BYTES)
    found.tensors = len(model["blocks"]) if isinstance(model.get("blocks"), list) else 1
    return found


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
