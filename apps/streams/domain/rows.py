"""Log lines on their way into a frame, encoded: what `LogFrame` would make of them one by one, made of many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from apps.streams.domain.frames import SHOWN_CHARACTERS, Gap, Kind, LogLine, Packed, Source

_encode = msgspec.json.Encoder().encode
_SPECIAL = b"\\", b'"', b"\t"
_BETWEEN = b',"'
_END = b'",null],['


class Rows:
    """The lines of one frame. Those without a rank are of their source's."""

    def __init__(self, source: Source) -> None:
        self.count = 0
        self._source = source
        self._parts: list[bytes] = []
        self._long = False

    def add(self, line: LogLine) -> None:
        self._parts.append(self._encoded(line))
        self.count += 1

    def add_columns(
        self,
        at: Sequence[int],
        kinds: Sequence[tuple[str, int | None]],
        steps: Sequence[bytes],
        texts: Sequence[bytes],
        others: Mapping[int, LogLine],
    ) -> None:
        """Many lines: their times (ns), levels with ranks, digits of steps (b"" for none) and texts, in UTF-8 without
        control characters but tabs and not long. Where `others` has a line, that is the one."""
        if not at:
            return
        heads = {kind: _head(kind, self._source.rank) for kind in set(kinds)}
        cells = [_BETWEEN] * (6 * len(at))
        cells[0::6] = repr(list(at))[1:-1].encode().split(b", ")
        cells[1::6] = map(heads.__getitem__, kinds)
        cells[2::6] = steps if all(steps) else [step or b"null" for step in steps]
        cells[4::6] = _escaped(texts)
        cells[5::6] = [_END] * len(at)
        for index, line in others.items():
            cells[6 * index : 6 * index + 6] = self._encoded(line)[1:-1], b"", b"", b"", b"", b"],["
        self._parts.append(b"[" + b"".join(cells)[:-2])
        self.count += len(at)

    def packed(self, gap: Gap | None = None) -> Packed:
        """The frame, as `frames.pack` makes it."""
        more = (b',"gap":' + _encode(gap) if gap else b"") + (b',"long":true' if self._long else b"")
        body = b'{"src":%b,"lines":[%b]%b}' % (_encode(self._source), b",".join(self._parts), more)
        return Packed(Kind.LOG, self.count, body)

    def _encoded(self, line: LogLine) -> bytes:
        self._long = self._long or len(line.text) > SHOWN_CHARACTERS
        return _encode(line)


def _head(kind: tuple[str, int | None], rank: int | None) -> bytes:
    level, own = kind
    return b",%b,%b," % (_encode(level), _encode(rank if own is None else own))


def _escaped(texts: Sequence[bytes]) -> Sequence[bytes]:
    """Texts as they stand in JSON."""
    whole = b"\n".join(texts)
    if not any(sign in whole for sign in _SPECIAL):
        return texts
    return whole.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\t", b"\\t").split(b"\n")
