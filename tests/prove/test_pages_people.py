"""Each page as each of five people: it opens or says why not, leads only where they may go, offers only what they may
do; and one page of each kind is looked at as each who may see it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from urllib.parse import urldefrag, urljoin

import httpx
import pytest
from django.urls import Resolver404, ResolverMatch, resolve
from playwright.sync_api import Browser, BrowserContext, Page

from tests.prove.conftest import Portal
from tests.prove.test_pages import EXPECTED_ERRORS, PAGES, Visit, sheet, window
from tests.test_access_table import PEOPLE as COLUMNS
from tests.test_access_table import TABLE

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(600)]

PEOPLE = ("data-scientist", "viewer", "team-admin", "auditor", "platform-operator")
COLUMN = dict(
    zip(PEOPLE, map(COLUMNS.index, ("scientist", "viewer", "team admin", "auditor", "operator")), strict=True)
)
LOOK = (1440, "en", "light")
SAME_LINKS = 3
MADE_UP = "01PROVEDINASCENE"
"""A job that is only in a scene's audit entries."""
IN_TURN = ("quotas:approve",)
"""Acts that one person may do at one step and another at the next; the access table has a request at the first."""


def _view(path: str) -> ResolverMatch:
    """What answers an address; `{names}` in it stand for any id."""
    for any_id in ("1", "00000000-0000-0000-0000-000000000000"):
        try:
            return resolve(re.split("[?#]", re.sub(r"{\w+}", any_id, path))[0])
        except Resolver404:
            pass
    raise Resolver404(path)


def _kinds() -> dict[str, str]:
    """The first page of each view, and of each of its tabs: from a name for both of them to the page's."""
    found: dict[str, str] = {}
    for name, (_who, path) in PAGES.items():
        view, tab = _view(path), re.search(r"tab=(\w+)", path)
        kind = "-".join([view.view_name.replace(":", "-"), *([tab[1]] if tab else [])])
        if name not in EXPECTED_ERRORS and name != "sign-in":
            found.setdefault(kind, name)
    return found


KINDS = _kinds()


@pytest.mark.parametrize("person", PEOPLE)
def test_every_page_opens_or_says_why_not_and_leads_on(person: str, portal: Portal, chrome: Browser) -> None:
    seeds, faults, reader = portal.seeds, list[str](), chrome.new_page()
    cookies = {"sessionid": seeds.cookies[person], "django_language": "en"}
    links: dict[str, str] = {}
    with httpx.Client(base_url=portal.url, cookies=cookies, trust_env=False, timeout=30) as client:
        for name, (_who, path) in PAGES.items():
            if name in EXPECTED_ERRORS or name == "sign-in":
                continue
            address = path.format(**seeds.names)
            answer = client.get(address)
            if answer.status_code not in (200, 403, 404):
                faults.append(f"{name}: {answer.status_code}")
                continue
            found = reader.evaluate(_WAYS_ON, answer.text)
            if not found["ends"]:
                faults.append(f"{name}: leads nowhere")
            faults += [f"{name}: offers {act}" for act in found["acts"] if _is_refused(person, urljoin(address, act))]
            for link in _some_of_each(urldefrag(urljoin(address, link)).url for link in found["links"]):
                links.setdefault(link, name)
        for link, name in links.items():
            if (status := client.get(link).status_code) >= 400:
                faults.append(f"{name}: leads to {link}, {status}")
    reader.close()
    assert not faults, "\n".join(faults)


_WAYS_ON = """text => {
  const page = new DOMParser().parseFromString(text, "text/html");
  const all = (what, name) => [...page.querySelectorAll(what)].map(one => one.getAttribute(name) ?? "");
  return {
    ends: page.querySelectorAll("main a[href], main button, nav a[href]").length,
    links: all("a[href]", "href"),
    acts: all("form[method=post]:has(button:not([disabled]))", "action"),
  };
}"""


def _some_of_each(links: Iterable[str]) -> Iterable[str]:
    """A page's links into the portal, but of long lists only the first."""
    seen: Counter[str] = Counter()
    for link in links:
        if link.startswith("/") and not link.startswith("/static/") and MADE_UP not in link:
            kind = _view(link).view_name
            seen[kind] += 1
            if seen[kind] <= SAME_LINKS:
                yield link


def _is_refused(person: str, act: str) -> bool:
    """Whether the access table refuses a button's POST to this person."""
    name = _view(urldefrag(act).url).view_name
    return name not in IN_TURN and TABLE[name, "POST"].split()[COLUMN[person]] == "403"


@pytest.fixture(scope="module")
def windows(portal: Portal, chrome: Browser) -> dict[str, BrowserContext]:
    """A browser window for each person, in which they go from page to page."""
    return {person: window(chrome, portal.url, portal.seeds.cookies[person], LOOK) for person in PEOPLE}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_as_each_who_may_see_it(
    kind: str, portal: Portal, windows: dict[str, BrowserContext], chrome: Browser
) -> None:
    name = KINDS[kind]
    address = portal.url + PAGES[name][1].format(**portal.seeds.names)
    visits = {person: Visit(windows[person], address, LOOK, name) for person in PEOPLE}
    visits[PEOPLE[-1]].settle()
    faults, shots = list[str](), list[tuple[int, bytes]]()
    for person, visit in visits.items():
        if visit.answer is None or visit.answer.status in (403, 404):
            visit.page.close()
            continue
        faults += [f"{person}: {fault}" for fault in visit.page.evaluate(_LEFT_BLANK) + _raw_ids(visit.page)]
        found, shot = visit.judge(contrast=False)  # which costs most, and is the same for everybody
        faults += [f"{person}: {fault}" for fault in found]
        shots.append((LOOK[0], shot))
    sheet(chrome, f"people-{kind}", shots)
    assert shots
    assert not faults, "\n".join(faults)


_LEFT_BLANK = """() => [...document.querySelectorAll("main table")].flatMap(table => {
  const rows = [...table.tBodies].flatMap(body => [...body.rows]);
  const heads = table.tHead && table.tHead.rows.length === 1 ? [...table.tHead.rows[0].cells] : [];
  const blank = cell => !cell || !cell.innerText.trim() && !cell.querySelector("svg, input, .bar, .spark");
  const named = (head, at) => head.innerText.trim() && !head.querySelector(".visually-hidden") && head.offsetParent
      && rows.every(row => row.cells.length === heads.length && blank(row.cells[at]));
  return rows.length ? heads.filter(named).map(head => `nothing below “${head.innerText}”`) : [];
})"""


def _raw_ids(page: Page) -> list[str]:
    """Ids of rows among what is written for people; in monospaced text they are names of objects."""
    text = page.evaluate("""() => {
      const main = document.querySelector("main").cloneNode(true);
      for (const one of main.querySelectorAll("code, pre, script, .mono, .log, textarea")) one.remove();
      return main.textContent;
    }""")
    found = re.findall(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\buser:[0-9a-f]{8}", text)
    return [f"shows the id {one}" for one in found[:3]]
