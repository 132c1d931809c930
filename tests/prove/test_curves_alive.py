"""The chart card under hands: zoomed, walked by keyboard, compared, fed live, kept."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, expect

from apps.streams import services as streams
from tests.prove.conftest import Portal

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(300)]


def opened(desk: BrowserContext, job: str, place: str = "") -> Page:
    page = desk.new_page()
    page.goto(f"/jobs/{job}/{place}")
    expect(page.locator("#chart canvas").first).to_be_visible()
    return page


def told(page: Page) -> list[list[str]]:
    """The table behind the chart: curve, attempt, step, value."""
    if page.locator("#loss-table").is_hidden():
        page.locator("#loss-table-toggle").click()
    rows: list[list[str]] = page.locator("#loss-table tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    return rows


def test_a_stretch_that_is_dragged_over_is_drawn_anew_and_its_link_shows_the_same(
    portal: Portal, desk: BrowserContext
) -> None:
    page = opened(desk, portal.seeds.restarted.pk)
    box = page.locator("#chart .u-over").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=5)
    page.mouse.up()
    expect(page.locator("#chart-zoom")).to_be_visible()
    found = re.search(r"steps=(\d+)-(\d+)", page.url)
    assert found
    first, last = map(int, found.groups())
    expect(page.locator("#log .log-line.picked")).to_have_count(0)  # a drag is no click
    page.reload()
    expect(page.locator("#chart-zoom output")).to_have_text(f"steps {first} to {last}")
    expect(page.locator("#chart canvas").first).to_be_visible()
    steps = [int(step) for _curve, attempt, step, _value in told(page) if attempt == "2"]
    assert steps == list(range(last, first - 1, -1))
    page.locator("#chart-reset").click()
    expect(page.locator("#chart-zoom")).to_be_hidden()
    assert "steps=" not in page.url


def test_the_keyboard_walks_the_curve_and_tells_the_page_the_step(portal: Portal, desk: BrowserContext) -> None:
    page = opened(desk, portal.seeds.restarted.pk)
    page.evaluate("document.querySelector('[data-log]').addEventListener('step', (e) => { window.told = e.detail; })")
    panel = page.locator(".chart-panel").first
    panel.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#chart-said")).to_contain_text("Step 308")
    page.keyboard.press("Enter")
    assert page.evaluate("window.told") == {"step": 308, "attempt": 2}
    expect(page.locator("#log .log-line.picked").first).to_contain_text("308")
    page.keyboard.press("+")
    expect(page.locator("#chart-zoom")).to_be_visible()
    page.keyboard.press("0")
    expect(page.locator("#chart-zoom")).to_be_hidden()


def test_other_curves_and_another_job_stand_beside(portal: Portal, desk: BrowserContext) -> None:
    page = opened(desk, portal.seeds.restarted.pk)
    page.get_by_role("button", name="Gradient norm").click()
    expect(page.locator(".chart-panel")).to_have_count(2)
    assert [value for curve, _attempt, step, value in told(page) if curve == "Gradient norm" and step == "120"] == [
        "NaN"
    ]
    page.locator("#chart-compare summary").click()
    page.locator("#chart-compare input").fill("first li")
    page.locator("#chart-compare").get_by_role("button", name="first light").click()
    expect(page.locator("#chart-beside")).to_contain_text("first light")
    expect(page.locator("#loss-table")).to_contain_text("Loss · first light")
    assert f"with={portal.seeds.running.pk}" in page.url
    page.get_by_role("button", name="Take first light out of the picture").click()
    expect(page.locator("#loss-table")).not_to_contain_text("first light")


def test_a_point_appears_as_it_comes_and_everything_can_be_kept(
    portal: Portal, desk: BrowserContext, tmp_path: Path
) -> None:
    job = portal.seeds.running
    page = opened(desk, job.pk)
    page.wait_for_timeout(800)
    told(page)
    frame = streams.PointsFrame(
        streams.Source(0, 1, "master-0"),
        [streams.LivePoint("loss", 900, "Infinity", int(timezone.now().timestamp() * 1000))],
    )
    streams.append(job.topic, frame)
    expect(page.locator("#loss-table tbody tr").first).to_contain_text("900∞", timeout=10_000)
    page.locator("#chart-export summary").click()
    with page.expect_download() as picture:
        page.locator("#export-png").click()
    picture.value.save_as(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as table:
        page.locator("#export-csv").click()
    table.value.save_as(tmp_path / "points.csv")
    rows = list(csv.DictReader((tmp_path / "points.csv").read_text().splitlines()))
    assert {row["series"] for row in rows} >= {"loss", "learning_rate"}
    assert next(row["value"] for row in rows if row["series"] == "grad_norm" and row["step"] == "120") == "nan"


@pytest.mark.parametrize("what", ["**/series", "**/points?*"])
def test_a_curve_that_cannot_be_read_says_so_and_is_asked_for_again(
    portal: Portal, desk: BrowserContext, what: str
) -> None:
    page = desk.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.route(what, lambda route: route.abort())
    page.goto(f"/jobs/{portal.seeds.running.pk}/")
    expect(page.locator("#chart-again")).to_be_visible()
    page.unroute(what)
    # The page also asks by itself as it hears of new points; whoever comes first, the button may be gone by then.
    page.locator("#chart-again").dispatch_event("click")
    expect(page.locator("#chart canvas").first).to_be_visible()
    assert faults == []


def test_a_job_that_ended_without_a_figure_is_asked_for_its_curves_once(portal: Portal, desk: BrowserContext) -> None:
    """determined#9714: the page of a cancelled trial without metrics fetched them for ever."""
    page = desk.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/jobs/{portal.seeds.names['printing']}/")
    expect(page.get_by_text("No loss was read from the log of this job.")).to_be_visible()
    page.wait_for_load_state("networkidle")
    fetched = [url for url in asked if re.search(r"/(series|points)\b", url)]
    assert fetched
    assert len(fetched) == len(set(fetched))
