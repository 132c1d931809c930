"""Lines read many at once give what they give one by one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.clusters.domain.blocks import parts, stamped
from apps.clusters.domain.loglines import LogLine, Splitter
from apps.clusters.domain.loglines import stamped as stamped_each
from apps.clusters.domain.resume import Place, Resumer
from apps.clusters.services.registry import WorkloadKind
from apps.clusters.watch.gathering import Gatherer
from apps.jobs.domain.traininglog import LogReader
from apps.jobs.domain.traininglog.readers import read_pattern
from apps.streams import services as streams
from tests.clusters.logserver import START
from tests.clusters.logserver import stamp as time_of

CASES = sorted((Path(__file__).parents[1] / "cases" / "logs").glob("*.log"))
PLATFORM = "[2026-03-02 08:00:00{}] [{}] [job] [Rank-{}]{} {}"
OWN = (read_pattern(r"it (?P<step>\d+) cost (?P<loss>\S+)"), read_pattern(r"\A<(?P<step>\d+)> (?P<loss>.*)\z"))

WORDS = [
    "Loss: 2.5, LR: 1e-4", "[Loss: nan]", "loss:", "step: 7  loss: 3.5", "Step = 8 lr: 1", "ſtep: 9  loſs: 1", "[x] [y]",
    " iteration 12/ 250 | lm loss: 2.5E+00 |", "{'loss': 2.0, 'step': 4}", '{"step": 5, "loss": NaN}', "epoch: 1 step: 2, loss is 3",
    "epoch time: 500.0 ms, per step time: 5.0 ms", "x - Epoch(train) [2][10/735]  lr: 1.9e-04 loss: 2.5", "loss=inf",
    "Checkpoint saved: step 20, 1 MiB", "n0:1:2 [0] NCCL INFO Using network Socket", "it 4 cost 2.5", "<4> 2.5", "(W pid=7) {'step': 1, 'loss': 2}",
    "[0] [Rank 0] step=510, skipped=8, lr=[9.65e-06, 1]", "INFO", "WARNING", "ERROR", "FATALLY", "错误ERROR", "损失 1.0", "１", "a\tb",
    'say "x\\y"', "\x1b[31mstep\x1b[0m: 1 loss: 2", "10%|#\r20%|##", "\r", "\x00", "\u202e", "…", "é", "tps:\u00a05", "K", "x" * 210, "]", "[", "",
    "x - Epoch(train) [2][10/735]  time: 1", "to\u212aens/s: 5", "ıter: 5 a: 1", "[Torch] Saved a/global_step9/mp_rank_00_model_states.pt.",
    "  successfully saved checkpoint from iteration   7 ", "step=1", "GLOBAL_STEP : 3 a=1", "[a [b]]", "[Step-x] y", "x" * 5000, "%", "{}",
]  # fmt: skip
words = st.sampled_from(WORDS)
texts = st.lists(words, max_size=3).map(" ".join)
stamps = st.sampled_from(["", ".125", ",125", ".1", "٣"])
numbers = st.sampled_from(["0", "3", "12", "007", "٣", "123456789012345678901"])
steps = st.one_of(st.just(""), numbers.map(" [Step-{}]".format))
lines = st.one_of(
    texts,
    st.builds(PLATFORM.format, stamps, st.sampled_from(["INFO", "WARNING", "ERROR"]), numbers, steps, texts),
    st.builds("[rank{}]:{}{}".format, numbers, st.sampled_from(["", " ", "\t", "\u00a0"]), texts),
).map(str.encode)
anything = st.one_of(lines, st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")))


def stamp(ns: int) -> bytes:
    return f"{time_of(ns, trimmed=False)} ".encode()


def gatherer(own: int = 0) -> Gatherer:
    kind = WorkloadKind("x", "x", str, lambda: LogReader(lambda: OWN[:own]))
    return Gatherer(streams.Source(3, 1, "p"), kind)


def said(gathered: Gatherer) -> tuple[Any, ...]:
    batch = gathered.take()
    frames = [msgspec.json.decode(frame.body) for frame in batch.frames()]
    count = batch.rows.count
    return (
        [line for frame in frames for line in frame.get("lines", ())],
        batch.points,
        [str(one) for one in batch.readings],
        count,
    )


def both(data: bytes, sizes: Iterable[int], own: int = 0) -> tuple[int, int]:
    """Reads a log both ways, holds them against each other; how many lines came, and how many of them one by one."""
    one, many, splitter, singly = gatherer(own), gatherer(own), Splitter(), 0
    for line in stamped_each(Splitter().feed(data)):
        one.add(line)
    at = 0
    for size in sizes:
        chunk, at = data[at : at + size], at + size
        whole = splitter.whole(chunk)
        for part in parts(whole, 500) if whole else [None]:
            block = stamped(part) if part and many.takes_many else None
            if block is not None:
                many.add_many(block)
                continue
            for line in stamped_each(splitter.feed(chunk) if part is None else Splitter().feed(part)):
                many.add(line)
                singly += 1
    mine, right = said(many), said(one)
    assert mine == right
    return right[-1], singly


@settings(deadline=None)
@given(
    st.lists(anything, max_size=12), st.lists(st.integers(1, 900), min_size=1, max_size=12), st.sampled_from([0, 1, 2])
)
def test_any_bytes_in_any_chunks_are_read_alike(raw: list[bytes], sizes: list[int], own: int) -> None:
    """Whatever patterns of operators (`own` of them) lines are held against too."""
    data = b"".join(stamp(START + number * 700_000_000) + text + b"\n" for number, text in enumerate(raw))
    both(data, [*sizes, len(data)], own)


@pytest.mark.parametrize("word", WORDS)
def test_each_sign_is_seen_wherever_it_stands(word: str) -> None:
    heads = ("{}", "[2026-03-02 08:00:00] [INFO] [job] [Rank-0] [Step-1{}", "[2026-03-02 08:00:00] [INFO] [job] [Rank-0] {}", "[rank1]: {}")  # fmt: skip
    for head in (*heads, heads[1].replace("{}", "] {}"), heads[1].replace("{}", "] [{}]")):
        for before in ("nothing", "epoch: 1 step: 200, loss is 2"):
            raw = (
                before,
                head.format("nothing"),
                head.format(word),
                head.format("nothing"),
                "epoch: 2 step: 1, loss is 2",
            )
            data = b"".join(stamp(START + number) + text.encode() + b"\n" for number, text in enumerate(raw))
            assert both(data, [len(data)]) == (5, 0)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_each_frameworks_log_is_read_alike(case: Path) -> None:
    raw = case.read_bytes().split(b"\n")
    data = b"".join(stamp(START + number) + text + b"\n" for number, text in enumerate(raw))
    count, singly = both(data, [65_536] * (len(data) // 65_536 + 1))
    assert count == len(raw)
    assert singly < count / 2, "the lines of a framework are plain enough to be read at once"


@settings(deadline=None)
@given(st.data())
def test_a_place_is_the_same_whether_many_lines_are_taken_or_each(data: st.DataObject) -> None:
    """Equal times and equal texts, and lines that stand behind later ones."""
    moves = data.draw(st.lists(st.sampled_from([-1, 0, 0, 1, 700_000_000]), min_size=1, max_size=40))
    at, lines = START, []
    for number, move in enumerate(moves):
        at += move
        lines.append(LogLine(at, b"same" if number % 3 else b"n%d" % number))
    place, written = Place(), 0
    while written < len(lines):
        written = data.draw(st.integers(written + 1, len(lines)))
        since = place.at // 1_000_000_000 * 1_000_000_000
        resumer, each = Resumer(place), Resumer(place)
        for part in cut(data, [line for line in lines[:written] if line.at >= since]):
            if resumer.found and data.draw(st.booleans()):
                block = stamped(b"".join(stamp(line.at) + line.text + b"\n" for line in part))
                assert block is not None
                resumer.take_all(block)
            else:
                for line in part:
                    resumer.take(line)
            for line in part:
                each.take(line)
            assert resumer.place == each.place
        place = resumer.place


def cut(data: st.DataObject, lines: list[LogLine]) -> Iterable[list[LogLine]]:
    while lines:
        size = data.draw(st.integers(1, len(lines)))
        yield lines[:size]
        lines = lines[size:]
