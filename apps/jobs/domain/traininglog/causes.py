"""What went wrong, by the words that frameworks, drivers and systems have for it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import re2

MAX_SEARCHED = 4096

_CAUSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (code, re.compile(pattern))
    for code, pattern in (
        ("overflow", r"\bOVERFLOW! Rank \d+ Skipping step"),
        ("nccl_timeout", r"Watchdog caught collective operation timeout|\bNCCL timeout\b"),
        ("gpu_out_of_memory", r"\bCUDA out of memory\b|\bOutOfMemoryError: (?:CUDA|HIP|NPU) out of memory"),
        ("gpu_xid_{}", r"\bXid \([^)]{1,40}\): (\d{1,3})\b"),
        ("cuda_error", r"\bCUDA error: (?!out of memory)"),
        ("ssh_permission_denied", r"\bPermission denied \(publickey\b"),
        ("worker_failed", r"\bChildFailedError\b"),
        ("disk_full", r"\[Errno 28\]|\bNo space left on device\b"),
    )
)

_ANY = re2.compile(
    "OVERFLOW! Rank|collective operation timeout|NCCL timeout|out of memory|Xid|CUDA error|Permission denied"
    "|ChildFailedError|Errno 28|No space left"
)
"""Words of which each of them has one: a line without any, as nearly all are, is not searched eight times."""


def causes(text: str) -> tuple[str, ...]:
    """The codes of what a line reports, in the table's order; an Xid error's has its number."""
    head = text[:MAX_SEARCHED]
    if not _ANY.search(head):
        return ()
    found = ((code, pattern.search(head)) for code, pattern in _CAUSES)
    return tuple(code.format(*match.groups()) for code, match in found if match)


def faults(values: Mapping[str, float]) -> tuple[str, ...]:
    """What figures say of themselves: a loss or a norm of the gradient that is no number any more."""
    found = []
    for series in ("loss", "grad_norm"):
        value = values.get(series, 0.0)
        if not math.isfinite(value):
            found.append(f"{series}_{'nan' if math.isnan(value) else 'inf'}")
    return tuple(found)
