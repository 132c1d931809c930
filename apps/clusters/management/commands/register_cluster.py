from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.types import Actor
from apps.adapters.errors import OutsideError
from apps.clusters.services.connect import register
from apps.clusters.services.registration import Registration


class Command(BaseCommand):
    help = "Registers a cluster, or changes its address; stores its token in the secrets server."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--slug", required=True, help="short name in addresses, such as train-a; never changes")
        parser.add_argument("--name", help="name for people (default: the slug)")
        parser.add_argument("--server", required=True, help="https://host:port of the API server")
        parser.add_argument("--ca-file", type=Path, help="PEM file of the authority that signed its certificate")
        parser.add_argument("--token-file", type=Path, required=True, help="file with the service account's token")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            ca_pem = options["ca_file"].read_text() if options["ca_file"] else ""
            token = options["token_file"].read_text()
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
        registration = Registration(options["slug"], options["name"] or options["slug"], options["server"], ca_pem)
        try:
            cluster = register(Actor.system("register_cluster"), registration, token)
        except ValidationError as error:
            raise CommandError("; ".join(error.messages)) from error
        except OutsideError as error:
            raise CommandError(f"The token could not be stored: {error.text}") from error
        self.stdout.write(f"{cluster.slug}: registered at {cluster.server}")
