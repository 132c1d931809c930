"""Points that were read from a log's lines and are still to be stored: whoever read them may have been killed.

They stand in Redis from the very step on with which their lines do, until they are in the database. Storing them once
more changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from apps.streams.services.buffer import Keys, redis
from apps.streams.services.points import Reading, record_points

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[Reading]]).decode


@dataclass(frozen=True)
class Owed:
    """What is owed of a topic: the keys it stands under, and by attempt the readings in their order."""

    topic: str
    keys: Sequence[bytes]
    readings: dict[int, list[Reading]]


def packed(attempt: int, readings: Sequence[Reading]) -> bytes:
    """Readings as they stand in Redis."""
    return _encode((attempt, readings)) if readings else b""


def topics() -> list[str]:
    """Topics of which points are owed. Raises RedisError."""
    head, tail = Keys.of("\0").owed.split("\0")
    return [key.decode().removeprefix(head).removesuffix(tail) for key in redis().scan_iter(f"{head}*{tail}", 1000)]


def of(topic: str) -> Owed | None:
    """Raises RedisError."""
    found = cast("dict[bytes, bytes]", redis().hgetall(Keys.of(topic).owed))
    readings: dict[int, list[Reading]] = {}
    for attempt, some in map(_decode, found.values()):
        readings.setdefault(attempt, []).extend(some)
    for some in readings.values():
        some.sort(key=lambda reading: reading[3])
    return Owed(topic, list(found), readings) if found else None


def store(owed: Owed) -> None:
    for attempt, readings in owed.readings.items():
        record_points(owed.topic, attempt, readings)


def settle(owed: Owed) -> None:
    """They were stored. Raises RedisError."""
    redis().hdel(Keys.of(owed.topic).owed, *owed.keys)
