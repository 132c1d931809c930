"""A TensorBoard of a job through the whole stack: volume, pod, gateway, and the browser that it lets in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.needs import require
from tests.prove import stack as kit
from tests.prove.browser import PHASE_MS, choose_in_menu, desk
from tests.prove.stack import Stack, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(420)]

DOCUMENT = {
    "template": "command", "name": f"scalars {os.urandom(4).hex()}", "ranks": 1, "attempts": 1, "image": "maas/charlm:1",
    "command": "python -m deploy.workloads.charlm --steps 20 --events-dir /checkpoints/runs/first",
}  # fmt: skip


def scalars(context: BrowserContext, board: str) -> dict[str, object]:
    """The runs that have scalars by TensorBoard's own word, with the browser's cookies."""
    answer = context.request.get(f"{board}data/plugin/scalars/tags")
    return dict(answer.json()) if answer.ok else {}


def entered(page: Page) -> Page:
    with page.expect_popup() as opened:
        page.locator("#board-enter").click()
    opened.value.wait_for_load_state()
    return opened.value


@contextmanager
def ending(stack: Stack, job: str) -> Iterator[None]:
    """However the test ends, its TensorBoard holds no place of the cluster's few afterwards."""
    try:
        yield
    finally:
        stack.rest().http.delete(f"jobs/{job}/board")


def test_it_shows_a_jobs_scalars_until_it_is_ended_or_its_reader_signs_out(chrome: object, stack: Stack) -> None:
    pytest.importorskip("tensorboard")
    require("envoy", "chromium")
    stack.await_all()
    job = stack.rest().submit(DOCUMENT)
    stack.rest().await_phase(job, "succeeded")
    with ending(stack, job), desk(chrome, stack, kit.SCIENTIST) as scientist, desk(chrome, stack, kit.ADMIN) as admin:  # type: ignore[arg-type]
        page, context = scientist.page, scientist.page.context
        page.goto(f"/jobs/{job}/")
        page.locator("#board-open").click()
        expect(page.locator("#tensorboard")).to_have_attribute("data-state", "ready", timeout=PHASE_MS)
        shown = entered(page)
        expect(shown).to_have_title("TensorBoard", timeout=30_000)  # the gateway may not lead there yet
        board = shown.url.partition("#")[0]
        until(lambda: "runs/first" in scalars(context, board), 60, what="TensorBoard has read the job's scalars")
        admin.page.goto(f"/jobs/{job}/")
        theirs = entered(admin.page)
        choose_in_menu(admin.page, "Account", "Sign out")
        expect(admin.page.get_by_role("heading", name="You are signed out")).to_be_visible(timeout=20_000)
        answer = theirs.reload()
        assert answer
        assert answer.status == 401
        expect(theirs.get_by_role("link")).to_have_attribute("href", f"{stack.url}/jobs/{job}/")
        assert scalars(context, board), "only hers is over"
        page.locator("#board-end").click()
        expect(page.locator("#tensorboard")).to_have_attribute("data-state", "ended")
        answer = shown.reload()
        assert answer
        assert answer.status == 404
        expect(shown.get_by_text("This TensorBoard has ended")).to_be_visible()
        pods = {"labelSelector": "maas.portal/board"}
        until(lambda: not stack.cluster.items(stack.cluster.PODS, **pods), 60, what="its pod is gone")
