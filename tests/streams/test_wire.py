"""Frames that are made once for many pages are frames as the protocol has them."""

from __future__ import annotations

import json

import pytest
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from apps.streams import services
from apps.streams.domain.frames import Cursor, Entry, Kind
from apps.streams.domain.messages import Item, messages
from apps.streams.domain.wire import Message


def read(frame: bytes) -> Frame:
    """What a client makes of it."""
    stream = StreamReader()
    stream.feed_data(frame)
    parsing = Frame.parse(stream.read_exact, mask=False)
    with pytest.raises(StopIteration) as done:
        next(parsing)
    stream.feed_eof()
    assert next(stream.at_eof(), None) is None
    return done.value.value  # type: ignore[no-any-return]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 300_000])
def test_a_text_of_any_size_is_one_whole_frame(size: int) -> None:
    text = "损" * (size // 3) + "x" * (size % 3)
    message = Message.of(*(text[at : at + 7].encode() for at in range(0, len(text), 7)))
    frame = read(message.frame)
    assert (frame.opcode, frame.fin, bytes(frame.data).decode(), message.text) == (Opcode.TEXT, True, text, text)


def test_pages_are_sent_the_frames_as_the_ring_holds_them() -> None:
    source, entries, lines = services.Source(0, 1, "p"), list[Entry](), 0
    frames = [
        services.LogFrame(source, [services.LogLine(1, "INFO", None, None, 'a "b" 错误')] * 2),
        services.LogFrame(source, [], services.Gap(1, 2)),
        services.PointsFrame(source, [services.LivePoint("loss", 1, "NaN", 1)]),
        services.LogFrame(source, [services.LogLine(2, "", None, 3, "x" * 20_000)]),
    ]
    for number, packed in enumerate(map(services.pack, frames)):
        lines += packed.count
        entries.append(Entry(Cursor("b", (1, number), lines), packed.kind, packed.count, packed.body))
    found, cursor = messages("job.1", None, map(Item.of, entries))
    told = [json.loads(message.text) for message in found]
    assert [(one["t"], one["topic"], one["cursor"], len(one["frames"])) for one in told] == [
        (Kind.LOG, "job.1", "b.1-1.2", 2), (Kind.POINTS, "job.1", "b.1-2.2", 1), (Kind.LOG, "job.1", "b.1-3.3", 1),
    ]  # fmt: skip
    assert cursor == Cursor("b", (1, 3), 3)
    assert [frame.get("n") for one in told for frame in one["frames"]] == [1, 3, None, 3]
    assert told[0]["frames"][0]["lines"] == [[1, "INFO", None, None, 'a "b" 错误', None]] * 2
    assert told[2]["frames"][0]["lines"][0][5]["cut"] == 20_000
