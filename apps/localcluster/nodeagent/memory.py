"""How much memory a container has in use. Standard library only: the shim uses it.

Not every user of a machine may make control groups, so the shim looks from time to time: a container that grows past
its limit is ended soon after, not at the page that was one too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

LOOK = 0.5  # seconds between two looks
KIB = 1024


def descendants(pid: int) -> Iterator[int]:
    """Processes below one, each once; those that end meanwhile are left out."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for child in (int(word) for thread in threads for word in _text(thread / "children").split()):
        yield child
        yield from descendants(child)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _sum(path: Path, *fields: str) -> int:
    """Bytes of some fields of a file with lines such as `RssAnon:  1234 kB`."""
    lines = (line.partition(":") for line in _text(path).splitlines())
    return sum(int(rest.split()[0]) * KIB for name, _, rest in lines if name in fields)


def exceeds(pid: int, limit: int) -> bool:
    """Whether the processes below one use more than `limit` bytes that no file stands behind."""
    processes = list(descendants(pid))
    if sum(_sum(Path(f"/proc/{each}/status"), "RssAnon", "RssShmem") for each in processes) <= limit:
        return False
    # Pages shared after a fork were counted for each that has them; this takes longer and counts them once.
    return sum(_sum(Path(f"/proc/{each}/smaps_rollup"), "Pss_Anon", "Pss_Shmem") for each in processes) > limit
