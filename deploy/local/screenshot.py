"""Draws docs/images/job.png: `python -m deploy.local.screenshot` starts a demo of its own, trains, and looks.

A data scientist signs in, submits the template job, and the page of the running job is photographed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from deploy.local.browser import chromium
from deploy.local.stack import TREE
from deploy.local.testing import demo

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
WATCHED_SECONDS = 40
"""How long the job has trained when the picture is taken."""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.screenshot", description=__doc__)
    parser.add_argument("--out", type=Path, default=TREE / "docs/images/job.png")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, demo(Path(folder)) as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1440, "height": 1180}, locale="en")
        _sign_in(page, running.url, "chen.jing", running.people()["chen.jing"]["password"])
        _submit(page, running.url)
        page.wait_for_timeout(WATCHED_SECONDS * 1000)
        page.screenshot(path=str(options.out))
        browser.close()
    print(options.out)
    return 0


def _sign_in(page: Page, url: str, name: str, password: str) -> None:
    page.goto(url)
    page.locator("a.btn-ink").click()
    page.fill("input[name=username]", name)
    page.fill("input[type=password]", password)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/**")


def _submit(page: Page, url: str) -> None:
    page.goto(f"{url}/jobs/new")
    page.locator("main form button").first.click()
    page.fill("input[name=name]", "first light")
    page.get_by_role("button", name="Size and queue").first.click()
    page.get_by_role("button", name="Review job").first.click()
    page.get_by_role("button", name="Submit to").first.click()
    page.get_by_text("Running", exact=True).first.wait_for(timeout=60_000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
