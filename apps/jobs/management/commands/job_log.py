"""manage.py job_log: a job's kept log, as its page and REST give it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.http import QueryDict

from apps.accounts.types import Actor
from apps.jobs.management.about import JobCommand
from apps.jobs.models import Job
from apps.streams import services as streams


class Command(JobCommand):
    help = "Print the kept log of a job, or the lines of it that a pattern is found in."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--grep", dest="q", default="", help="lines that this regular expression (RE2) fits")
        parser.add_argument("--rank", action="append", default=[], help="lines of this rank; may be given again")
        parser.add_argument("--level", default="", help="lines of this level or worse: debug, info, warn, error")
        parser.add_argument("--attempt", default="", help="lines of this attempt")
        parser.add_argument("--since", default="", help="lines of this moment or later, as 2026-03-02T08:00:00Z")
        parser.add_argument("--until", default="", help="lines before this moment")
        parser.add_argument("--from", default="", help="the first line, by number")
        parser.add_argument("--to", default="", help="the last line, by number")

    def tell(self, actor: Actor, job: Job, options: dict[str, Any]) -> None:
        params = QueryDict(mutable=True)
        for name in ("q", "level", "attempt", "since", "until", "from", "to"):
            params[name] = options[name]
        params["regex"] = "1"
        params.setlist("rank", options["rank"])
        try:
            for piece in streams.text(job.topic, streams.text_range(params)):
                self.stdout.write(piece.decode(), ending="")
        except streams.BadQuestion as bad:
            said = [f"{name}: {text}" for name, texts in bad.errors.items() for text in texts]
            raise CommandError("\n".join(said), returncode=2) from bad
