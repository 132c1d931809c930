"""manage.py why: why a job waits, as its page and REST tell it."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts import services as accounts
from apps.jobs import services
from apps.jobs.models import Job
from apps.jobs.services.messages import amount_text
from apps.jobs.services.why import told_plainly


class Command(BaseCommand):
    help = "Tell why a job has no place yet: what is in the way, by resource, and what would release it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", help="id of the job")
        parser.add_argument("--as", dest="user", required=True, help="subject or e-mail of the person who asks")
        parser.add_argument("--json", action="store_true", help="print one JSON object, the one of REST")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = accounts.actor_named(options["user"])
        if actor is None:
            raise CommandError(f"Nobody is known as {options['user']}; they must have signed in once.")
        visible = Job.objects.visible_to(actor).select_related("tenant", "placement__tenant", "placement__cluster")
        job = visible.filter(pk=options["job"]).first()
        if job is None:
            raise CommandError(f"{options['user']} sees no job {options['job']}.")
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
