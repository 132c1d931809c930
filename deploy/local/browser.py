"""Which Chromium to drive: CHROMIUM, an installed Chromium or Chrome, else playwright's own download."""

from __future__ import annotations

import os
from pathlib import Path

from deploy.local.program import Missing, installed


def chromium() -> Path:
    """Raises Missing."""
    if named := os.environ.get("CHROMIUM"):
        if os.access(named, os.X_OK):
            return Path(named)
        raise Missing(f"no Chromium: CHROMIUM={named} is not a program")
    found = installed("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    downloads = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache/ms-playwright"))
    found += sorted(downloads.glob("chromium-*/chrome-linux*/chrome"), reverse=True)
    if not found:
        raise Missing("no Chromium: install the package chromium (or Chrome), or name one in CHROMIUM.")
    return found[0]
