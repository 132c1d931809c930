"""A watch that goes well lists nothing twice but for its comparison: told by kube-apiserver's own audit log."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from apps.adapters.kubernetes import Endpoint, objects
from apps.clusters.models import Cluster
from apps.clusters.services import workloads
from apps.clusters.watch import cluster as watching
from apps.clusters.watch.cluster import ClusterWatch
from apps.clusters.watch.queues import HYPERNODE, NUMATOPOLOGY
from apps.clusters.watch.wakes import Wakes
from apps.streams.services import LiveBuffer
from deploy.testbed import SERVER_ONLY, ControlPlane, control_plane

QUIET_SECONDS = int(os.environ.get("MAAS_QUIET_SECONDS", "70"))
"""Longer than a watch lasts, so that each is opened anew; by hand 300."""
NAMESPACE = "/api/v1/namespaces/default"
ANSWERED = {"list": "ResponseComplete", "watch": "ResponseStarted"}


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def plane(tmp_path: Path, audit: Path) -> Iterator[ControlPlane]:
    policy = tmp_path / "policy.yaml"
    policy.write_text('{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}')
    flags = {"kube-apiserver": (f"--audit-policy-file={policy}", f"--audit-log-path={audit}")}
    with control_plane(tmp_path / "plane", replace(SERVER_ONLY, crds=("volcano",), flags=flags)) as one:
        yield one


def asked(audit: Path, verb: str) -> Counter[str]:
    """How often the portal was given each collection with this verb. (A kind just installed is refused for a moment.)"""
    events = map(json.loads, audit.read_text().splitlines())
    return Counter(
        urlsplit(event["requestURI"]).path
        for event in events
        if event["userAgent"] == objects.FIELD_MANAGER
        and (event["verb"], event["stage"]) == (verb, ANSWERED[verb])
        and event["responseStatus"]["code"] == 200
    )


async def churn(endpoint: Endpoint, seconds: float) -> int:
    """Pods come, change five times a second and go; how often one changed."""
    headers = {"Authorization": f"Bearer {endpoint.token_source()}"}
    changes, end = 0, time.monotonic() + seconds
    async with httpx.AsyncClient(
        base_url=endpoint.server, verify=endpoint.tls() or False, headers=headers, trust_env=False, timeout=30
    ) as http:
        await http.post(f"{NAMESPACE}/serviceaccounts", json={"metadata": {"name": "default"}})
        while time.monotonic() < end:
            name = f"p-{changes // 10}"
            (await http.post(f"{NAMESPACE}/pods", json=pod(name))).raise_for_status()
            for turn in range(9):
                await asyncio.sleep(0.2)
                patch = {"metadata": {"labels": {"turn": str(turn)}}}
                merge = {"Content-Type": "application/merge-patch+json"}
                (await http.patch(f"{NAMESPACE}/pods/{name}", json=patch, headers=merge)).raise_for_status()
            await http.delete(f"{NAMESPACE}/pods/{name}", params={"gracePeriodSeconds": "0"})
            changes += 10
    return changes


async def settled(endpoint: Endpoint, paths: Iterable[str]) -> None:
    """The server keeps up every collection: a kind just installed ends the first watches, as its cache begins later."""
    headers = {"Authorization": f"Bearer {endpoint.token_source()}"}
    async with httpx.AsyncClient(
        base_url=endpoint.server, verify=endpoint.tls() or False, headers=headers, trust_env=False, timeout=30
    ) as http:

        async def one(path: str) -> None:
            while True:
                listed = await http.get(path)
                if listed.status_code == 200:
                    since = {"watch": "true", "resourceVersion": listed.json()["metadata"]["resourceVersion"]}
                    if '"ERROR"' not in (await http.get(path, params={**since, "timeoutSeconds": "1"})).text:
                        return
                await asyncio.sleep(0.2)

        await asyncio.gather(*map(one, paths))


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "i"}], "automountServiceAccountToken": False}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.django_db(transaction=True)
async def test_nothing_is_listed_twice_but_by_the_comparison(
    plane: ControlPlane, audit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One comparison falls into the time; and each watch ends by itself at least once, and is opened anew."""
    # It takes a second for each collection, and must be over before those watches end that began at the same time.
    monkeypatch.setattr(watching, "COMPARE_SECONDS", 0.51 * QUIET_SECONDS)
    monkeypatch.setattr("apps.clusters.watch.reflect.LATE_SECONDS", 1.0)
    row = await Cluster.objects.acreate(slug="real", name="Real", server=plane.server)
    token, buffer = plane.token, LiveBuffer()
    endpoint = Endpoint(plane.server, plane.ca_pem, lambda fresh=False: token)
    kinds = [objects.POD, objects.NODE, objects.POD_GROUP, objects.QUEUE, HYPERNODE, NUMATOPOLOGY]
    kept = Counter(map(objects.everywhere, kinds + [objects.KINDS[kind.objects] for kind in workloads()]))
    await settled(endpoint, kept)
    running = asyncio.create_task(ClusterWatch(row.pk, endpoint, Wakes(), buffer).run())
    try:
        assert await churn(endpoint, QUIET_SECONDS) > QUIET_SECONDS
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await buffer.close()
    told = Counter({objects.everywhere(objects.EVENT): 1})  # what is not kept is not compared
    assert asked(audit, "list") == kept + kept + told
    opened, least = asked(audit, "watch"), QUIET_SECONDS // 60 + 1
    assert opened.keys() == (kept + told).keys()
    assert all(opened[path] >= count * least for path, count in (kept + told).items())
