"""manage.py points: the curves of a job, drawn or as a table, as REST gives them."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from apps.accounts.types import Actor
from apps.jobs.management.about import JobCommand
from apps.jobs.models import Job
from apps.jobs.services.curves import as_csv, series_of
from apps.streams import services as streams


class Command(JobCommand):
    help = "Print the points of a job: every one as CSV, or a stretch of a series in so many columns as JSON."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--series", action="append", default=[], help="which (default: all; with --json loss)")
        parser.add_argument("--from", dest="start", type=int, help="the first step")
        parser.add_argument("--to", dest="stop", type=int, help="the last step, included")
        parser.add_argument("--width", type=int, default=1000, help="with --json: in how many columns (1 to 10000)")
        parser.add_argument("--list", action="store_true", help="only the series there are")
        parser.add_argument("--json", action="store_true", help="one JSON object, the one of REST")

    def tell(self, actor: Actor, job: Job, options: dict[str, Any]) -> None:
        start, stop = options["start"] or 0, options["stop"]
        if not all(0 <= step <= streams.STEP_LIMIT for step in (start, stop or 0)):
            raise CommandError(f"--from and --to must be from 0 to {streams.STEP_LIMIT}.", returncode=2)
        if options["list"]:
            for one in series_of(job):
                self.stdout.write(f"{one.name}  {one.points} points  attempts {', '.join(map(str, one.attempts))}")
        elif options["json"]:
            if not 1 <= options["width"] <= 10_000:
                raise CommandError("--width must be from 1 to 10000.", returncode=2)
            stretch = streams.Stretch(options["start"], stop, options["width"])
            name = options["series"][0] if options["series"] else "loss"
            self.stdout.write(json.dumps({"attempts": streams.series(job.topic, name, stretch)}, allow_nan=False))
        else:
            told = streams.told(job.topic, options["series"], start, streams.STEP_LIMIT if stop is None else stop)
            for piece in as_csv(told):
                self.stdout.write(piece.decode(), ending="")
