"""manage.py why: why a job waits, as its page and REST tell it."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandParser

from apps.accounts.types import Actor
from apps.jobs import services
from apps.jobs.management.about import JobCommand
from apps.jobs.models import Job
from apps.jobs.services.messages import amount_text
from apps.jobs.services.why import told_plainly


class Command(JobCommand):
    help = "Tell why a job has no place yet: what is in the way, by resource, and what would release it."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object, the one of REST")

    def tell(self, actor: Actor, job: Job, options: dict[str, Any]) -> None:
        told = told_plainly(services.why(actor, job))
        if options["json"]:
            self.stdout.write(json.dumps(told, ensure_ascii=False))
        elif not told["waiting"]:
            self.stdout.write(f"{job.name}: {job.phase}")
        else:
            self._print(told)

    def _print(self, told: dict[str, Any]) -> None:
        for sentence in told["reasons"]:
            self.stdout.write(sentence)
        for sentence in told["releases"]:
            self.stdout.write(f"  -> {sentence}")
        rows = [(account["queue"], line) for account in told["queues"] for line in account["lines"]]
        for place, line in [*rows, ("nodes", told["nodes"])]:
            named = ("asked", "used", "promised", "deserved", "limit", "free", "short")
            parts = [f"{key} {amount_text(line['resource'], line[key])}" for key in named if line[key]]
            self.stdout.write(f"{place}: {', '.join(parts)}")
        for holder in told["holders"]:
            self.stdout.write(f"held by {holder['job']} {holder['name']}: {holder['gpus']}")
        if told["told"]:
            self.stdout.write(f"the scheduler: {told['told']}")
