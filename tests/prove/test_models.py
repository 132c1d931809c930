"""From a real job to a model: its checkpoint is brought by a pod of the cluster, and every byte is what the job wrote."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.prove import stack as kit
from tests.prove.browser import desk
from tests.prove.stack import Rest, Stack, charlm, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]

KEY = os.urandom(4).hex()


def register(rest: Rest, job_id: str, **said: Any) -> dict[str, Any]:
    answer = rest.http.post(f"jobs/{job_id}/register", json=said, headers={"Idempotency-Key": f"{KEY}-{job_id}"})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def await_files(rest: Rest, version: dict[str, Any], *states: str, seconds: float = 60) -> dict[str, Any]:
    path = f"models/{version['model']}/versions/{version['number']}"
    return (
        until(lambda: found if (found := rest.get(path))["files"] in states else None, seconds, what=f"{states}") or {}
    )


@pytest.fixture(scope="module")
def registered(stack: Stack) -> dict[str, Any]:
    """Version 1, registered from a job that goes on training meanwhile."""
    rest = stack.rest()
    job_id = rest.submit(charlm(f"harbour {KEY}", steps=6000, checkpoint_every=20))
    rest.await_phase(job_id, "running")
    early = rest.http.post(f"jobs/{job_id}/register", json={"name": "too soon", "licence": "MIT"})
    until(lambda: max(rest.points(job_id).get(1, {0: 0})) >= 45, 60, what="a checkpoint is written")
    first = register(rest, job_id, name=f"港口 {KEY}", licence="Apache-2.0", visibility="public", card="# 港口")
    assert register(rest, job_id, name=f"港口 {KEY}", licence="Apache-2.0") == first, "the same key, the same version"
    return {**await_files(rest, first, "ready", "failed"), "job": job_id, "early": early.status_code}


def test_a_running_jobs_checkpoint_becomes_version_1(registered: dict[str, Any], stack: Stack) -> None:
    assert registered["files"] == "ready", registered["transfer"]
    facts, lineage = registered["facts"], registered["lineage"]
    assert (facts["format"], facts["dtypes"], facts["faults"]) == ("charlm", {"F64": facts["parameters"]}, [])
    assert facts["step"] == lineage["checkpoint"]["step"] >= 40
    assert lineage["job"]["id"] == registered["job"]
    assert lineage["code"]["image"] == "maas/charlm:1"
    assert len(lineage["data"]["digest"]) == 64
    assert lineage["metrics"]["loss"]["last"] < lineage["metrics"]["loss"]["first"]
    assert lineage["parameters"]["checkpoint_every"] == 20


def test_every_file_has_the_digest_it_is_kept_under(registered: dict[str, Any], stack: Stack) -> None:
    rest = stack.rest()
    base = f"models/{registered['model']}/versions/{registered['number']}/files"
    files = rest.get(base)
    assert [file["path"] for file in files] == ["manifest.json", "shard-0-of-2.npy", "shard-1-of-2.npy"]
    for file in files:
        answer = rest.http.get(f"{base}/{file['path']}")
        assert (answer.status_code, len(answer.content)) == (200, file["size"])
        assert hashlib.sha256(answer.content).hexdigest() == file["sha256"]
    cut = rest.http.get(f"{base}/manifest.json", headers={"Range": "bytes=2-"})
    assert (cut.status_code, int(cut.headers["content-length"])) == (206, files[0]["size"] - 2)


def test_what_brought_the_files_is_taken_away_and_left_no_token(registered: dict[str, Any], stack: Stack) -> None:
    selector = {"labelSelector": "maas.portal/transfer"}
    until(lambda: not stack.cluster.items(stack.cluster.PODS, **selector), 30, what="its pod is gone")
    assert not stack.cluster.items("api/v1/namespaces/tenant-nlp/secrets", **selector)
    assert stack.rows("SELECT count(*) FROM catalog_transfer WHERE token_digest <> '' AND ended_at IS NOT NULL") == [
        (0,)
    ]


def test_it_is_approved_by_somebody_else_and_then_seen_by_others(registered: dict[str, Any], stack: Stack) -> None:
    path = f"models/{registered['model']}/versions/{registered['number']}"
    stranger = stack.rest(kit.STRANGER)
    assert stranger.http.get(path).status_code == 404
    assert stack.rest().http.post(f"{path}/stage", json={"act": "propose"}).json()["stage"] == "candidate"
    assert stack.rest().http.post(f"{path}/stage", json={"act": "approve"}).status_code == 403
    admin = stack.rest(kit.ADMIN)
    assert admin.http.post(f"{path}/stage", json={"act": "approve", "comment": "good"}).json()["stage"] == "approved"
    assert admin.http.post(f"{path}/stage", json={"act": "approve"}).status_code == 409
    assert stranger.get(path)["stage"] == "approved"
    assert [one["name"] for one in stranger.get("models", q=KEY, stage="approved")["results"]] == [f"港口 {KEY}"]
    assert stranger.http.patch(f"models/{registered['model']}", json={"licence": "mine"}).status_code == 403


def test_the_next_version_brings_only_what_is_new_and_stays_when_its_job_is_stopped(
    registered: dict[str, Any], stack: Stack
) -> None:
    rest = stack.rest()
    job_id = rest.submit(charlm(f"next {KEY}", steps=40, checkpoint_every=20))
    rest.await_phase(job_id, "succeeded")
    second = register(rest, job_id, model_id=registered["model"], note="a shorter run")
    assert second["number"] == 2
    assert await_files(rest, second, "ready", "failed")["files"] == "ready"
    rest.act(registered["job"], "stop")
    rest.await_phase(registered["job"], "stopped")
    assert [one["number"] for one in rest.get(f"models/{registered['model']}/versions")["results"]] == [2, 1]


def test_a_job_without_a_checkpoint_says_so_and_may_be_tried_again(registered: dict[str, Any], stack: Stack) -> None:
    assert registered["early"] == 400, "no step that saves has come yet"
    rest = stack.rest()
    document = {"template": "command", "name": f"nothing {KEY}", "image": "maas/shell:1", "command": "true", "ranks": 1}
    job_id = rest.submit(document)
    rest.await_phase(job_id, "succeeded")
    version = await_files(rest, register(rest, job_id, name=f"nothing {KEY}", licence="MIT"), "ready", "failed")
    assert version["files"] == "failed"
    assert "No checkpoint is in the job's volume" in version["transfer"]["text"]
    again = rest.http.post(f"models/{version['model']}/versions/1/again")
    assert again.status_code == 202, again.text
    until(lambda: rest.get(f"models/{version['model']}/versions/1")["files"] == "failed", 60)
    gone = rest.http.delete(f"models/{version['model']}", params={"name": f"nothing {KEY}"})
    assert gone.status_code == 204, gone.text


def test_an_open_page_follows_a_cordon(chrome: Browser, registered: dict[str, Any], stack: Stack) -> None:
    nodes = stack.cluster.items("api/v1/nodes")
    name = next(node["metadata"]["name"] for node in nodes if "nvidia.com/gpu" in node["status"]["allocatable"])

    def cordon(value: bool | None) -> None:
        patch = {"content": json.dumps({"spec": {"unschedulable": value}})}
        kind = {"headers": {"Content-Type": "application/merge-patch+json"}}
        assert stack.cluster.http.patch(f"api/v1/nodes/{name}", **patch, **kind).status_code == 200

    with desk(chrome, stack, kit.SCIENTIST) as scientist:
        page = scientist.page
        page.goto(f"/models/{registered['model']}/?version={registered['number']}")
        places = page.locator("#fits .places .n").first
        before = places.inner_text()
        page.wait_for_function("document.getElementById('offline').hidden")
        cordon(True)
        try:
            expect(places).not_to_have_text(before, timeout=5_000)
        finally:
            cordon(None)
        expect(places).to_have_text(before, timeout=5_000)
