"""manage.py causes: why a job failed, as its page and REST tell it."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.types import Actor
from apps.jobs.management.about import JobCommand
from apps.jobs.models import Job
from apps.jobs.services.failing import causes_of, told_plainly


class Command(JobCommand):
    help = "Tell what a failed job's end is put down to, by its last log lines and its ranks' ends, and what to do."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print a JSON list, the one of REST")

    def tell(self, actor: Actor, job: Job, options: dict[str, Any]) -> None:
        found = causes_of(job)
        if options["json"]:
            self.stdout.write(json.dumps(told_plainly(found), ensure_ascii=False))
            return
        for told in found:
            self.stdout.write(" ".join(filter(None, (told.text, told.where and f"({told.where})"))))
            self.stdout.write(f"  -> {told.advice}")
        if not found:
            self.stdout.write(f"{job.name}: {job.phase}")
