"""Draws pictures for README and docs: `python -m deploy.local.screenshot` starts a demo of its own and uses it.

A data scientist trains, registers the checkpoint and deploys it; the job's page and the deployment's are photographed,
and the operator's fleet while both are there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from deploy.local.browser import chromium
from deploy.local.stack import TREE
from deploy.local.testing import RunningDemo, demo

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
WATCHED_SECONDS = 40
"""How long the job has trained when the picture is taken."""
LONG_MS = 180_000


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.screenshot", description=__doc__)
    parser.add_argument("--out", type=Path, default=TREE / "docs/images", help="the folder for the pictures")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder)) as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        page = _signed_in(browser, running, "chen.jing")
        _train(page, running.url)
        page.wait_for_timeout(WATCHED_SECONDS * 1000)
        page.screenshot(path=str(options.out / "job.png"))
        page.locator("#state[data-phase=succeeded]").wait_for(timeout=LONG_MS)
        _deploy(page)
        page.screenshot(path=str(options.out / "deployment.png"))
        _train(page, running.url)
        operator = _signed_in(browser, running, "zhao.lei")
        operator.set_viewport_size({"width": 1440, "height": 680})
        operator.goto(f"{running.url}/fleet/")
        operator.get_by_role("heading", name="Who leaves pieces").wait_for()
        operator.screenshot(path=str(options.out / "fleet.png"))
        browser.close()
    print(options.out)
    return 0


def _signed_in(browser: Browser, running: RunningDemo, name: str) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 1180}, locale="en")
    page.goto(running.url)
    page.locator("a.btn-ink").click()
    page.fill("input[name=username]", name)
    page.fill("input[type=password]", running.people()[name]["password"])
    page.keyboard.press("Enter")
    page.wait_for_url(f"{running.url}/**")
    return page


def _train(page: Page, url: str) -> None:
    page.goto(f"{url}/jobs/new")
    page.locator("main form button").first.click()
    page.fill("input[name=name]", "first light")
    page.get_by_role("button", name="Size and queue").first.click()
    page.get_by_role("button", name="Review job").first.click()
    page.get_by_role("button", name="Submit to").first.click()
    page.get_by_text("Running", exact=True).first.wait_for(timeout=60_000)


def _deploy(page: Page) -> None:
    """From the page of a job that has ended to an answer of the model it trained."""
    page.get_by_role("link", name="Register as model").click()
    page.get_by_label("Name", exact=True).fill("first-light")
    page.get_by_label("Licence").fill("Apache-2.0")
    page.get_by_role("button", name="Register model").click()
    page.locator("#state[data-files=ready]").wait_for(timeout=LONG_MS)
    page.get_by_role("link", name="Deploy v1").click()
    page.get_by_label("Name", exact=True).fill("first-light")
    page.get_by_role("button", name="Deploy to").click()
    page.locator("#state[data-phase=ready]").wait_for(timeout=LONG_MS)
    page.get_by_label("at most").fill("60")
    page.get_by_role("textbox", name="Question", exact=True).fill("Once upon a time")
    page.get_by_role("button", name="Send").click()
    page.get_by_text("tokens/s").wait_for(timeout=LONG_MS)
    page.get_by_text("tokens in").first.wait_for(timeout=LONG_MS)  # its line in the log


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
