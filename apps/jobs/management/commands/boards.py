"""manage.py boards: TensorBoards of jobs, as the job's page and REST open and end them."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.types import Denied
from apps.jobs.management.about import asking, job_seen
from apps.jobs.models import Job
from apps.jobs.services import boards
from apps.jobs.services.board_words import NONE, board_view


class Command(BaseCommand):
    help = "List the TensorBoards that are open of the jobs that somebody may see, open one of a job, or end it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["list", "open", "end"])
        parser.add_argument("job", nargs="?", default="", help="id of the job, for open and end")
        parser.add_argument("--as", dest="user", required=True, help="subject or e-mail of the person who asks")
        parser.add_argument("--json", action="store_true", help="print a JSON list, one object for each job")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = asking(options["user"])
        if (options["act"] == "list") == bool(options["job"]):
            raise CommandError("Name the job with open and end, and none with list.", returncode=2)
        if options["act"] == "list":
            jobs = [board.job for board in boards.open_boards(actor)]
        else:
            jobs = [job_seen(actor, options["job"], options["user"])]
        try:
            if options["act"] == "open":
                boards.open_board(actor, job=jobs[0])
            elif options["act"] == "end":
                boards.end_board(actor, job=jobs[0])
        except boards.NoBoards as none:
            raise CommandError(str(NONE[none.code]), returncode=2) from none
        except Denied as denied:
            raise CommandError(str(denied.reason), returncode=3) from denied
        self._print(jobs, as_json=options["json"])

    def _print(self, jobs: list[Job], *, as_json: bool) -> None:
        views = [(job, board_view(job)) for job in jobs]
        if as_json:
            told = [{"job": job.pk, "name": job.name, "state": v.state, "reason": v.reason} for job, v in views]
            self.stdout.write(json.dumps(told, ensure_ascii=False))
        else:
            self.stdout.writelines(f"{job.pk} {job.name}: {v.state} {v.reason}".rstrip() + "\n" for job, v in views)
