"""A person at a browser, on a running demo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect

from tests.prove.stack import Line, Stack

PHASE_MS = 90_000
"""A rank takes its time to start on a small machine that also runs the whole demo and a browser."""


OUTAGE = "Failed to load resource|WebSocket connection|ERR_INTERNET|htmx:(sendError|afterRequest)"


@dataclass
class Desk:
    """One person's browser window, signed in. `faults` gathers what its consoles complain of."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("pageerror", lambda error: self.faults.append(f"{self.page.url}: {error}"))
        self.page.on("console", lambda said: self._said(said.type, said.text))

    def _said(self, kind: str, text: str) -> None:
        # Chromium itself and htmx report every request that failed, which is what an outage is made of.
        if kind == "error" and not re.search(OUTAGE, text):
            self.faults.append(f"{self.page.url}: {text}")


@contextmanager
def desk(chrome: Browser, stack: Stack, username: str, language: str = "en") -> Iterator[Desk]:
    """Sign in as a person does: from the portal's own page to the provider's form and back."""
    context = chrome.new_context(viewport={"width": 1440, "height": 900}, base_url=stack.url, locale=language)
    try:
        one = Desk(context.new_page())
        one.listen()
        sign_in(one.page, username, stack.password(username))
        yield one
        assert one.faults == [], one.faults
    finally:
        context.close()


def sign_in(page: Page, username: str, password: str) -> None:
    page.goto("/")
    page.locator("main a.btn-ink").click()
    page.locator("#username").fill(username)
    page.locator("#password").fill(password)
    page.locator("button[type=submit]").click()
    expect(page.locator("nav.rail")).to_be_visible(timeout=20_000)


class Office:
    """Several people, each at a desk of their own, at which they sit down when they are first needed."""

    def __init__(self, chrome: Browser, stack: Stack) -> None:
        self._chrome, self._stack = chrome, stack
        self._opened, self._pages = ExitStack(), dict[str, Page]()

    def __enter__(self) -> Office:
        return self

    def __exit__(self, *trouble: Any) -> bool | None:
        return self._opened.__exit__(*trouble)

    def page(self, username: str) -> Page:
        if username not in self._pages:
            self._pages[username] = self._opened.enter_context(desk(self._chrome, self._stack, username)).page
        return self._pages[username]

    def sign_in_again(self, username: str) -> None:
        """Out by the menu, and in anew."""
        page = self.page(username)
        choose_in_menu(page, "Account", "Sign out")
        expect(page.get_by_role("heading", name="You are signed out")).to_be_visible(timeout=20_000)
        sign_in(page, username, self._stack.password(username))


def choose_in_menu(page: Page, menu: str, entry: str) -> None:
    """An entry of one of the menus at the top."""
    page.locator("header summary", has_text=f"{menu}:").click()
    page.locator("header").get_by_role("button", name=entry).click()


def go(page: Page, place: str) -> None:
    """To a place of the rail."""
    page.get_by_role("navigation", name="Main navigation").get_by_role("link", name=place, exact=True).click()
    expect(page.get_by_role("link", name=place, exact=True).first).to_have_attribute("aria-current", "page")


def needs(page: Page, text: str) -> Locator:
    """The way to what an open Home says needs this person, by words of it; it comes without a reload."""
    region = page.get_by_role("region", name="Needs you")
    return region.get_by_role("listitem").filter(has_text=text).get_by_role("link")


def all_text(page: Page) -> str:
    """Everything the page holds, and what stands in its fields."""
    typed = page.locator("input, textarea, select").evaluate_all("fields => fields.map(field => field.value)")
    return "\n".join([page.content(), *typed])


def shown_phase(page: Page) -> str:
    return page.locator("#state").get_attribute("data-phase") or ""


def unfolded(page: Page, label: str) -> Locator:
    """A field whose section stays folded until somebody wants it."""
    field = page.get_by_label(label)
    field.wait_for(state="attached")
    if not field.is_visible():
        page.locator("details", has=field).locator("summary").click()
    return field


def await_phase(page: Page, phase: str, milliseconds: int = PHASE_MS) -> None:
    """Wait for the open page to show a phase, without reloading it."""
    expect(page.locator("#state")).to_have_attribute("data-phase", phase, timeout=milliseconds)


def log_texts(page: Page) -> list[str]:
    """Rank and text of each line that the log shows, in its order; a declared gap as the words that declare it."""
    script = """box => [...box.querySelectorAll('.log-line, .log-gap')].map(
        line => line.matches('.log-gap') ? line.textContent
            : `${line.querySelector('.rank').textContent} ${line.lastElementChild.textContent}`)"""
    return list(page.locator("#log").evaluate(script))


def as_shown(lines: list[Line]) -> list[str]:
    """Lines of the REST log in the words of `log_texts`, for a page in English."""
    return [f"rank {rank} {text}" for _attempt, rank, _at, text in lines]


def loss_table(page: Page) -> dict[int, dict[int, float]]:
    """Loss by step, by attempt, from the table behind the chart."""
    if page.locator("#loss-table").is_hidden():
        page.locator("#loss-table-toggle").click()
    rows = page.locator("#loss-table tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    found: dict[int, dict[int, float]] = {}
    for _curve, attempt, step, loss in rows:
        found.setdefault(int(attempt), {})[int(step.replace(",", ""))] = float(loss.replace(",", ""))
    return found
