"""manage.py causes: why a job failed, as its page and REST tell it."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts import services as accounts
from apps.jobs.models import Job
from apps.jobs.services.failing import causes_of, told_plainly


class Command(BaseCommand):
    help = "Tell what a failed job's end is put down to, by its last log lines and its ranks' ends, and what to do."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", help="id of the job")
        parser.add_argument("--as", dest="user", required=True, help="subject or e-mail of the person who asks")
        parser.add_argument("--json", action="store_true", help="print a JSON list, the one of REST")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = accounts.actor_named(options["user"])
        if actor is None:
            raise CommandError(f"Nobody is known as {options['user']}; they must have signed in once.")
        job = Job.objects.visible_to(actor).filter(pk=options["job"]).first()
        if job is None:
            raise CommandError(f"{options['user']} sees no job {options['job']}.")
        found = causes_of(job)
        if options["json"]:
            self.stdout.write(json.dumps(told_plainly(found), ensure_ascii=False))
            return
        for told in found:
            self.stdout.write(" ".join(filter(None, (told.text, told.where and f"({told.where})"))))
            self.stdout.write(f"  -> {told.advice}")
        if not found:
            self.stdout.write(f"{job.name}: {job.phase}")
