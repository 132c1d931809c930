"""Why a job failed, as far as its last log lines and its ranks' ends tell: causes by code, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from apps.jobs.domain.traininglog import causes

_XID = re.compile(r"gpu_xid_(\d+)")

_ORDER = (
    "gpu_xid", "disk_full", "gpu_out_of_memory", "memory", "not_found", "not_executable", "module_missing",
    "file_missing", "loss", "cuda_error", "segfault", "ssh_permission_denied", "address_in_use", "nccl_timeout",
    "killed", "evicted", "worker_failed",
)  # fmt: skip
"""Causes before what follows from them: when a rank ends, others time out, and their launcher says a worker failed."""

_OWN_WORDS = tuple(
    (code, re.compile(pattern))
    for code, pattern in (
        ("module_missing", r"\b(?:ModuleNotFoundError|ImportError): "),
        ("file_missing", r"\bFileNotFoundError: |\bIsADirectoryError: "),
        ("address_in_use", r"\b[Aa]ddress already in use\b"),
        ("loss", r"\bLoss is (?:nan|inf|-inf)\b"),
    )
)
_EXITS = {126: "not_executable", 127: "not_found", 139: "segfault", -11: "segfault"}
_MEMORY = re.compile(r"\bOOMKilled\b|\bmemory limit\b|\blow on resource: memory\b", re.IGNORECASE)
_EVICTED = re.compile(r"\b[Ee]victed\b|\bPreempt|\bdeleted by\b")


@dataclass(frozen=True)
class End:
    """How one rank ended, with what the cluster said of it."""

    rank: int
    node: str
    exit_code: int | None
    message: str


@dataclass(frozen=True)
class Line:
    """One line of the log; `at` in nanoseconds since 1970."""

    at: int
    rank: int | None
    text: str


@dataclass(frozen=True)
class Cause:
    """`code` as `services.failing` has words for it; `xid` of a GPU's error, else None. `rank` and `node` where it was
    seen first, `line` what told it there ("" for a rank's end), `count` how often."""

    code: str
    xid: int | None = None
    rank: int | None = None
    node: str = ""
    line: str = ""
    at: int | None = None
    count: int = 1


def classed(lines: Iterable[Line], ends: Iterable[End]) -> list[Cause]:
    """What these lines and ends tell, each cause once, the likeliest first."""
    known = list(ends)
    nodes = {end.rank: end.node for end in known}
    found: dict[tuple[str, int | None], Cause] = {}
    for line in lines:
        for code, xid in _told(line.text):
            node = nodes.get(line.rank, "") if line.rank is not None else ""
            _add(found, Cause(code, xid, line.rank, node, line.text[:500], line.at))
    for end in known:
        if code := _ended(end):
            _add(found, Cause(code, None, end.rank, end.node))
    if any(cause.code == "memory" for cause in found.values()):
        found.pop(("killed", None), None)
    return sorted(found.values(), key=lambda cause: (_ORDER.index(cause.code), cause.at or 0))


def _told(text: str) -> list[tuple[str, int | None]]:
    codes: list[tuple[str, int | None]] = []
    for code in causes(text):
        if code == "overflow":
            continue  # such a step is skipped, and the run goes on
        xid = _XID.fullmatch(code)
        codes.append(("gpu_xid", int(xid[1])) if xid else (code, None))
    return codes + [(code, None) for code, pattern in _OWN_WORDS if pattern.search(text[:4096])]


def _ended(end: End) -> str:
    """The cause that a rank's end tells by itself; "" for one that its log has to tell."""
    if _MEMORY.search(end.message):
        return "memory"
    if _EVICTED.search(end.message):
        return "evicted"
    if end.exit_code in (137, -9):
        return "killed"
    return _EXITS.get(end.exit_code or 0, "")


def _add(found: dict[tuple[str, int | None], Cause], cause: Cause) -> None:
    key = cause.code, cause.xid
    first = found.setdefault(key, cause)
    if first is not cause:
        found[key] = Cause(first.code, first.xid, first.rank, first.node, first.line, first.at, first.count + 1)
