"""Pages while things happen: what is typed is kept, what changes shows, and no line is lost."""

from __future__ import annotations

import itertools
import re
import time

import pytest
from django.test import TestCase
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, expect

from apps.jobs.models import Job
from apps.streams import services as streams
from tests.prove.browser import unfolded
from tests.prove.conftest import Portal

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(240)]


def write(job: Job, *numbers: int) -> None:
    """Lines and points as a log follower writes them."""
    now = timezone.now()
    lines = [streams.LogLine(int(now.timestamp() * 1e9), "INFO", 0, n, f"line {n} of the test") for n in numbers]
    points = [streams.LivePoint("loss", n, 1.5, int(now.timestamp() * 1e3)) for n in numbers]
    source = streams.Source(0, 1, "master-0")
    streams.append(job.topic, streams.LogFrame(source, lines), streams.PointsFrame(source, points))


def numbers(page: Page) -> list[int]:
    texts = page.locator("#log .log-line").all_inner_texts()
    return [int(found[1]) for text in texts if (found := re.search(r"line (\d+) of the test", text))]


def test_the_log_follows_and_an_outage_of_the_portal_loses_and_doubles_no_line(
    portal: Portal, desk: BrowserContext
) -> None:
    job = portal.seeds.running
    page = desk.new_page()
    page.goto(f"/jobs/{job.pk}/")
    expect(page.locator("#log")).to_contain_text("Loss: ")
    write(job, 1001, 1002)
    expect(page.locator("#log")).to_contain_text("line 1002 of the test")
    portal.stop()
    expect(page.locator("#offline")).to_be_visible()
    write(job, 1003, 1004)
    portal.start()
    expect(page.locator("#offline")).to_be_hidden(timeout=30_000)
    write(job, 1005)
    expect(page.locator("#log")).to_contain_text("line 1005 of the test", timeout=15_000)
    assert numbers(page) == [1001, 1002, 1003, 1004, 1005]
    page.reload()
    expect(page.locator("#log")).to_contain_text("line 1005 of the test")
    assert numbers(page) == [1001, 1002, 1003, 1004, 1005]


def test_a_point_of_the_curve_leads_to_its_lines_and_the_address_keeps_the_choice(
    portal: Portal, desk: BrowserContext
) -> None:
    page = desk.new_page()
    page.goto(f"/jobs/{portal.seeds.restarted.pk}/")
    page.locator("#chart .u-over").click(position={"x": 300, "y": 80})
    picked = page.locator("#log .log-line.picked")
    expect(picked).to_have_count(1)
    step = re.search(r"#.*step=(\d+)", page.url)
    assert step
    expect(picked).to_contain_text(step[1])
    page.locator("[data-rank='1']").click()
    expect(page.locator("#log .log-line").first).to_contain_text("batch 0412")
    page.reload()
    expect(page.locator("[data-rank='1']")).to_have_attribute("aria-pressed", "true")
    assert not [text for text in page.locator("#log .log-line").all_inner_texts() if "Loss" in text]


def test_a_hint_brings_the_new_state_without_a_reload(portal: Portal, desk: BrowserContext) -> None:
    job = portal.seeds.waiting
    page = desk.new_page()
    page.goto(f"/jobs/{job.pk}/")
    page.wait_for_timeout(800)
    page.evaluate("window.same = true")
    portal.change("UPDATE jobs_job SET phase = 'starting', reason = 'starting.placed' WHERE id = %s", job.pk)
    commit_hint(job.topic)
    expect(page.locator("#state .title .pill")).to_have_text("Starting", timeout=5000)
    assert page.evaluate("window.same")


def test_the_head_follows_its_steps_at_a_pace_and_leaves_the_focus_alone(portal: Portal, desk: BrowserContext) -> None:
    job = portal.seeds.running
    page = desk.new_page()
    asked: list[float] = []
    page.on("request", lambda request: asked.append(time.monotonic()) if "part=steps" in request.url else None)
    page.goto(f"/jobs/{job.pk}/")
    expect(page.locator("#log")).to_contain_text("Loss: ")
    page.locator("#act-suspend").focus()
    for step in range(3001, 3031):
        portal.change(
            "INSERT INTO streams_point (topic, series, attempt, step, value, at) VALUES (%s, 'loss', 1, %s, 1.5, now())",
            job.topic,
            str(step),
        )
        write(job, step)
        page.wait_for_timeout(150)
    expect(page.locator("#pace")).to_contain_text("3,030", timeout=6000)
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert 1 <= len(pauses) <= 4, pauses
    assert min(pauses) > 2.5, pauses
    assert page.evaluate("document.activeElement.id") == "act-suspend"


def test_a_row_of_the_list_changes_where_it_stands_and_a_new_job_is_only_announced(
    portal: Portal, desk: BrowserContext
) -> None:
    job = portal.seeds.running
    page = desk.new_page()
    page.goto("/jobs/?state=running")
    page.wait_for_timeout(800)
    before = page.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.id)")
    portal.change("UPDATE jobs_job SET attempt = 3 WHERE id = %s", job.pk)
    portal.change(
        "INSERT INTO jobs_job SELECT (jsonb_populate_record(j, jsonb_build_object('id', '7ZZZZZZZZZZZZZZZZZZZZZZZZZ'))).*"
        " FROM jobs_job j WHERE id = %s",
        job.pk,
    )
    commit_hint(f"tenant.{job.tenant_id}")
    expect(page.locator(f"#job-{job.pk}")).to_contain_text("attempt 3", timeout=5000)
    expect(page.locator(".new-bar")).to_have_text(re.compile("1 new job, show"))
    assert page.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.id)") == before
    page.locator(".new-bar").click()
    expect(page.locator("tbody tr").first).to_have_id("job-7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
    portal.change("DELETE FROM jobs_job WHERE id = %s", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ")


def commit_hint(topic: str) -> None:
    """A hint goes out on commit, which a test's transaction never reaches."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        streams.hint(topic)


def test_stopping_asks_once_and_says_what_will_happen(portal: Portal, desk: BrowserContext) -> None:
    page = desk.new_page()
    page.goto(f"/jobs/{portal.seeds.running.pk}/")
    page.get_by_role("link", name="Stop job").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("checkpoints, log and curve stay")
    dialog.get_by_role("link", name="Let it run").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("link", name="Stop job").click()
    dialog.get_by_role("button", name="Stop job").click()
    expect(page.locator("#toasts")).to_contain_text("is being stopped")
    expect(page.locator("#state")).to_contain_text("The job is being stopped.")
    expect(dialog).to_be_hidden()


def test_what_is_typed_is_kept_on_the_way_back_and_by_itself(portal: Portal, desk: BrowserContext) -> None:
    page = desk.new_page()
    page.goto("/jobs/new")
    page.get_by_role("button", name="Begin with Character language model").click()
    page.get_by_label("Name", exact=True).fill("kept run")
    page.get_by_label("Steps", exact=True).fill("1.5")
    expect(page.locator("#panel")).to_contain_text("still needs a look", timeout=5000)
    page.get_by_role("button", name="Size and queue").click()
    expect(page.locator(".error-summary")).to_contain_text("“1.5” is not a whole number.")
    expect(page.get_by_label("Steps", exact=True)).to_have_value("1.5")
    page.get_by_label("Steps", exact=True).fill("120")
    page.get_by_role("button", name="Size and queue").click()
    page.get_by_label("Number of ranks").fill("4")
    page.get_by_role("button", name="Data and code").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("kept run")
    page.get_by_role("button", name="Size and queue").click()
    expect(page.get_by_label("Number of ranks")).to_have_value("4")
    page.get_by_role("button", name="Review job").click()
    expect(page.locator("#answer")).to_contain_text("Asking the API server")
    page.get_by_role("button", name="Submit to NLP").dblclick()
    expect(page).to_have_url(re.compile(r"/jobs/[0-9A-Z]{26}/$"))
    expect(page.locator("h1")).to_have_text("kept run")


def test_two_tabs_clash_openly_and_neither_loses(portal: Portal, desk: BrowserContext) -> None:
    address = f"/drafts/{portal.seeds.draft.pk}/data"
    one, two = desk.new_page(), desk.new_page()
    one.goto(address)
    two.goto(address)
    one.get_by_label("Note to the team").fill("from the first tab")
    expect(one.locator("#saved-at")).not_to_have_attribute("data-dirty", "", timeout=5000)
    two.get_by_label("Note to the team").fill("from the second tab")
    expect(two.locator("#panel")).to_contain_text("Another tab saved this draft", timeout=5000)
    two.get_by_role("button", name="Size and queue").click()
    expect(two.locator("table")).to_contain_text("from the first tab")
    expect(two.locator("table")).to_contain_text("from the second tab")
    two.get_by_role("button", name="Keep what I typed here").click()
    expect(two).to_have_url(re.compile("/size$"))
    one.goto(address)
    expect(one.get_by_label("Note to the team")).to_have_value("from the second tab")


def test_one_who_types_fast_and_presses_next_at_once_does_not_clash_with_the_own_save(
    portal: Portal, desk: BrowserContext
) -> None:
    page = desk.new_page()
    page.goto(f"/drafts/{portal.seeds.draft.pk}/size")
    for attempt in range(4, 9):
        unfolded(page, "Attempts").fill(str(attempt))
        time.sleep(0.88)  # just about when the page saves by itself
        page.get_by_role("button", name="Review job").click()
        expect(page).to_have_url(re.compile("/review$"))
        page.get_by_role("link", name="Size and queue").last.click()
        expect(page.get_by_label("Attempts")).to_have_value(str(attempt))
