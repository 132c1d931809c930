from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.types import Actor
from apps.adapters.errors import OutsideError
from apps.clusters import services
from apps.clusters.reconcile.look import Asked, look
from apps.clusters.services import words
from apps.clusters.services.checking import Findings
from apps.clusters.services.connect import register
from apps.clusters.services.registration import Registration


class Command(BaseCommand):
    help = (
        "Registers a cluster, or changes its address and token, once both were checked. "
        "The token is stored in the secrets server."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--slug", required=True, help="short name in addresses, such as train-a; never changes")
        parser.add_argument("--name", help="name for people (default: the slug)")
        parser.add_argument("--server", required=True, help="https://host:port of the API server")
        parser.add_argument("--ca-file", type=Path, help="PEM file of the authority that signed its certificate")
        parser.add_argument("--token-file", type=Path, required=True, help="file with the service account's token")
        parser.add_argument("--unchecked", action="store_true", help="use it at once; a worker looks at it later")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            ca_pem = options["ca_file"].read_text() if options["ca_file"] else ""
            token = options["token_file"].read_text()
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise CommandError("A file given is no text: a PEM file and a file with a token are needed.") from error
        registration = Registration(options["slug"], options["name"] or options["slug"], options["server"], ca_pem)
        if not options["unchecked"]:
            self._check(registration, token.strip())
        try:
            cluster = register(Actor.system("register_cluster"), registration, token)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        except OutsideError as error:
            raise CommandError(f"The token could not be stored: {error.text}") from error
        self.stdout.write(f"{cluster.slug}: registered at {cluster.server}")

    def _check(self, registration: Registration, token: str) -> None:
        """Say what was found; raise CommandError where the portal could not work there."""
        rows = services.for_system()
        known = rows.filter(slug=registration.slug).first()
        others = dict(rows.used().exclude(slug=registration.slug).values_list("uid", "name"))
        try:
            registration.check()
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        asked = Asked(registration.address, registration.ca_pem, token, known.uid if known else "", others)
        findings: Findings = look(asked)
        for check in findings.checks:
            self.stdout.write(f"{check.state:8} {words.TITLES[check.key]}: {words.check_text(check)}")
        if not findings.passes:
            raise CommandError("Nothing was changed. Mend what failed, or pass --unchecked.")
