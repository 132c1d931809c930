"""manage.py parse_log: what the portal reads from a training log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters import services as clusters
from apps.jobs.domain.traininglog import LogReader
from apps.jobs.domain.traininglog.formats import Format
from apps.jobs.services.readers import stored
from apps.streams import services as streams

CHUNK = 1 << 20
SHORT = {"learning_rate": "lr"}


@dataclass
class Parsed:
    """`points` by step, as they come: of a step that is told twice the first figures stay."""

    lines: int = 0
    points: dict[int, dict[str, float]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    levels: dict[str, int] = field(default_factory=dict)


class Command(BaseCommand):
    help = "Read a training log as the portal does, and print its points and what went wrong."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="path of the log, - for standard input")
        parser.add_argument("--json", action="store_true", help="one JSON object: lines, points, events, levels")
        parser.add_argument("--readers", action="store_true", help="by the readers in the database too")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with ExitStack() as stack:
                named = options["file"] != "-"
                file = stack.enter_context(Path(options["file"]).open("rb")) if named else sys.stdin.buffer
                more = tuple(stored().values()) if options["readers"] else ()
                parsed = parse(iter(partial(file.read, CHUNK), b""), more)
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}", returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(_document(parsed), allow_nan=False))
        else:
            self.stdout.writelines(_told(parsed))


def parse(chunks: Iterable[bytes], more: Sequence[Format] = ()) -> Parsed:
    """`more` are forms besides our own."""
    parsed, reader = Parsed(), LogReader(lambda: more)
    for line in clusters.read_lines(chunks):
        parsed.lines += 1
        if line.level:
            parsed.levels[line.level] = parsed.levels.get(line.level, 0) + 1
        told = reader.read(line)
        parsed.events += told.events
        if told.step is not None and told.values:
            known = parsed.points.setdefault(told.step, {})
            known |= {series: value for series, value in told.values.items() if series not in known}
    return parsed


def _document(parsed: Parsed) -> dict[str, Any]:
    points = [
        {"step": step, **{SHORT.get(series, series): _plain(value) for series, value in values.items()}}
        for step, values in parsed.points.items()
    ]
    return {"lines": parsed.lines, "points": points, "events": parsed.events, "levels": parsed.levels}


def _plain(value: float) -> float | str:
    """Lower case, as frameworks print what is no number."""
    plain = streams.jsonable(value)
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[plain] if isinstance(plain, str) else plain


def _told(parsed: Parsed) -> Iterator[str]:
    yield f"{parsed.lines} lines, {len(parsed.points)} points, {len(parsed.events)} events"
    for step, values in parsed.points.items():
        yield "  ".join(
            (f"step {step}", *(f"{SHORT.get(series, series)} {value:g}" for series, value in values.items()))
        )
    yield from parsed.events
