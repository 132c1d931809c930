"""Finding event files in a folder that belongs to somebody else, and opening them.

Links are never followed: one could lead to the token of this very pod.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MARK = "tfevents"
DEEPEST = 8
MOST_ENTRIES = 50_000
"""A look passes over so many names at most: a volume of small files must not keep its storage busy."""
MOST_FILES = 200
PATH_LIMIT = 500


def event_files(directory: Path) -> list[str]:
    """Paths of event files relative to the folder, at most MOST_FILES of them, those changed last; in order."""
    found: list[tuple[float, str]] = []
    for entry in _entries(directory):
        path = str(Path(entry.path).relative_to(directory))
        if MARK in entry.name and len(path) <= PATH_LIMIT and path.isprintable():
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append((status.st_mtime, path))
    return sorted(path for _changed, path in sorted(found)[-MOST_FILES:])


def opened(directory: Path, path: str) -> BinaryIO:
    """A regular file of the folder, none of its folders a link. Raises OSError."""
    parts = Path(path).parts
    descriptors = [os.open(directory, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            descriptors.append(os.open(part, flags, dir_fd=descriptors[-1]))
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptors[-1])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(0, "is no regular file", path)
    return os.fdopen(file, "rb")


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    """What is in a folder and below, breadth first; what cannot be read is passed over."""
    left, folders = MOST_ENTRIES, [str(directory)]
    for _depth in range(DEEPEST):
        below: list[str] = []
        for folder in folders:
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        left -= 1
                        if left < 0:
                            return
                        yield entry
                        if entry.is_dir(follow_symlinks=False):
                            below.append(entry.path)
            except OSError:
                continue
        folders = below
