"""A run that really diverges: stopped by the loss watch, and gone on with from its last good checkpoint by two clicks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.prove import stack as kit
from tests.prove.browser import PHASE_MS, Desk, await_phase, desk
from tests.prove.stack import Stack, charlm, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(420)]

NAME = f"too fast 太快 {os.urandom(4).hex()}"
LOGGED = 5
"""Steps between two figures in the log."""


@pytest.fixture(scope="module")
def scientist(chrome: Browser, stack: Stack) -> Iterator[Desk]:
    with desk(chrome, stack, kit.SCIENTIST) as one:
        yield one


@pytest.fixture(scope="module")
def diverged(stack: Stack) -> str:
    """The id of a job with thirty times the learning rate that is good for it; each step of its log takes 1.5 s."""
    rest = stack.rest()
    document = charlm(NAME, steps=400, step_seconds=0.3, checkpoint_every=5, learning_rate=3, grace_seconds=20)
    job_id = rest.submit(document)
    until(lambda: rest.get(f"jobs/{job_id}/watch")["state"] == "tripped", 120, what="the loss watch trips")
    rest.await_phase(job_id, "suspended")
    return job_id


def test_it_is_suspended_within_three_logged_steps(diverged: str, stack: Stack) -> None:
    rest = stack.rest()
    job, watch = rest.job(diverged), rest.get(f"jobs/{diverged}/watch")
    losses = rest.points(diverged)
    assert job["attempt"] == 1
    assert list(losses) == [1], "it was not run once more"
    assert "Suspended by the loss watch" in job["reason"]
    assert watch["rule"] in ("limit", "leap", "infinite"), watch
    assert losses[1][watch["step"]] > 100, "the loss did diverge"
    assert max(losses[1]) <= watch["step"] + 3 * LOGGED, (watch["step"], max(losses[1]))
    assert any("Asked to end (SIGTERM): saving an emergency checkpoint" in line[3] for line in rest.lines(diverged))
    assert stack.audited(diverged, "job.loss-tripped") == stack.audited(diverged, "job.suspend") == 1


def test_checkpoints_after_the_last_good_step_are_in_quarantine(diverged: str, stack: Stack) -> None:
    rest = stack.rest()
    watch = rest.get(f"jobs/{diverged}/watch")
    assert {saved["quarantined"] for saved in watch["checkpoints"]} == {True, False}
    bad = next(saved["step"] for saved in watch["checkpoints"] if saved["quarantined"])
    refused = rest.post(charlm("from a spoilt one", resume_from=f"{diverged}@{bad}"))
    assert (refused.status_code, "quarantine" in refused.text) == (400, True)
    assert rest.act(diverged, "resume").status_code == 409


def test_two_clicks_go_on_from_the_last_good_checkpoint(scientist: Desk, diverged: str, stack: Stack) -> None:
    page, rest = scientist.page, stack.rest()
    watch = rest.get(f"jobs/{diverged}/watch")
    good = next(saved["step"] for saved in watch["checkpoints"] if not saved["quarantined"])
    page.goto("/jobs/")
    row = page.locator("tbody tr", has_text=NAME)
    expect(row).to_contain_text("diverged")
    row.get_by_role("link", name=NAME).click()
    expect(page.locator("#loss-verdict")).to_contain_text("The loss watch tripped.")
    expect(page.get_by_role("button", name="Resume job")).to_be_disabled()
    page.get_by_role("button", name=f"Resume from step {good} with a tenth of the learning rate").click()
    page.get_by_role("button", name="Submit to").click()
    expect(page).to_have_url(re.compile(rf"/jobs/(?!{diverged})[0-9A-Z]{{26}}/$"), timeout=20_000)
    job_id = page.url.rstrip("/").rsplit("/", 1)[1]
    await_phase(page, "running")
    expect(page.locator("#log")).to_contain_text(f"Resumed from checkpoint: step {good}", timeout=PHASE_MS)
    losses = until(lambda: enough(rest.points(job_id)), 60, what="the new run has losses")
    assert min(losses) > good, "it did not begin from nothing"
    assert max(losses.values()) < 4, "it learns"
    assert rest.get(f"jobs/{job_id}/watch")["state"] == "ok"
    assert rest.act(job_id, "stop").status_code == 202
    assert rest.act(diverged, "stop").status_code == 202


def enough(points: dict[int, dict[int, float]]) -> dict[int, float] | None:
    return points[1] if len(points.get(1, {})) >= 5 else None


def test_the_owner_finds_it_in_the_inbox(scientist: Desk, diverged: str) -> None:
    page = scientist.page
    page.goto("/inbox/")
    expect(page.locator("main")).to_contain_text(f"The loss watch tripped on your job {NAME}.")
