"""manage.py submit: a job from a file, as its owner, the way the page and REST submit it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts import services as accounts
from apps.accounts.types import Denied
from apps.jobs import services
from apps.jobs.domain.phases import Phase
from apps.jobs.management.about import asking

MOST_KEY = 255


class Command(BaseCommand):
    help = "Submit a training job from a document (YAML or JSON); with --wait, exit 0 only if it succeeded."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--spec", required=True, help="path of the job document, - for standard input")
        parser.add_argument("--tenant", required=True, help="slug of the tenant")
        parser.add_argument("--as", dest="user", required=True, help="subject or e-mail of the person it belongs to")
        parser.add_argument("--key", default="", help="idempotency key: the same key and document is the same job")
        parser.add_argument("--wait", action="store_true", help="return only when the job has ended")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        document = read_document(options["spec"])
        if len(options["key"]) > MOST_KEY:
            raise CommandError(f"--key may have at most {MOST_KEY} characters.", returncode=2)
        actor = asking(options["user"])
        tenant = accounts.tenant_of(actor, options["tenant"])
        if tenant is None:
            raise CommandError(f"{options['user']} is in no tenant called {options['tenant']}.")
        try:
            job = services.submit(actor, tenant_id=tenant.pk, document=document, key=options["key"])
        except services.InvalidDocument as invalid:
            lines = [f"{problem.field or 'document'}: {services.problem_text(problem)}" for problem in invalid.problems]
            raise CommandError("\n".join(lines), returncode=2) from invalid
        except Denied as denied:
            raise CommandError(str(denied.reason), returncode=3) from denied
        except services.KeyReused as reused:
            raise CommandError(
                "--key was used for another document before. Choose a new one.", returncode=2
            ) from reused
        if options["wait"]:
            self._wait(job, quiet=options["json"])
        self._print(job, as_json=options["json"])
        if options["wait"] and job.state is not Phase.SUCCEEDED:
            raise SystemExit(1)

    def _wait(self, job: services.Job, *, quiet: bool) -> None:
        said = ""
        while not job.state.is_final:
            if job.phase != said and not quiet:
                self.stderr.write(job.phase)
            said = job.phase
            time.sleep(0.5)
            job.refresh_from_db()

    def _print(self, job: services.Job, *, as_json: bool) -> None:
        if as_json:
            answer = {"id": job.pk, "name": job.name, "phase": job.phase, "attempt": job.attempt, "gpus": job.gpus}
            self.stdout.write(json.dumps(answer, ensure_ascii=False))
        else:
            self.stdout.write(f"{job.pk} {job.name}: {job.phase}")


def read_document(path: str) -> dict[str, Any]:
    """A job document from a file. Raises CommandError with what is wrong with it."""
    try:
        text = Path("/dev/stdin" if path == "-" else path).read_text()
        documents = list(yaml.safe_load_all(text))
    except (OSError, yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2026-13-45, bytes of no text
        raise CommandError(f"{path}: {error}") from error
    except RecursionError as error:
        raise CommandError(f"{path} is nested too deeply.") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise CommandError(f"{path} must hold exactly one mapping of field to value.")
    return {str(key): value for key, value in documents[0].items()}
