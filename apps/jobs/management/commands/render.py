"""manage.py render: the manifests a document would become, without asking anybody."""

from __future__ import annotations

from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.services.catalogue import default_resource
from apps.jobs import services
from apps.jobs.domain.manifests import Place
from apps.jobs.management.commands.submit import read_document
from apps.jobs.services.reading import render_document


class Command(BaseCommand):
    help = "Print the manifests of a job document as YAML. Nothing is sent and nothing is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--spec", required=True, help="path of the job document, - for standard input")
        parser.add_argument("--namespace", default="tenant-example")
        parser.add_argument("--queue", default="tenant-example")
        parser.add_argument("--accelerator", default=default_resource())

    def handle(self, *args: Any, **options: Any) -> None:
        place = Place(options["namespace"], options["queue"], options["namespace"], options["accelerator"])
        try:
            manifests = render_document(read_document(options["spec"]), place)
        except services.InvalidDocument as invalid:
            lines = [f"{problem.field or 'document'}: {services.problem_text(problem)}" for problem in invalid.problems]
            raise CommandError("\n".join(lines), returncode=2) from invalid
        self.stdout.write(yaml.safe_dump_all(manifests, sort_keys=False, allow_unicode=True))
