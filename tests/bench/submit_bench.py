"""From the portal's 202 to the object in the cluster, against `kubectl create` of the same manifests in a loop."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from apps.localcluster.client import Kubeconfig
from deploy.local.testing import RunningDemo, clean_env, demo
from tests.bench.figure import Figure

ROUNDS = 15
DOCUMENT = {"template": "command", "image": "maas/shell:1", "command": "true", "name": "bench", "ranks": 1}
KUBECTL = Path(sys.executable).parent / "kubectl"

TOKEN = """
from django.conf import settings
from apps.accounts.models import Membership, Tenant, User
from apps.accounts.services import create_token
user, _ = User.objects.get_or_create(iss=settings.OIDC_ISSUER, sub="bench", defaults={"name": "Bench"})
Membership.objects.get_or_create(user=user, tenant=Tenant.objects.get(slug="nlp"), defaults={"role": "data-scientist"})
print(create_token(user.actor(), name="bench", days=1, read_only=False))
"""


def figures() -> Iterator[Figure]:
    with demo() as running:
        token = running.manage("shell", "-v0", "-c", TOKEN).strip().splitlines()[-1]
        config = Kubeconfig.load(running.kubeconfig)
        ours: list[float] = []
        theirs: list[float] = []
        for turn in range(ROUNDS + 2):
            taken = {"ours": _portal(running, token, config), "theirs": _kubectl(running, turn)}
            if turn >= 2:
                ours.append(taken["ours"])
                theirs.append(taken["theirs"])
        yield Figure("submit", statistics.median(ours), "ms", statistics.median(theirs), 1.0)


def _portal(running: RunningDemo, token: str, config: Kubeconfig) -> float:
    """Milliseconds from the 202 until the API server shows the Job."""
    body = json.dumps({"tenant": "nlp", "document": DOCUMENT}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{running.url}/api/v1/jobs", body, headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        job_id = json.load(answer)["id"]
    start = time.perf_counter()
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/tenant-nlp/jobs/j-{job_id.lower()}"
    while not _exists(config, path):
        if time.perf_counter() - start > 30:
            raise RuntimeError(f"{job_id} did not reach the cluster")
        time.sleep(0.002)
    return (time.perf_counter() - start) * 1000


def _exists(config: Kubeconfig, path: str) -> bool:
    request = urllib.request.Request(config.server + path, headers={"Authorization": f"Bearer {config.token}"})
    context = config.verify if not isinstance(config.verify, bool) else None
    try:
        with urllib.request.urlopen(request, timeout=5, context=context):
            return True
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False


def _kubectl(running: RunningDemo, turn: int) -> float:
    """Milliseconds of one `kubectl create` of the two objects the portal applies."""
    manifests = subprocess.run(
        [sys.executable, "manage.py", "render", "--spec", "-", "--namespace", "tenant-nlp", "--queue", "tenant-nlp"],
        input=json.dumps(DOCUMENT), env={**clean_env(), **running.env()}, capture_output=True, text=True, check=True,
    ).stdout.replace("j-" + "0" * 26, f"bench-{turn}").replace("0" * 26, f"bench-{turn}")  # fmt: skip
    command = [str(KUBECTL), "--kubeconfig", str(running.kubeconfig), "create", "--validate=false", "-f", "-"]
    start = time.perf_counter()
    result = subprocess.run(command, input=manifests, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr)
    return (time.perf_counter() - start) * 1000
