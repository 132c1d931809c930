"""The same story with something broken at each step: the right answer, nothing lost or doubled, no secret anywhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.canaries import Canaries, redis_dump
from tests.prove.frames import Frames
from tests.prove.stack import ADMIN, SCIENTIST, STRANGER, Stack, until
from tests.prove.story import OPERATOR, TENANT, Story, now

pytestmark = [pytest.mark.prove, pytest.mark.timeout(420)]

AWAY = 30.0
"""Seconds that a cluster is away: longer than any of our timeouts."""


@pytest.fixture(scope="module")
def began() -> str:
    return now()


@pytest.fixture(scope="module")
def story(stack: Stack, began: str) -> Story:
    stack.await_all()
    one = Story(stack)
    if not one.seen(OPERATOR, f"tenants/{TENANT}"):
        one.begin_tenant()
    one.await_tenant()
    one.sign_in_again()
    return one


@pytest.fixture(scope="module")
def frames(stack: Stack) -> Iterator[Frames]:
    """What the scientist's open pages are told, from before the secret is entered to the end."""
    with stack.browser(SCIENTIST) as client:
        page = Frames(stack.url, client.cookies["sessionid"]).start()
        yield page
        page.stop()


@contextmanager
def away(stack: Stack, name: str, seconds: float = AWAY) -> Iterator[None]:
    """Kill -9, and a new start only so many seconds later."""
    with stack.held_down(name) as start_again:
        timer = threading.Timer(seconds, start_again)
        timer.start()
        try:
            yield
        finally:
            timer.join()
    stack.await_all()


def test_a_tenant_is_made_although_its_cluster_was_away(story: Story, stack: Stack, began: str) -> None:
    slug = f"late-{story.tag}"
    with away(stack, "apiserver"):
        story.begin_tenant(slug, gpus=1)
        assert story.rest(OPERATOR).get(f"tenants/{slug}")[0]["state"] != "ready"
    story.await_tenant(slug)


def test_one_of_two_decisions_at_once_counts(story: Story) -> None:
    story.ask_quota(amount=1)
    wish = story.rest(SCIENTIST).get(f"quota-requests/{story.quota_request}")
    second = {
        "tenant": TENANT, "reason": "again", "starts_at": wish["starts_at"], "ends_at": wish["ends_at"],
        "amounts": [{"cluster": a["cluster"], "resource": a["resource"], "amount": "1"} for a in wish["amounts"]],
    }  # fmt: skip
    path = f"quota-requests/{story.done(SCIENTIST, 'POST', 'quota-requests', code=201, json=second)['id']}"
    seen = story.rest(ADMIN).get(path)["state"]
    with ThreadPoolExecutor(2) as pool:
        acts = [("approve", {"seen": seen}), ("reject", {"seen": seen, "note": "no"})]
        answers = [
            answer.status_code
            for answer in pool.map(lambda act: story.ask(ADMIN, "POST", f"{path}/{act[0]}", json=act[1]), acts)
        ]
    assert sorted(answers) == [200, 409]
    history = [event["kind"] for event in story.rest(ADMIN).get(path)["history"]]
    assert ("team-approved" in history) != ("rejected" in history), history


def test_a_secret_is_whole_or_not_there(story: Story, stack: Stack, frames: Frames) -> None:
    path = f"secrets/{TENANT}/hub-{story.tag}"
    with away(stack, "openbao", 10):
        refused = story.rest(SCIENTIST).http.put(path, json={"values": {"token": story.canary}}, timeout=30)
        assert refused.status_code == 503, refused.text
        assert "Nothing was kept" in refused.text
        assert story.canary not in refused.text
    story.enter_secret()
    assert story.rest(SCIENTIST).get(path)["keys"] == ["token"]


def test_a_job_ends_once_whoever_is_killed(story: Story, stack: Stack, frames: Frames) -> None:
    spent = story.pool()["seconds"]
    story.train()
    frames.follow(f"job.{story.job}")
    stack.kill("worker")
    story.rest(SCIENTIST).await_phase(story.job, "running", "succeeded")
    stack.kill("watch")
    story.await_training()
    until(lambda: story.pool()["seconds"] > spent, 60, what="its GPU-seconds are booked")


def test_its_files_arrive_although_web_and_worker_were_killed(story: Story, stack: Stack) -> None:
    story.register()
    stack.kill("web")
    stack.kill("worker")
    story.await_files()
    story.files_are_the_checkpoint()
    story.approve_version()


def test_a_model_is_deployed_although_its_cluster_was_away(story: Story, stack: Stack, frames: Frames) -> None:
    with away(stack, "apiserver"):
        story.deploy()
        frames.follow(f"deployment.{story.deployment}")
        stack.kill("worker")
    story.await_deployment()
    story.make_key()
    story.await_chat()
    stack.kill("gateway")
    story.await_chat()


def test_a_stranger_finds_nothing(story: Story) -> None:
    for path in (
        f"jobs/{story.job}", f"jobs/{story.job}/log", f"jobs/{story.job}/manifests", f"secrets/{TENANT}/hub-{story.tag}",
        f"quota-requests/{story.quota_request}", f"tenants/{TENANT}", f"deployments/{story.deployment}",
        f"deployments/{story.deployment}/keys", f"deployments/{story.deployment}/manifests",
    ):  # fmt: skip
        assert story.ask(STRANGER, "GET", path).status_code == 404, path
    for path in (f"jobs/{story.job}/stop", f"deployments/{story.deployment}/stop", f"jobs/{story.job}/register"):
        assert story.ask(STRANGER, "POST", path, json={}).status_code == 404, path


def test_holds_and_audit_are_exact_at_the_end(story: Story, stack: Stack, began: str) -> None:
    story.scale_and_remove()
    assert "0 differences" in stack.demo.manage("check_holds")
    entries = story.audited(since=began, result="done")
    actions = [entry["action"] for entry in entries if story.tag in str(entry["params"])]
    once = ("job.submitted", "model.registered", "deployment.created", "deployment.removed")
    assert {action: actions.count(action) for action in once} == dict.fromkeys(once, 1), sorted(actions)
    story.refusals_are_exact(began)


def test_no_secret_was_written_down(story: Story, stack: Stack, frames: Frames) -> None:
    """The secret, the key and the tokens: the portal keeps the digests of keys and tokens, of nothing else anything."""
    assert story.key
    assert all(map(frames.told, ("log", "points", "hint"))), (frames.closed, frames.kept[:5])
    canaries = Canaries({"secret": story.canary, "key": story.key})
    for who in (SCIENTIST, ADMIN, OPERATOR):
        canaries.planted[f"token of {who}"] = story.rest(who).http.headers["Authorization"].removeprefix("Bearer ")
    tables = stack.rows("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'")
    rows = [str(row) for (table,) in tables for row in stack.rows(f"SELECT t::text FROM {table} t")]
    logs = b"".join(path.read_bytes() for path in (stack.demo.home.root / "log").glob("*.log"))
    found = canaries.hits(
        database="\n".join(rows), redis=redis_dump(stack.demo.env()["REDIS_URL"]), log=logs,
        gateway=b"".join(path.read_bytes() for path in stack.demo.home.root.glob("gateway/**/*") if path.is_file()),
        answers="\n".join(story.answers), frames="\n".join(frames.kept),
    )  # fmt: skip
    assert [hit for hit in found if hit.startswith("secret ") or "(sha-256) in database" not in hit] == []
