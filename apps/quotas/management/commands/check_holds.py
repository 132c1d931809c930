"""manage.py check_holds: whether what is held is what lives."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.quotas import services


class Command(BaseCommand):
    help = "Compare every hold with live work. Exit 1 with each difference."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON list of the differences")

    def handle(self, *args: Any, **options: Any) -> None:
        found = services.check()
        if options["json"]:
            self.stdout.write(json.dumps([asdict(one) for one in found], ensure_ascii=False))
        else:
            for one in found:
                self.stdout.write(f"{one.what}: {one.about} ({one.amount})")
            self.stdout.write(f"{len(found)} differences between holds and live work.")
        if found:
            raise SystemExit(1)
