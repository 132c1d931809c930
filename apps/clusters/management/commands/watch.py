from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from django.core.management.base import BaseCommand, CommandError

from apps.clusters.services.lease import LeaseLost
from apps.clusters.watch.process import watch


class Command(BaseCommand):
    help = "Watches all clusters, follows logs and wakes rows that are due. Any number may run; one at a time works."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            uvloop.run(watch())
        except asyncio.CancelledError:
            return
        except LeaseLost as error:
            raise CommandError("The lease was lost; start again.") from error
