"""What REST endpoints of several apps answer in the same words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests import factories
from tests.factories import World
from tests.pages import browser
from tests.serving import made

POOL = {"cluster": "train-a", "resource": "nvidia.com/gpu", "amount": "8"}


@pytest.fixture(params=["jobs", "quota-requests", "deployments"])
def endpoint(request: pytest.FixtureRequest, world: World) -> tuple[str, dict[str, Any]]:
    """One that makes something, with a body that it takes."""
    times = {"starts_at": timezone.now().isoformat(), "ends_at": (timezone.now() + timedelta(days=2)).isoformat()}
    bodies: dict[str, dict[str, Any]] = {
        "jobs": {"tenant": "nlp", "document": factories.DOCUMENT},
        "quota-requests": {"tenant": "nlp", "amounts": [POOL], "reason": "Because.", **times},
        "deployments": {
            "tenant": "nlp", "version": made.version(world.scientist, world.place).pk, "name": "chat",
            "shape": "1-small", "replicas": 1,
        },
    }  # fmt: skip
    return f"/api/v1/{request.param}", bodies[request.param]


def test_a_key_as_long_as_told_is_taken_and_one_too_long_is_refused(
    world: World, endpoint: tuple[str, dict[str, Any]]
) -> None:
    path, body = endpoint
    client = browser(world.scientist)

    def send(key: str) -> Any:
        return client.post(path, body, content_type="application/json", headers={"Idempotency-Key": key})

    refused = send("k" * 256)
    assert (refused.status_code, list(refused.json()["errors"])) == (400, ["Idempotency-Key"])
    first, again = send("k" * 200), send("k" * 200)
    assert (first.status_code // 100, first.json()["id"]) == (2, again.json()["id"])


def test_somebody_elses_tenant_is_no_tenant(world: World, endpoint: tuple[str, dict[str, Any]]) -> None:
    path, body = endpoint
    answer = browser(world.scientist).post(path, {**body, "tenant": "vision"}, content_type="application/json")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["tenant"])
