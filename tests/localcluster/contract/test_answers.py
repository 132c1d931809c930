"""A cluster answers as a real one did when it was recorded."""

from __future__ import annotations

import pytest

from tests.localcluster.contract import score
from tests.localcluster.contract.cases import MAY_REFUSE, load
from tests.localcluster.contract.rows import Row


@pytest.mark.parametrize("name", score.in_order())
def test_answer(row: Row, name: str) -> None:
    case = load()[name]
    outcome, why = score.outcome(row, case)
    known, reason = score.LEFT.get(name, ("", "")) if row.name == "small" else ("", "")
    if outcome == "skipped":
        pytest.skip(why)
    elif known and outcome == known:
        pytest.xfail(f"{outcome}: {reason}")
    elif outcome == "refused":
        assert row.name != "apiserver", why
        assert case["embedded"] == MAY_REFUSE, f"{why}: left.yaml does not say so"
    else:
        assert outcome == "matched", why
        assert not known, f"{name} is answered: take it out of left.yaml"
