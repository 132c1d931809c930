"""What the way through the gateway, with the portal asked each time, adds to a request to a model server.

Its rival is the smallest question that the portal can be asked, /healthz.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from apps.adapters.gateway import Backend, Endpoint, Gateway, Route
from deploy.local.gateway import HOSTS
from deploy.local.stack import TREE
from deploy.local.testing import RunningDemo, demo
from tests.bench.figure import Figure

ROUNDS = 200
ASKED = {"model": "bench", "messages": [{"role": "user", "content": "The old sailor"}], "max_tokens": 1}

DEPLOYMENT = """
from django.conf import settings
from apps.accounts.models import Membership, User
from apps.catalog.models import ModelVersion, RegisteredModel
from apps.serving import services
from apps.tenants.models import Placement
place = Placement.objects.get(tenant__slug="nlp")
user, _ = User.objects.get_or_create(iss=settings.OIDC_ISSUER, sub="bench", defaults={"name": "Bench"})
Membership.objects.get_or_create(user=user, tenant=place.tenant, defaults={"role": "data-scientist"})
model = RegisteredModel.objects.create(tenant=place.tenant, name="bench", licence="none", created_by=user)
facts = {"format": "charlm", "parameters": 1, "bytes": 1, "context": 12}
version = ModelVersion.objects.create(
    model=model, tenant=place.tenant, number=1, author=user, facts=facts, files="ready")
request = services.Request(place.tenant_id, version.pk, "bench", "1-small")
made = services.deploy(user.actor(), request=request)
_row, key = services.make_key(user.actor(), deployment=made, name="bench", rate=10000)
print(made.pk, services.address_of(made, settings.GATEWAY_URL), key)
"""


def figures() -> Iterator[Figure]:
    # Without a worker, which would take the deployment to the cluster: the route leads to a server beside it.
    with model_server() as endpoint, demo(None, "--without", "worker,watch,volcano,nodeagent") as running:
        deployment, address, key = running.manage("shell", "-v0", "-c", DEPLOYMENT).split()[-3:]
        lead(running, Route(deployment, address_path(address), (Backend("v1", 1, (endpoint,)),)))
        with httpx.Client(timeout=10, trust_env=False) as client:
            through = asking(client, address, key)
            while through() != 200:
                time.sleep(0.1)
            straight = asking(client, f"http://{endpoint.ip}:{endpoint.port}/v1", key)
            asks = (through, straight, lambda: client.get(f"{running.url}/healthz").status_code)
            rounds = [[taken(ask) for ask in asks] for _ in range(ROUNDS)]
        way, straight_way, healthz = map(statistics.median, zip(*rounds, strict=True))
        yield Figure("gateway-adds", way - straight_way, "ms", healthz, 2.0)


def taken(ask: Callable[[], int]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    assert ask() == 200
    return (time.perf_counter() - start) * 1e3


def asking(client: httpx.Client, address: str, key: str) -> Callable[[], int]:
    headers = {"Authorization": f"Bearer {key}"}
    return lambda: client.post(f"{address}/chat/completions", json=ASKED, headers=headers).status_code


def address_path(address: str) -> str:
    return httpx.URL(address).path.removesuffix("/v1")


def lead(running: RunningDemo, route: Route) -> None:
    Gateway(Path(running.env()["MAAS_GATEWAY_DIR"]), HOSTS).write([route])


@contextmanager
def model_server() -> Iterator[Endpoint]:
    """charlm with a checkpoint of a few steps."""
    with tempfile.TemporaryDirectory() as folder:
        charlm = [sys.executable, "-m", "deploy.workloads.charlm"]
        training = [*charlm, "--steps", "20", "--checkpoint-dir", folder]
        subprocess.run(training, cwd=TREE, check=True, stdout=subprocess.DEVNULL)
        serving = [sys.executable, "-m", "deploy.workloads.charlm.serve", "--checkpoint", folder, "--name", "bench"]
        with subprocess.Popen([*serving, "--port", "0"], cwd=TREE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            found = re.search(r"on 127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert found, "it says where it listens"
            yield Endpoint("127.0.0.1", int(found[1]))
            process.kill()
