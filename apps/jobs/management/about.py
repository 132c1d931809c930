"""What commands about one job have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts import services as accounts
from apps.accounts.types import Actor
from apps.jobs.models import Job


def asking(user: str) -> Actor:
    """The person by subject or e-mail. Raises CommandError."""
    actor = accounts.actor_named(user)
    if actor is None:
        raise CommandError(f"Nobody is known as {user}; they must have signed in once.")
    return actor


def job_seen(actor: Actor, job_id: str, user: str) -> Job:
    """A job that they may see. Raises CommandError."""
    jobs = Job.objects.visible_to(actor).select_related("tenant", "placement__tenant", "placement__cluster")
    job = jobs.filter(pk=job_id).first()
    if job is None:
        raise CommandError(f"{user} sees no job {job_id}.")
    return job


class JobCommand(BaseCommand):
    """Somebody asks about a job that they may see."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", help="id of the job")
        parser.add_argument("--as", dest="user", required=True, help="subject or e-mail of the person who asks")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = asking(options["user"])
        self.tell(actor, job_seen(actor, options["job"], options["user"]), options)

    @abstractmethod
    def tell(self, actor: Actor, job: Job, options: dict[str, Any]) -> None:
        """Print the answer. Raises CommandError."""
