"""The walk as a new user takes it: sign in, wizard, a falling loss curve, a killed rank, a stopped job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from deploy.local.stack import TREE
from tests.prove import stack as kit
from tests.prove.browser import PHASE_MS, Desk, as_shown, await_phase, desk, log_texts, loss_table, unfolded
from tests.prove.stack import Stack, charlm, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(420)]

KEY = os.urandom(4).hex()
NAME = f"first light 初光 {KEY}"


@pytest.fixture(scope="module")
def scientist(chrome: Browser, stack: Stack) -> Iterator[Desk]:
    with desk(chrome, stack, kit.SCIENTIST) as one:
        yield one


@pytest.fixture(scope="module")
def submitted(scientist: Desk, stack: Stack) -> str:
    """The id of a job of 4,000 slow steps that went through the wizard, submitted by a double click."""
    page = scientist.page
    page.goto("/")
    page.get_by_role("link", name="New job").first.click()
    page.get_by_role("button", name="Begin with Character language model").click()
    page.get_by_label("Name", exact=True).fill(NAME)
    page.get_by_label("Steps", exact=True).fill("4000")
    page.get_by_label("Checkpoint every", exact=True).fill("20")
    page.get_by_role("button", name="Size and queue").click()
    expect(page).to_have_url(re.compile("/size$"))
    unfolded(page, "Grace").fill("10")
    go_back_and_forth(page)
    clash_with_a_second_tab(page)
    page.get_by_role("button", name="Review job").click()
    expect(page.locator("#answer")).to_contain_text("The API server accepts it", timeout=30_000)
    expect(page.locator("#answer .checks li")).to_have_count(5)
    expect(page.locator("#manifest")).to_contain_text("kind: Job")
    page.get_by_role("button", name="Submit to").dblclick()
    expect(page).to_have_url(re.compile(r"/jobs/[0-9A-Z]{26}/$"), timeout=20_000)
    return page.url.rstrip("/").rsplit("/", 1)[1]


def go_back_and_forth(page: Page) -> None:
    """Nothing typed is lost on the way back, forth, by reload, or by the browser's own back button."""
    page.get_by_role("button", name="Data and code").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value(NAME)
    expect(page.get_by_label("Steps", exact=True)).to_have_value("4000")
    page.get_by_label("Note to the team").fill("换一个种子再跑")
    page.get_by_role("button", name="Size and queue").click()
    expect(page.get_by_label("Grace")).to_have_value("10")
    page.reload()
    expect(page.get_by_label("Grace")).to_have_value("10")
    page.go_back()
    expect(page.get_by_label("Note to the team")).to_have_value("换一个种子再跑")
    page.get_by_role("button", name="Size and queue").click()


def clash_with_a_second_tab(page: Page) -> None:
    """A tab that saves over a newer version is shown both, and may go on with what was saved."""
    other = page.context.new_page()
    other.goto(page.url)
    unfolded(page, "CPU cores per rank").fill("0.5")
    expect(page.locator("#saved-at")).not_to_have_attribute("data-dirty", "", timeout=10_000)
    unfolded(other, "CPU cores per rank").fill("2")
    other.get_by_role("button", name="Review job").click()
    expect(other.locator("table")).to_contain_text("0.5")
    other.get_by_role("link", name="Go on with what was saved").click()
    expect(other.get_by_label("CPU cores per rank")).to_have_value("0.5")
    other.close()


def test_a_double_click_makes_one_job(submitted: str, stack: Stack) -> None:
    assert stack.rows("SELECT id FROM jobs_job WHERE name = %s", NAME) == [(submitted,)]
    assert stack.audited(submitted, "job.submitted") == 1


def test_the_open_page_shows_it_run_and_its_loss_fall(scientist: Desk, submitted: str, stack: Stack) -> None:
    page = scientist.page
    await_phase(page, "running")
    expect(page.locator("#log")).to_contain_text("Joined: rank 1 of 2", timeout=30_000)
    expect(page.locator("#chart canvas")).to_be_visible(timeout=30_000)
    losses = until(lambda: enough(loss_table(page)), 60, what="the chart has points up to step 150")
    steps = sorted(losses)
    assert losses[steps[-1]] < 2.6 < 3.5 < losses[steps[0]], losses
    thirds = [sum(losses[s] for s in part) / len(part) for part in (steps[:10], steps[10:20], steps[20:30])]
    assert all(late < early for early, late in pairwise(thirds)), thirds
    told = stack.rest().points(submitted)[1]
    assert all(abs(told[step] - losses[step]) < 1e-3 for step in steps)


def enough(table: dict[int, dict[int, float]]) -> dict[int, float]:
    curve = table.get(1, {})
    return curve if max(curve, default=0) >= 150 else {}


def test_reload_and_being_offline_lose_no_line(scientist: Desk, submitted: str, stack: Stack) -> None:
    page = scientist.page
    page.reload()
    expect(page.locator("#log .log-line").first).to_be_visible()
    page.context.set_offline(True)
    try:
        expect(page.locator("#offline")).to_be_visible()
        stack.kill("web")  # so that it cannot come back before it is online: Chromium lets sockets pass
        last = len(stack_lines(stack, submitted))
        until(lambda: len(stack_lines(stack, submitted)) > last + 10, 60, what="lines were written meanwhile")
    finally:
        page.context.set_offline(False)
    expect(page.locator("#offline")).to_be_hidden(timeout=40_000)
    assert_shows_every_line(page, stack, submitted)


def test_a_silent_connection_is_found_and_made_anew(chrome: Browser, submitted: str, stack: Stack) -> None:
    """Behind a dead network an open socket just hears nothing; nobody tells the page."""
    with desk(chrome, stack, kit.SCIENTIST) as other:
        other.page.clock.install()
        other.page.goto(f"/jobs/{submitted}/")
        until(lambda: len(log_texts(other.page)), 20, what="the page shows lines")
        with stack.frozen("web"):
            other.page.clock.fast_forward(80_000)
            expect(other.page.locator("#offline")).to_be_visible()
        expect(other.page.locator("#offline")).to_be_hidden(timeout=40_000)
        assert_shows_every_line(other.page, stack, submitted)


@pytest.mark.parametrize("name", ["watch", "valkey", "apiserver", "nodeagent"])
def test_an_open_page_loses_no_line_to_a_crash(name: str, scientist: Desk, submitted: str, stack: Stack) -> None:
    page = scientist.page
    page.goto(f"/jobs/{submitted}/")
    before = until(lambda: len(log_texts(page)), 20, what="the page shows lines")
    stack.kill(name)
    stack.await_all()
    until(lambda: len(log_texts(page)) > before + 10, 60, what="the page goes on")
    assert_shows_every_line(page, stack, submitted)


def stack_lines(stack: Stack, job_id: str) -> list[kit.Line]:
    """The job's lines, or none while the portal is away."""
    try:
        return stack.rest().lines(job_id)
    except (httpx.TransportError, AssertionError):
        return []


def assert_shows_every_line(page: Page, stack: Stack, job_id: str) -> None:
    """The page shows what the buffer holds, once and in its order. Both go on growing, so one is cut to the other."""
    kept = as_shown(stack.rest().lines(job_id))
    until(lambda: len(log_texts(page)) >= len(kept), 20, what="the page shows as many lines as there were")
    assert log_texts(page)[: len(kept)] == kept


def test_a_killed_rank_restarts_the_gang_from_its_checkpoint(scientist: Desk, submitted: str, stack: Stack) -> None:
    page = scientist.page
    await_phase(page, "running")
    expect(page.locator("#log")).to_contain_text("Checkpoint saved: step 20,", timeout=60_000)
    process = stack.rank_process(submitted, 1)
    assert process is not None, "rank 1 runs"
    process.kill()
    # It may be over within the blink of a page; the history below tells it in any case.
    expect(page.locator("#state")).to_have_attribute("data-attempt", "2", timeout=PHASE_MS)
    await_phase(page, "running")
    expect(page.locator("#state .title")).to_contain_text("attempt 2 of 3")
    expect(page.locator("#log")).to_contain_text("Resumed from checkpoint: step", timeout=30_000)
    first, second = until(lambda: both_attempts(stack, submitted), 60, what="the second attempt has points")
    assert min(second) > 20, "it did not begin again from nothing"
    assert min(second) <= max(first) + 5, "it went on from a checkpoint, not from somewhere later"
    assert all(abs(first[step] - second[step]) < 1e-9 for step in first.keys() & second.keys()), "the same run again"
    assert_shows_every_line(page, stack, submitted)
    page.get_by_role("link", name="History").click()
    restarting = page.locator("#tabs tbody tr", has_text="Restarting")
    expect(restarting).to_contain_text("Rank 1 ended with exit code 137")


def both_attempts(stack: Stack, job_id: str) -> tuple[dict[int, float], dict[int, float]] | None:
    points = stack.rest().points(job_id)
    return (points[1], points[2]) if len(points.get(2, {})) >= 5 else None


def test_who_sees_the_job_and_who_may_touch_it(chrome: Browser, submitted: str, stack: Stack) -> None:
    with desk(chrome, stack, kit.ADMIN) as admin:
        admin.page.goto("/jobs/")
        admin.page.get_by_role("link", name=NAME).click()
        expect(admin.page.get_by_role("link", name="Stop job")).to_be_visible()
    with desk(chrome, stack, kit.VIEWER) as viewer:
        viewer.page.goto(f"/jobs/{submitted}/")
        expect(viewer.page.locator("#log")).to_contain_text("Loss:")
        expect(viewer.page.get_by_role("button", name="Stop job")).to_be_disabled()
        expect(viewer.page.locator(".why-grey")).to_contain_text("Only its owner or a team admin")
        expect(viewer.page.get_by_role("link", name="New job")).to_have_count(0)
    with desk(chrome, stack, kit.STRANGER) as stranger:
        answer = stranger.page.goto(f"/jobs/{submitted}/")
        assert answer is not None
        assert answer.status == 404
        expect(stranger.page.locator("body")).not_to_contain_text(NAME)


def test_the_stop_button_ends_it_and_its_ranks(scientist: Desk, submitted: str, stack: Stack) -> None:
    page = scientist.page
    page.get_by_role("link", name="Stop job").click()
    page.locator("#dialog").get_by_role("button", name="Stop job").click()
    await_phase(page, "stopped", 60_000)
    expect(page.locator("#state")).to_contain_text("Stopped by 陈静.")
    expect(page.locator("#log")).to_contain_text("Asked to end (SIGTERM)")
    until(lambda: stack.cluster.pods(submitted) == [], 30, what="no pod is left")
    assert stack.rank_process(submitted, 0) is None
    assert_shows_every_line(page, stack, submitted)


def test_the_auditor_reads_it_as_sentences(chrome: Browser, submitted: str, stack: Stack) -> None:
    with desk(chrome, stack, kit.AUDITOR) as auditor:
        auditor.page.goto(f"/audit/?target=job:{submitted}")
        rows = auditor.page.locator("tbody")
        for sentence in (
            f"陈静 submitted the job {NAME} with 2 GPUs",
            f"The job {NAME} went from",
            f"陈静 stopped the job {NAME}",
        ):
            expect(rows).to_contain_text(sentence)


def test_the_same_pages_in_chinese(chrome: Browser, submitted: str, stack: Stack) -> None:
    if not (TREE / "locale/zh_Hans/LC_MESSAGES/django.mo").exists():
        pytest.skip("the Chinese catalogue is not compiled: make setup")
    with desk(chrome, stack, kit.SCIENTIST, "zh-CN") as reader:
        reader.page.goto(f"/jobs/{submitted}/")
        expect(reader.page.locator("html")).to_have_attribute("lang", "zh-hans")
        expect(reader.page.locator("#state")).to_contain_text("已停止")
        expect(reader.page.locator("#log-title")).to_have_text("日志")


# --- the same without pages -----------------------------------------------------------------------------------------


def test_the_same_by_rest(stack: Stack) -> None:
    rest = stack.rest()
    document = charlm("by REST", steps=40)
    job_id = rest.submit(document, key=KEY)
    assert rest.submit(document, key=KEY) == job_id
    clash = rest.post(charlm("by REST", steps=41), key=KEY)
    assert (clash.status_code, clash.headers["content-type"]) == (409, "application/problem+json")
    assert clash.json().keys() >= {"type", "title", "status", "detail"}
    ended = rest.await_phase(job_id, "succeeded")
    assert (ended["attempt"], ended["gpus"], ended["tenant"]) == (1, 2, "nlp")
    assert [rank["exit_code"] for rank in rest.get(f"jobs/{job_id}/ranks")] == [0, 0]
    assert until(lambda: any("Done: " in line[3] for line in rest.lines(job_id)), 15)
    assert 40 in rest.points(job_id)[1]
    assert [item["kind"] for item in rest.get(f"jobs/{job_id}/manifests")["manifests"]][-1] == "Job"


def test_a_suspended_job_holds_no_pod_and_goes_on_from_its_checkpoint(stack: Stack) -> None:
    rest = stack.rest()
    job_id = rest.submit(charlm("suspended once", steps=200))
    rest.await_phase(job_id, "running")
    until(lambda: max(rest.points(job_id).get(1, {0: 0})) >= 25, 30, what="a checkpoint is written")
    assert rest.act(job_id, "suspend").status_code == 202
    assert "Suspended by 陈静" in rest.await_phase(job_id, "suspended")["reason"]
    until(lambda: not stack.cluster.pods(job_id), 60, what="it holds no pod")
    assert rest.act(job_id, "suspend").status_code == 202, "asked again, nothing changes"
    assert rest.act(job_id, "resume").status_code == 202
    rest.await_phase(job_id, "succeeded")
    until(lambda: 200 in rest.points(job_id).get(max(rest.points(job_id)), {}), 20, what="the curve is whole")
    last = rest.points(job_id)[max(rest.points(job_id))]
    assert min(last) > 20, "it did not begin again from nothing"
    assert rest.act(job_id, "resume").status_code == 409, "it has ended"


def test_rest_pages_by_cursor_and_answers_in_problem_json(stack: Stack) -> None:
    rest = stack.rest()
    while len(rest.get("jobs", limit=200)["results"]) < 3:
        rest.submit(charlm("one more", steps=1))
    seen, cursor = [], ""
    while cursor is not None:
        page = rest.get("jobs", limit=1, **({"cursor": cursor} if cursor else {}))
        seen += [job["id"] for job in page["results"]]
        cursor = page["next"]
    assert seen == sorted(set(seen), reverse=True)
    missing = rest.http.get("jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert (missing.status_code, missing.json()["status"]) == (404, 404)
    assert missing.headers["content-type"] == "application/problem+json"
    refused = stack.rest(kit.VIEWER).post(charlm("not mine to start"))
    assert refused.status_code == 403
    assert refused.json()["permission"]
    with httpx.Client(base_url=f"{stack.url}/api/v1/", trust_env=False) as nobody:
        assert nobody.get("jobs").status_code == 401


def test_the_same_by_command(stack: Stack, tmp_path: Path) -> None:
    stack.rest()  # whoever a job belongs to must have signed in once
    spec = tmp_path / "job.yaml"
    spec.write_text(json.dumps(charlm("by command", steps=20)))
    arguments = ("--spec", str(spec), "--tenant", "nlp", "--as", kit.SCIENTIST, "--key", f"command {KEY}")
    answer = json.loads(stack.demo.manage("submit", *arguments, "--wait", "--json"))
    assert answer["phase"] == "succeeded"
    again = json.loads(stack.demo.manage("submit", *arguments, "--json"))
    assert again["id"] == answer["id"]
    assert "kind: Job" in stack.demo.manage("render", "--spec", str(spec), "--namespace", "tenant-nlp")


def test_the_command_says_with_its_exit_code_what_was_wrong(stack: Stack, tmp_path: Path) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_text(json.dumps(charlm("bad", ranks=0)))
    command = [sys.executable, "manage.py", "submit", "--spec", str(spec), "--tenant", "nlp", "--as", kit.SCIENTIST]
    env = {**stack.demo.env(), "PATH": "/usr/bin:/bin"}
    failed = subprocess.run(command, cwd=TREE, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 2
    assert "ranks: “0” is out of range" in failed.stderr
