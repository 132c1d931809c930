"""What events say of how often and when, and how many of them wait at most."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.clusters.watch import sayings
from apps.clusters.watch.database import Writer
from apps.clusters.watch.projections import EVENTS, PODS, ClusterEvent, Pod
from apps.clusters.watch.sayings import Sayings

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LATER = datetime(2026, 11, 30, 12, 7, tzinfo=UTC)


def event(uid: str = "e", kind: str = "Pod", **fields: Any) -> ClusterEvent:
    about = {"kind": kind, "namespace": "n", "name": "p", "uid": "u"}
    body = {
        "metadata": {"name": uid, "namespace": "n", "uid": uid},
        "involvedObject": about,
        "type": "Warning",
        **fields,
    }
    return EVENTS.decode(json.dumps(body))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"count": 12, "firstTimestamp": "2026-11-30T12:00:00Z", "lastTimestamp": "2026-11-30T12:07:00Z",
             "eventTime": None},
            (12, NOON, LATER),
        ),
        (
            {"firstTimestamp": None, "lastTimestamp": None, "eventTime": "2026-11-30T12:00:00.000000Z"},
            (1, NOON, NOON),
        ),
        (
            {"firstTimestamp": None, "lastTimestamp": None, "eventTime": "2026-11-30T12:00:00.000000Z",
             "series": {"count": 9, "lastObservedTime": "2026-11-30T12:07:00.000000Z"}},
            (9, NOON, LATER),
        ),
        ({}, (1, None, None)),
    ],
)  # fmt: skip
def test_how_often_and_when_is_read_from_either_api(
    fields: dict[str, Any], told: tuple[int, datetime | None, datetime | None]
) -> None:
    one = event(**fields)
    assert (one.times, one.first, one.last) == told


def pod(uid: str) -> Pod:
    return PODS.decode(json.dumps({"metadata": {"name": "p", "namespace": "n", "uid": uid}}))


def waiting(one: Sayings) -> list[str]:
    return list(one._waiting)


def test_no_more_wait_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sayings, "MOST_WAITING", 3)
    monkeypatch.setattr(sayings, "MOST_GONE", 2)
    one = Sayings(Writer(), lambda _key: None, lambda _pod: None, lambda _kind, _key: None)
    for uid in ("a", "b", "b", "c", "d"):
        one.add(event(uid))
    one.add(event("node", "Node"))
    one.add(event("usual", type="Normal", reason="Pulled"))
    assert waiting(one) == ["b", "c", "d"]
    for uid in ("1", "2", "3"):
        one.gone(pod(uid))
    assert list(one._gone) == ["2", "3"]
