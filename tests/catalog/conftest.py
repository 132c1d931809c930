from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection


@pytest.fixture(autouse=True)
def storage_folder(settings: Any, tmp_path: Path) -> Path:
    """A storage of this test's own."""
    settings.STORAGE_DIR = str(tmp_path / "storage")
    return tmp_path / "storage"


@pytest.fixture(autouse=True)
def outside_calls() -> Any:
    """A test's own transaction is not one the code under test has opened."""
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]
