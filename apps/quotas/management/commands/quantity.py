"""manage.py quantity: what a Kubernetes quantity is worth, and the one way to write it."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.quotas.domain.quantity import BadQuantity, parse
from apps.quotas.services.words import BAD_QUANTITY


class Command(BaseCommand):
    help = "Read quantities and print their canonical form and their value in base units. Exit 2 if one is invalid."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON list")
        parser.add_argument("values", nargs="+", metavar="VALUE", help="after --, so that -1 is no option")

    def handle(self, *args: Any, **options: Any) -> None:
        answers, faults = [], []
        for text in options["values"]:
            try:
                found = parse(text)
            except BadQuantity as bad:
                faults.append(f"{text!r} is no quantity: {BAD_QUANTITY[bad.why]}")
            else:
                answers.append({"input": text, "canonical": found.canonical, "base": found.base})
        if faults:
            raise CommandError("\n".join(faults), returncode=2)
        if options["json"]:
            self.stdout.write(json.dumps(answers, ensure_ascii=False))
        else:
            for one in answers:
                self.stdout.write(f"{one['input']} = {one['canonical']} ({one['base']})")
