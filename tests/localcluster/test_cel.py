"""Rules in CEL, so far as the small cluster holds them."""

from __future__ import annotations

from typing import Any

import pytest

from apps.localcluster.apiserver import cel


@pytest.mark.parametrize(
    ("rule", "value", "old", "holds"),
    [
        ("!has(self.min) || !has(self.max) || self.min <= self.max", {"min": 1}, None, True),
        ("!has(self.min) || !has(self.max) || self.min <= self.max", {"min": 3, "max": 2}, None, False),
        ("self.mode in ['a', 'b'] && self.text != 'a && !b'", {"mode": "a", "text": "a && !b"}, None, False),
        ("self == oldSelf", 2, 1, False),
        ("size(self) > 1", [1, 2], None, True),
        ("!self.on == true", {"on": False}, None, True),  # `!` binds closer than `==`
        ("self.gone == 1 || self.here == 1", {"here": 1}, None, True),  # what decides, decides
    ],
)
def test_rule(rule: str, value: Any, old: Any, holds: bool) -> None:
    assert cel.parse(rule).holds(value, old) is holds


def test_a_field_that_is_not_there_is_an_error_and_no_answer() -> None:
    with pytest.raises(KeyError, match="gone"):
        cel.parse("self.gone == 1").holds({}, None)


@pytest.mark.parametrize(
    "rule", ["self.all(x, x > 1)", "self.a ? 1 : 2", "1 < self < 3", "self.startsWith('a')", "other == 1", "self["]
)
def test_what_is_not_understood_is_not_taken_for_true(rule: str) -> None:
    with pytest.raises(cel.NotUnderstood):
        cel.parse(rule)
