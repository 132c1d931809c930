from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.catalog.models import ModelVersion
from apps.serving.services import gate
from tests.factories import World
from tests.serving import made


@pytest.fixture(autouse=True)
def own_ground(settings: Any, tmp_path: Path) -> Any:
    """Folders of this test's own, a gateway's memory without yesterday's keys; a test's own transaction is not one the
    code under test has opened."""
    settings.STORAGE_DIR = str(tmp_path / "storage")
    settings.GATEWAY_DIR = str(tmp_path / "gateway")
    settings.GATEWAY_URL, settings.GATEWAY_HOSTS = "http://models.test", ["models.test"]
    settings.GATEWAY_SECRET = "from the gateway"
    gate._remembered.clear()
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


@pytest.fixture
def version(world: World) -> ModelVersion:
    return made.version(world.scientist, world.place)
