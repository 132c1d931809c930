"""Jobs, queues and nodes come to what they came to under real Volcano when it was recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.localcluster.contract.rows import GIVEN
from tests.localcluster.contract.volcano import score
from tests.localcluster.contract.volcano.sites import SITES, Site

MARKS = [pytest.mark.prove, pytest.mark.timeout(1800)]  # the control plane may have to be built first


EVERY = "CONTRACT_EVERY"
"""Set to ask every case of every row, which takes half an hour each."""


def asked() -> Iterator[Any]:
    """Those cases that the tests in memory leave out; a given cluster is asked every case."""
    for name in SITES:
        if name == "given" and GIVEN not in os.environ:
            continue
        for case in score.load():
            if case in score.SOON or name == "given" or EVERY in os.environ:
                yield pytest.param(name, case, marks=() if name == "small" else MARKS, id=f"{name}-{case}")


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with SITES[request.param](tmp_path_factory.mktemp("volcano")) as running:
        yield running


@pytest.mark.parametrize(("site", "name"), list(asked()), indirect=["site"])
def test_outcome(site: Site, name: str) -> None:
    outcome, why = score.outcome(site, score.load()[name])
    known, reason = score.LEFT.get((site.name, name), ("", ""))
    if outcome == "skipped":
        pytest.skip(why)
    elif known and outcome == known:
        pytest.xfail(f"{outcome}: {reason}")
    assert outcome == "matched", why
    assert not known, f"{name} comes out as recorded: take it out of left.yaml"
