from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.localcluster.contract.rows import GIVEN, ROWS, Row

MARKS = {"apiserver": (pytest.mark.prove, pytest.mark.timeout(1800))}  # it may have to be built first
ASKED = [name for name in ROWS if name != "given" or GIVEN in os.environ]


@pytest.fixture(scope="session", params=[pytest.param(name, marks=MARKS.get(name, ())) for name in ASKED])
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Row]:
    with ROWS[request.param](tmp_path_factory.mktemp("contract")) as running:
        yield running
