"""Each page as each of five people: it opens or says why not, and leads on; some are looked at as each sees them."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser

from tests.prove.conftest import Portal
from tests.prove.test_pages import EXPECTED_ERRORS, PAGES, look, sheet

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(600)]

PEOPLE = ("data-scientist", "viewer", "team-admin", "auditor", "platform-operator")
SEEN = ("home", "jobs", "job-running", "models")
"""These are looked at, the others only read."""


@pytest.mark.parametrize("person", PEOPLE)
def test_every_page_opens_or_says_why_not(person: str, portal: Portal, chrome: Browser) -> None:
    seeds, faults, reader = portal.seeds, list[str](), chrome.new_page()
    cookies = {"sessionid": seeds.cookies[person], "django_language": "en"}
    with httpx.Client(base_url=portal.url, cookies=cookies, trust_env=False, timeout=30) as client:
        for name, (_who, path) in PAGES.items():
            if name in EXPECTED_ERRORS or name == "sign-in":
                continue
            answer = client.get(path.format(**seeds.names))
            if answer.status_code not in (200, 403, 404):
                faults.append(f"{name}: {answer.status_code}")
                continue
            faults += [f"{name}: {fault}" for fault in reader.evaluate(_DEAD_ENDS, answer.text)]
    reader.close()
    assert not faults, "\n".join(faults)


_DEAD_ENDS = """text => {
  const page = new DOMParser().parseFromString(text, "text/html");
  return page.querySelector("main a[href], main button, nav a[href]") ? [] : ["leads nowhere"];
}"""


@pytest.mark.parametrize("name", SEEN)
def test_a_page_as_each_who_may_see_it(name: str, portal: Portal, chrome: Browser) -> None:
    seeds, faults, shots = portal.seeds, list[str](), list[tuple[int, bytes]]()
    address = portal.url + PAGES[name][1].format(**seeds.names)
    for person in PEOPLE:
        cookie = seeds.cookies[person]
        if httpx.get(address, cookies={"sessionid": cookie}, trust_env=False, timeout=30).status_code != 200:
            continue
        found, shot = look(chrome, address, cookie, (1440, "en", "light"), name)
        faults += [f"{person}: {fault}" for fault in found]
        shots.append((1440, shot))
    sheet(chrome, f"people-{name}", shots)
    assert shots
    assert not faults, "\n".join(faults)
