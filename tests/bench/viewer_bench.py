"""The log card in a browser, served as in production: a burst of 40,000 lines, then 10,000 lines a second for a minute.

What the browser itself tells is measured: tasks of its page that took longer than 50 ms, and frames that were drawn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, sync_playwright

from deploy.local.browser import chromium
from tests.bench.database import test_database
from tests.bench.figure import Figure

BURST, RATE, SECONDS, FRAME_LINES = 40_000, 10_000, 60, 500

WATCH = """() => {
    const told = window.told = {frames: [], tasks: [], rows: 0, seen: 0, awaited: -1};
    const draw = () => { told.frames.push(performance.now()); requestAnimationFrame(draw); };
    requestAnimationFrame(draw);
    new PerformanceObserver(list => told.tasks.push(...list.getEntries().map(({duration}) => duration)))
        .observe({entryTypes: ['longtask']});
    const look = () => {
        told.rows = Math.max(told.rows, document.querySelectorAll('.log-line').length);
        const last = document.querySelector('.log-block:last-child > .log-line:last-child .text');
        if (last?.textContent.startsWith(`line ${told.awaited} `)) told.seen ||= Date.now();
    };
    new MutationObserver(look).observe(document.getElementById('log-rows'), {childList: true, subtree: true});
}"""
ANEW = "awaited => Object.assign(window.told, {frames: [], tasks: [], seen: 0, awaited})"


def figures() -> Iterator[Figure]:
    with _served() as (url, topic, path, cookie), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium()), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=url)
        context.add_cookies([{"name": "sessionid", "value": cookie, "url": url}])
        page = context.new_page()
        _write(topic, 1, 1000)
        page.goto(path)
        page.wait_for_selector(".log-line")
        page.evaluate(WATCH)
        yield from _burst(page, topic, 1001)
        yield from _stream(page, topic, 1001 + BURST)
        yield Figure("viewer-rows", page.evaluate("told.rows"), "rows", None, 5000)
        browser.close()


def _burst(page: Page, topic: str, first: int) -> Iterator[Figure]:
    last = first + BURST - 1
    page.evaluate(ANEW, last)
    start = time.time()
    _write(topic, first, last)
    _await_seen(page, 60)
    told = page.evaluate("told")
    yield Figure("viewer-burst", told["seen"] / 1000 - start, "s", None, 1)
    yield Figure("viewer-burst-task", max(told["tasks"], default=0), "ms", None, 50)


def _stream(page: Page, topic: str, first: int) -> Iterator[Figure]:
    last = first + RATE * SECONDS - 1
    page.evaluate(ANEW, last)
    writer = threading.Thread(target=_write_paced, args=(topic, first, last))
    writer.start()
    _await_seen(page, SECONDS + 60)
    writer.join()
    told = page.evaluate("told")
    frames = told["frames"]
    seconds = [0] * (int((frames[-1] - frames[0]) / 1000) + 1)
    for frame in frames:
        seconds[int((frame - frames[0]) / 1000)] += 1
    whole = sorted(seconds[:-1])
    yield Figure("viewer-frame", (frames[-1] - frames[0]) / (len(frames) - 1), "ms", None, 1000 / 30)
    yield Figure("viewer-frame-worst", 1000 / max(whole[0], 1), "ms", None, 1000 / 30)
    yield Figure("viewer-task", max(told["tasks"], default=0), "ms", None, 50)
    yield Figure("viewer-tasks-over-50", len(told["tasks"]), "tasks", None, 0)


def _await_seen(page: Page, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not page.evaluate("told.seen"):
        if time.monotonic() > until:
            raise TimeoutError("The last line was never shown.")
        page.wait_for_timeout(500)


def _write_paced(topic: str, first: int, last: int) -> None:
    start = time.monotonic()
    for number in range(first, last + 1, FRAME_LINES):
        time.sleep(max(0.0, start + (number - first) / RATE - time.monotonic()))
        _write(topic, number, number + FRAME_LINES - 1)


def _write(topic: str, first: int, last: int) -> None:
    """Lines as a follower writes them."""
    from apps.streams import services as streams

    now, source = time.time_ns(), streams.Source(0, 1, "worker-0")
    for start in range(first, last + 1, FRAME_LINES):
        lines = [
            streams.LogLine(now, "INFO", 0, n, f"line {n} Loss: 2.4561, LR: 1.5e-4, Grad Norm: 0.91, Tokens/s: 21500")
            for n in range(start, min(start + FRAME_LINES, last + 1))
        ]
        streams.append(topic, streams.LogFrame(source, lines))


@contextmanager
def _served() -> Iterator[tuple[str, str, str, str]]:
    """The portal on the tests' database: its address, a job's topic and path, and a session of somebody who sees it."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # Playwright keeps an event loop in this thread
    with test_database() as database, TemporaryDirectory() as static:
        from apps.streams import services as streams
        from tests import factories
        from tests.prove.conftest import Portal, environment_of
        from tests.prove.seeded import cookie_of

        world = factories.World.make()
        job = factories.job(world.scientist, world.place)
        streams.forget(job.topic)
        env: dict[str, Any] = environment_of(database, Path(static))
        subprocess.run([sys.executable, "manage.py", "collectstatic", "--noinput", "-v0"], env=env, check=True)
        portal = Portal(env["MAAS_BASE_URL"], None, env)
        portal.start()
        try:
            yield portal.url, job.topic, f"/jobs/{job.pk}/", cookie_of(world.scientist)
        finally:
            portal.stop()
