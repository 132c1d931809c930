from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.localcluster.contract.rows import GIVEN, ROWS, Row

MARKS = {
    "apiserver": (pytest.mark.prove, pytest.mark.timeout(1800)),  # it may have to be built first
    "given": (pytest.mark.skipif(GIVEN not in os.environ, reason=f"no {GIVEN}"),),
}


@pytest.fixture(scope="session", params=[pytest.param(name, marks=MARKS.get(name, ())) for name in ROWS])
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Row]:
    with ROWS[request.param](tmp_path_factory.mktemp("contract")) as running:
        yield running
