"""Lists of 10,000: each page still holds, says so many in its language's figures, and leads on by key."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from playwright.sync_api import Browser

from tests.prove.conftest import Portal
from tests.prove.test_pages import look, sheet

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(600)]

VARIANTS = ((1440, "en", "light"), (390, "zh-hans", "dark"))
S, OPERATOR = "data-scientist", "platform-operator"
LISTS = {
    "jobs": (S, "/jobs/"),
    "models": (S, "/models/"),
    "deployments": (S, "/deployments/"),
    "quota": ("team-admin", "/quota/"),
    "quota-all": (OPERATOR, "/quota/"),
    "secrets": (S, "/secrets/"),
    "tenants": (OPERATOR, "/tenants/"),
    "tenant-requests": (OPERATOR, "/tenant-requests/"),
    "audit": ("auditor", "/audit/"),
    "inbox": (S, "/inbox/"),
    "settings": (S, "/settings/"),
    "members": (S, "/tenants/nlp/"),
    "versions": (S, "/models/{served_model}/?tab=versions"),
    "files": (S, "/models/{served_model}/?version=1&tab=files"),
    "stages": (S, "/models/{served_model}/?version=1&tab=history"),
}
WHOLE = {"drafts": (S, "/drafts/"), "home": (S, "/"), "home-operator": (OPERATOR, "/")}
"""Pages that show the newest of many and need no further ones."""
TALLEST_LINKS = 400
"""More than this on one page and it shows too many rows."""


@pytest.fixture(scope="module")
def crowded(portal: Portal, django_db_blocker: Any) -> Portal:
    from apps.catalog.models import ModelVersion
    from tests.prove.crowd import gather

    seeds = portal.seeds
    with django_db_blocker.unblock():
        job = seeds.running
        gather(job.owner, job.placement, ModelVersion.objects.get(pk=seeds.names["served_version"]))
    return portal


@pytest.mark.parametrize("name", [*LISTS, *WHOLE])
def test_a_list_of_ten_thousand_holds(name: str, crowded: Portal, chrome: Browser) -> None:
    person, address = (LISTS | WHOLE)[name]
    path = address.format(**crowded.seeds.names)
    cookie = crowded.seeds.cookies[person]
    faults: list[str] = []
    shots: list[tuple[int, bytes]] = []
    for variant in VARIANTS:
        found, shot = look(chrome, crowded.url + path, cookie, variant, name="")
        faults += [f"{variant}: {fault}" for fault in found]
        shots.append((variant[0], shot))
    sheet(chrome, f"full-{name}", shots)
    with httpx.Client(base_url=crowded.url, cookies={"sessionid": cookie}, trust_env=False, timeout=30) as client:
        first = client.get(path).text
        if (links := first.count("<a ")) > TALLEST_LINKS:
            faults.append(f"{links} links on one page")
        if name in LISTS:
            faults += _leads_on(client, path, first)
    assert not faults, "\n".join(faults)


def _leads_on(client: httpx.Client, path: str, first: str) -> list[str]:
    """What is wrong with the way to the page after the first."""
    on = re.search(r'href="([^"]*\?[^"]*(before|after)=[^"]+)" rel="next"', first)
    if on is None:
        return ["no way to further rows"]
    answer = client.get(urljoin(path, html.unescape(on[1])))
    back = "after" if on[2] == "before" else "before"
    if answer.status_code != 200 or not re.search(rf'[?&;-]{back}=[^"]+" rel="prev"', answer.text):
        return [f"the next page answers {answer.status_code}, or leads not back"]
    return []
