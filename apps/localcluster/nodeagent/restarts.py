"""When a container runs again, and when an image is asked for again: exponential back-off as the kubelet has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from apps.localcluster.nodeagent.records import Attempt

LONGEST = 300.0  # seconds between two tries
WELL = 600.0  # a run this long clears the history


@dataclass(frozen=True)
class Start:
    """Run attempt `number` now. `streak` counts the short runs before it."""

    number: int
    streak: int = 0


@dataclass(frozen=True)
class Later:
    """Run again in `seconds`; `pause` is the whole back-off."""

    seconds: float
    pause: float


@dataclass(frozen=True)
class Stay:
    """Nothing to start: it runs, or has ended for good (`done`)."""

    done: bool


def backoff(tries: int, base: float) -> float:
    """Seconds to wait after `tries` failures, the first try being free."""
    return 0.0 if tries <= 0 else min(base * 2.0 ** min(tries - 1, 30), LONGEST)


def duration(seconds: float) -> str:
    """As Go writes it: `400ms`, `10s`, `1m20s`, `5m0s`."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest:g}s"


def epoch(stamp: str) -> float:
    """RFC 3339 with up to nine fractional digits, as seconds since the epoch."""
    head, _, rest = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(head).replace(tzinfo=UTC).timestamp() + float(f"0.{rest or 0}")


def decide(latest: Attempt | None, policy: str, now: float, base: float) -> Start | Later | Stay:
    """What to do about a container, from its newest attempt and the restartPolicy that holds for it."""
    if latest is None:
        return Start(0)
    if latest.ended is None:
        return Stay(done=False) if latest.started or latest.alive else Start(latest.number, latest.streak)
    if policy == "Never" or (policy == "OnFailure" and latest.ended["code"] == 0):
        return Stay(done=True)
    finished = epoch(latest.ended["ended"])
    streak = 0 if finished - epoch(latest.ended["started"]) >= WELL else latest.streak
    pause = backoff(streak, base)
    left = finished + pause - now
    return Later(left, pause) if left > 0 else Start(latest.number + 1, streak + 1)
