"""What a terminal would show of a line: the last state of what draws over itself, colours beside the text, and nothing
that acts. Characters that would not be seen, or that turn others round, are written out."""

from __future__ import annotations

import re
from collections.abc import Sequence

Style = tuple[int, int, str]
"""From and up to which character, and names of `NAMES` (colours of a ground with `on-` before them)."""

HUES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_ATTRIBUTES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "strike"}
_ENDS = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 29: ("strike",)}
NAMES = frozenset({*HUES, *(f"on-{hue}" for hue in HUES), *_ATTRIBUTES.values()})

_ESCAPE = re.compile(
    r"\x1b\[([0-9;:]*)m"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"  # other control sequences, and one that the line's end cuts
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # commands to the terminal: titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]?"
)
_TO_THE_START = re.compile(r"\x1b\[1?G")
_UNSEEN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_BACK = re.compile("\x08+")


def last_drawn(raw: str) -> tuple[str, str]:
    """A line in two: what was drawn over, and what stands there in the end."""
    if "\x1b[" in raw:
        raw = _TO_THE_START.sub("\r", raw)
    drawn, _, last = raw.rstrip("\r").rpartition("\r")
    return drawn, last


def read_styles(raw: str) -> tuple[str, Sequence[Style]]:
    """The text of a line as it is shown, and how its parts look."""
    if not _UNSEEN.search(raw):
        return raw, ()
    shown, active = _Shown(), dict[str, str]()
    at = 0
    for match in _ESCAPE.finditer(raw):
        shown.add(raw[at : match.start()], active)
        at = match.end()
        if match[1] is not None:
            _change(active, match[1])
    shown.add(raw[at:], active)
    return "".join(shown.parts), shown.styles


def moved(styles: Sequence[Style], start: int, length: int) -> Sequence[Style]:
    """The styles of a part of the text."""
    if not styles:
        return styles
    cut = [(max(0, first - start), min(length, end - start), names) for first, end, names in styles]
    return [style for style in cut if style[0] < style[1]]


class _Shown:
    """What stands on the line so far."""

    def __init__(self) -> None:
        self.parts, self.styles = list[str](), list[Style]()
        self._length = 0

    def add(self, part: str, active: dict[str, str]) -> None:
        """Write a part; backspaces in it take back what is there."""
        at = 0
        for back in _BACK.finditer(part):
            self._append(_written_out(part[at : back.start()]), active)
            self._take_back(len(back[0]))
            at = back.end()
        self._append(_written_out(part[at:]), active)

    def _append(self, text: str, active: dict[str, str]) -> None:
        if text:
            if active:
                self.styles.append((self._length, self._length + len(text), " ".join(active.values())))
            self.parts.append(text)
            self._length += len(text)

    def _take_back(self, count: int) -> None:
        self._length = max(0, self._length - count)
        while count > 0 and self.parts:
            last = self.parts.pop()
            if len(last) > count:
                self.parts.append(last[:-count])
            count -= len(last)
        while self.styles and self.styles[-1][1] > self._length:
            start, _end, names = self.styles.pop()
            if start < self._length:
                self.styles.append((start, self._length, names))


def _written_out(part: str) -> str:
    return _UNSEEN.sub(_picture, part)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def _change(active: dict[str, str], parameters: str) -> None:
    """Take the numbers of one SGR sequence into account. An unknown one changes nothing."""
    numbers = [int(number[:4]) if number else 0 for number in re.split("[;:]", parameters)]
    while numbers:
        number = numbers.pop(0)
        if number == 0:
            active.clear()
        elif number in _ATTRIBUTES:
            active[_ATTRIBUTES[number]] = _ATTRIBUTES[number]
        elif number in _ENDS:
            for name in _ENDS[number]:
                active.pop(name, None)
        elif number in (38, 48):
            _colour(active, "" if number == 38 else "on-", _many(numbers))
        elif number in (39, 49):
            active.pop("" if number == 39 else "on-", None)
        elif number < 108 and 30 <= number % 60 <= 37:
            _colour(active, "", number % 10)
        elif number < 108 and 40 <= number % 60 <= 47:
            _colour(active, "on-", number % 10)


def _colour(active: dict[str, str], ground: str, hue: int | None) -> None:
    if hue is not None:
        active[ground] = ground + HUES[hue]


def _many(numbers: list[int]) -> int | None:
    """The hue nearest to one of 256 colours (`5;n`) or of all of them (`2;r;g;b`); takes what it reads."""
    match numbers:
        case [5, number, *rest]:
            numbers[:] = rest
            return number % 8 if number < 16 else _nearest(*_rgb(min(number, 255)))
        case [2, red, green, blue, *rest]:
            numbers[:] = rest
            return _nearest(red, green, blue)
    numbers.clear()
    return None


def _rgb(number: int) -> tuple[int, int, int]:
    """Of the cube of 6 × 6 × 6 colours and the greys after it."""
    if number >= 232:
        return (8 + 10 * (number - 232),) * 3
    cube = number - 16
    red, green, blue = (0 if level == 0 else 55 + 40 * level for level in (cube // 36, cube // 6 % 6, cube % 6))
    return red, green, blue


def _nearest(red: int, green: int, blue: int) -> int:
    """Grey where no channel stands out, else the channels that are more than half as strong as the strongest."""
    strongest, weakest = max(red, green, blue), min(red, green, blue)
    if strongest - weakest < strongest / 4 or strongest < 40:
        return 7 if strongest >= 128 else 0
    middle = (strongest + weakest) / 2
    return (red > middle) + 2 * (green > middle) + 4 * (blue > middle)
