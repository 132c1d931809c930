"""Lines of a job in its cluster's Loki: as the job's own log, where the cluster has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.http import QueryDict
from django.utils import timezone

from apps.clusters.models import ClusterSource
from apps.jobs.services import elsewhere
from tests import factories
from tests.access import Objects
from tests.factories import World

ROUTES = ("jobs:log-loki", "jobs:log-loki-download", "api:job-log-loki", "api:job-log-loki-text")
LINES = {
    ("jobs:log-loki", "GET"): "            302  404   200   200  200   200  200  404",
    ("jobs:log-loki-download", "GET"): "   302  404   200   200  200   200  200  404",
    ("api:job-log-loki", "GET"): "         401  404   200   200  200   200  200  404",
    ("api:job-log-loki-text", "GET"): "    401  404   200   200  200   200  200  404",
}


def objects(world: World) -> dict[str, Any]:
    job = factories.job(world.scientist, world.place, ended_at=timezone.now())
    job.refresh_from_db()
    ready = {"url": "http://127.0.0.1:1", "state": ClusterSource.State.READY}
    ClusterSource.objects.create(cluster=world.place.cluster, kind="loki", **ready)
    # What a worker has read: nobody waits for one here.
    asked = elsewhere.look_of(job, QueryDict())
    elsewhere.tell(job.pk, json.dumps(asked.to_row()), elsewhere.Answer("read"))
    return {"looked": job}


ARGS: dict[str, Callable[[Objects], list[Any]]] = dict.fromkeys(ROUTES, lambda made: [made["looked"].pk])
BODIES: dict[str, Callable[[Objects], dict[str, Any]]] = {}
