"""Which way NCCL sends between nodes, by its own lines (`NCCL_DEBUG=INFO`)."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum

MAX_SEARCHED = 4096


class Way(StrEnum):
    """The names of the marks; `DIRECT` and `STAGED` say whether data goes from GPU to network card by itself."""

    SOCKETS = "nccl_sockets"
    RDMA = "nccl_rdma"
    DIRECT = "nccl_direct"
    STAGED = "nccl_staged"


_SIGNS: tuple[tuple[Way, re.Pattern[str]], ...] = tuple(
    (way, re.compile(rf"\bNCCL INFO (?:{pattern})"))
    for way, pattern in (
        (Way.DIRECT, r"Channel .{1,200} via NET/IB/\d+(?:\(\d+\))?/GDRDMA"),
        (Way.STAGED, r"Channel .{1,200} via NET/IB/\d+(?:\(\d+\))?(?!\S)"),
        (Way.RDMA, r"NET/IB : Using \[|Using network IB\b"),
        (Way.SOCKETS, r"NET/Socket : Using \[|Using network Socket\b|Channel .{1,200} via NET/Socket/"),
    )
)
_RDMA = frozenset({Way.RDMA, Way.DIRECT, Way.STAGED})


def heard(text: str) -> Way | None:
    """The way that a line names."""
    if "NCCL INFO" not in text:
        return None
    head = text[:MAX_SEARCHED]
    return next((way for way, pattern in _SIGNS if pattern.search(head)), None)


def slow_way(ways: Collection[str]) -> Way | None:
    """What is slower than it could be: sockets alone, or RDMA that goes through the host's memory."""
    if Way.SOCKETS in ways and not _RDMA & set(ways):
        return Way.SOCKETS
    return Way.STAGED if Way.STAGED in ways and Way.DIRECT not in ways else None
