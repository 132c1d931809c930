"""Every page × two widths × two themes × two languages: nothing overflows, no error, no CSP violation, no axe finding.

Writes one contact sheet a page to var/prove/, to be looked at.
"""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.prove.conftest import Portal
from tests.prove.scenes import SCENES

ROOT = Path(__file__).parents[2]
SHEETS = ROOT / "var" / "prove"
AXE = ROOT / "node_modules/axe-core/axe.min.js"
TALLEST = 1600
SETTLE_MS = 700
WIDTHS, THEMES, LANGUAGES = (1440, 390), ("light", "dark"), ("en", "zh-hans")

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(600)]


S = "data-scientist"
PAGES: dict[str, tuple[str, str]] = {
    "home": (S, "/"),
    "home-empty": ("nobody", "/"),
    "jobs": (S, "/jobs/"),
    "jobs-none-fits": (S, "/jobs/?state=failed&q=nothing-like-it"),
    "job-running": (S, "/jobs/{running}/"),
    "job-restarted": ("viewer", "/jobs/{restarted}/?tab=history"),
    "job-failed": (S, "/jobs/{failed}/?tab=manifests"),
    "job-waiting": (S, "/jobs/{waiting}/"),
    "job-silent": (S, "/jobs/{silent}/"),
    "job-stop": (S, "/jobs/{running}/stop"),
    "new": (S, "/jobs/new"),
    "drafts": (S, "/drafts/"),
    "draft-data": (S, "/drafts/{draft}/data"),
    "draft-size": (S, "/drafts/{draft}/size"),
    "draft-review": (S, "/drafts/{draft}/review"),
    "draft-broken": (S, "/drafts/{broken}/data?check=1"),
    "draft-broken-review": (S, "/drafts/{broken}/review"),
    "draft-refused": (S, "/drafts/{cloned}/review"),
    "draft-discard": (S, "/drafts/{draft}/discard"),
    "audit": ("auditor", "/audit/"),
    "help": (S, "/help/"),
    "settings": (S, "/settings/"),
    "permissions": ("viewer", "/permissions/"),
    "sign-in": ("", "/sign-in/"),
    "not-found": (S, "/jobs/01NOTTHERE/"),
    "not-allowed": ("viewer", "/jobs/new"),
}
EXPECTED_ERRORS = {"not-found": 404, "not-allowed": 403}
for scene in SCENES:
    PAGES.update(scene.PAGES)
    EXPECTED_ERRORS.update(getattr(scene, "EXPECTED_ERRORS", {}))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_eight_variants(name: str, portal: Portal, chrome: Browser) -> None:
    person, path = PAGES[name]
    seeds = portal.seeds
    address = portal.url + path.format(**seeds.names)
    cookie = seeds.cookies.get(person, "")
    variants = list(itertools.product(WIDTHS, LANGUAGES, THEMES))
    windows = [window(chrome, portal.url, cookie, variant) for variant in variants]
    visits = [Visit(one, address, variant, name) for one, variant in zip(windows, variants, strict=True)]
    visits[-1].settle()  # what all of them wait for, they wait for together
    shots: list[tuple[int, bytes]] = []
    faults: list[str] = []
    for visit, (width, language, theme) in zip(visits, variants, strict=True):
        found, shot = visit.judge()
        faults += [f"{width} {language} {theme}: {fault}" for fault in found]
        shots.append((width, shot))
        visit.page.context.close()
    sheet(chrome, name, shots)
    assert not faults, "\n".join(faults)


_LISTEN = """
window.__faults = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__faults.push(`CSP ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def window(browser: Browser, site: str, session: str, variant: tuple[int, str, str]) -> BrowserContext:
    """A browser window of somebody who is signed in, of a width, in a language and a theme."""
    width, language, theme = variant
    context = browser.new_context(viewport={"width": width, "height": 900}, timezone_id="Asia/Shanghai")
    cookies = {"sessionid": session, "django_language": language, "theme": theme}
    root = urljoin(site, "/")  # of a page's own address they would reach that page, and not its socket
    context.add_cookies([{"name": k, "value": v, "url": root} for k, v in cookies.items() if v])
    context.add_init_script(_LISTEN)
    return context


class Visit:
    """One page in a window; `faults` gathers what its console complains of."""

    def __init__(self, context: BrowserContext, address: str, variant: tuple[int, str, str], name: str) -> None:
        self.width, self.language, self.theme = variant
        self.expected = EXPECTED_ERRORS.get(name, 200)
        self.faults: list[str] = []
        self.page = context.new_page()
        self.page.on("console", lambda said: self._said(said.type, said.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"script {error}"))
        self.answer = self.page.goto(address, wait_until="load")

    def _said(self, kind: str, text: str) -> None:
        # The browser reports the page's own status as an error.
        if kind in ("error", "warning") and (self.expected == 200 or "Failed to load resource" not in text):
            self.faults.append(f"console {text}")

    def settle(self) -> None:
        """Let scripts run and parts come that the page asks for by itself."""
        self.page.wait_for_timeout(SETTLE_MS)

    def judge(self, *, contrast: bool = True) -> tuple[list[str], bytes]:
        """What is wrong with it, and its picture. It is closed then. `contrast`: look at each text's colours too."""
        page, faults = self.page, self.faults
        try:
            if self.answer is None or self.answer.status != self.expected:
                faults.append(f"status {self.answer and self.answer.status}")
            faults += page.evaluate("window.__faults")
            if page.evaluate("document.documentElement.lang") != self.language:
                faults.append("wrong language")
            if page.evaluate("document.documentElement.dataset.bsTheme") != self.theme:
                faults.append("wrong theme")
            faults += _overflow(page, self.width) + _axe(page, contrast=contrast)
            # A window as high as the page, so that what is fixed to its edges stands there in the picture too.
            height = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({"width": self.width, "height": min(max(height, 700), TALLEST)})
            return faults, page.screenshot(type="jpeg", quality=80)
        finally:
            page.close()


def look(
    browser: Browser, address: str, session: str, variant: tuple[int, str, str], name: str
) -> tuple[list[str], bytes]:
    """Visit one page in a window of its own and judge it."""
    with window(browser, address, session, variant) as context:
        visit = Visit(context, address, variant, name)
        visit.settle()
        return visit.judge()


def _overflow(page: Page, width: int) -> list[str]:
    wide = page.evaluate("document.documentElement.scrollWidth")
    return [f"{wide} px wide"] if wide > width else []


def _axe(page: Page, *, contrast: bool) -> list[str]:
    page.evaluate(AXE.read_text())
    rules = {"color-contrast": {"enabled": contrast}}
    found = page.evaluate("rules => axe.run(document, {rules, resultTypes: ['violations']})", rules)
    return [
        f"axe {one['id']} ({len(one['nodes'])}): {node['html'][:160]} {node['failureSummary'][:200]}"
        for one in found["violations"]
        for node in one["nodes"][:1]
    ]


def sheet(browser: Browser, name: str, shots: list[tuple[int, bytes]]) -> None:
    """Eight pictures on one: the wide ones above, the narrow ones below."""
    SHEETS.mkdir(parents=True, exist_ok=True)
    pictures = "".join(
        f'<img class="w{width}" src="data:image/jpeg;base64,{base64.b64encode(shot).decode()}">'
        for width, shot in shots
    )
    style = "body{margin:8px;background:#888;display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start}"
    page = browser.new_page(viewport={"width": 1900, "height": 600})
    page.set_content(f"<style>{style} .w1440{{width:936px}} .w390{{width:312px}}</style>{pictures}")
    page.screenshot(path=str(SHEETS / f"{name}.png"), full_page=True)
    page.close()
