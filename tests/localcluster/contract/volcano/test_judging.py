"""The judge lets pass what the recordings leave open, and nothing else."""

from __future__ import annotations

import pytest

from tests.localcluster.contract.volcano.judging import Judge

RAN = ["(none)", "Inqueue", "Running"]


@pytest.mark.parametrize(
    ("recorded", "seen"),
    [
        (["(none)", "Inqueue", "(deleted)", *RAN], [*RAN, "(deleted)", *RAN]),  # deleted before the scheduler looked
        ([*RAN, "(deleted)"], [*RAN, "Completed", "(deleted)"]),
        (["(none)", "Inqueue"], RAN),
    ],
)
def test_when_the_scheduler_looks_is_left_open(recorded: list[str], seen: list[str]) -> None:
    assert Judge("nothing").of_phases({"PodGroup/a-<uid>": recorded}, {"PodGroup/a-<uid>": seen}) is None


@pytest.mark.parametrize(
    ("key", "recorded", "seen"),
    [
        ("PodGroup/a-<uid>", ["(none)", "Pending"], RAN),
        ("PodGroup/a-<uid>", [*RAN, "(deleted)"], RAN),
        ("PodGroup/a-<uid>", [*RAN, "Unknown"], RAN),
        ("PodGroup/a-<uid>", ["(none)", "Pending", "Inqueue", "Running"], RAN),
        ("Job/a", ["(none)", "Pending", "Running", "Aborted"], ["(none)", "Pending", "Aborted"]),
    ],
)
def test_phases_that_last_are_owed(key: str, recorded: list[str], seen: list[str]) -> None:
    assert Judge("nothing").of_phases({key: recorded}, {key: seen})


def test_the_moment_in_which_a_gang_counts_twice_is_left_open_where_the_door_is_wide_enough() -> None:
    recorded = {"PodGroup/a-<uid>": ["(none)", "Pending", "Inqueue", "Running"]}
    assert Judge("nothing", frozenset({"a"})).of_phases(recorded, {"PodGroup/a-<uid>": RAN}) is None


def test_what_varied_is_free_and_what_stands_beside_it_is_not() -> None:
    judge = Judge('final.jobs.a.phase: "Running" | "Pending"; final: which nodes were used')
    wanted = {"jobs": {"a": {"minAvailable": 1}}}
    assert judge.difference(wanted, {"jobs": {"a": {"minAvailable": 1, "phase": "Pending"}}}, "final") is None
    assert judge.difference(wanted, {"jobs": {"a": {"minAvailable": 2}}}, "final")
    assert judge.difference(wanted, {"jobs": {"a": {"minAvailable": 1, "failed": 1}}}, "final")
