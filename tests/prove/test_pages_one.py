"""Lists of one row: the page still holds, counts in the singular, and offers no other page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.prove.conftest import Portal
from tests.prove.one import One, one_of_each
from tests.prove.test_pages import Visit, sheet, window

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(600)]

VARIANTS = ((1440, "en", "light"), (390, "zh-hans", "dark"))
S, OPERATOR = "data-scientist", "platform-operator"
PAGES = {
    "home": (S, "/"),
    "home-operator": (OPERATOR, "/"),
    "jobs": (S, "/jobs/"),
    "job": (S, "/jobs/{job}/"),
    "drafts": (S, "/drafts/"),
    "models": (S, "/models/"),
    "model": (S, "/models/{model}/"),
    "versions": (S, "/models/{model}/?tab=versions"),
    "files": (S, "/models/{model}/?tab=files"),
    "stages": (S, "/models/{model}/?tab=history"),
    "model-delete": (S, "/models/{model}/delete"),
    "deployments": (S, "/deployments/"),
    "deployment-choose": (S, "/deployments/new"),
    "deployment": (S, "/deployments/{deployment}/"),
    "keys": (S, "/deployments/{deployment}/?tab=keys"),
    "quota": ("team-admin", "/quota/"),
    "quota-request": ("team-admin", "/quota/requests/{wish}/"),
    "secrets": (S, "/secrets/"),
    "tenants": (OPERATOR, "/tenants/"),
    "tenant": (S, "/tenants/nlp/"),
    "tenant-requests": (OPERATOR, "/tenant-requests/"),
    "tenant-request": (OPERATOR, "/tenant-requests/{asked}/"),
    "audit": ("auditor", "/audit/?target=job:one"),
    "inbox": (S, "/inbox/"),
    "settings": (S, "/settings/"),
    "clusters": (OPERATOR, "/clusters/"),
    "cluster": (OPERATOR, "/clusters/train-a/"),
    "fleet": (S, "/fleet/"),
    "nodes": (S, "/fleet/nodes"),
    "node": (S, "/fleet/nodes/train-a/gpu-0001"),
    "queues": (S, "/fleet/queues/train-a"),
}
NOT_PLURAL = {"is", "runs", "was"}


@pytest.fixture(scope="module")
def seeding() -> Callable[[], One]:
    return one_of_each


@pytest.fixture(scope="module")
def windows(portal: Portal, chrome: Browser) -> dict[tuple[str, int], BrowserContext]:
    """For each person a wide and a narrow one, in which they go from page to page."""
    people = {person for person, _path in PAGES.values()}
    return {
        (person, look[0]): window(chrome, portal.url, portal.seeds.cookies[person], look)
        for person in people
        for look in VARIANTS
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_list_of_one_holds(
    name: str, portal: Portal, windows: dict[tuple[str, int], BrowserContext], chrome: Browser
) -> None:
    person, path = PAGES[name]
    address = portal.url + path.format(**portal.seeds.names)
    visits = [Visit(windows[person, look[0]], address, look, name="") for look in VARIANTS]
    visits[-1].settle()
    faults, shots = list[str](), list[tuple[int, bytes]]()
    for visit in visits:
        text = visit.page.locator("main").inner_text()
        faults += [
            f"“{said[0]}”" for said in re.finditer(r"(?<![\w.,:/–-])1 (\w+s)\b", text) if said[1] not in NOT_PLURAL
        ]
        faults += ["a pager"] * visit.page.locator("nav.pager").count()
        found, shot = visit.judge()
        faults += [f"{visit.width} {fault}" for fault in found]
        shots.append((visit.width, shot))
    sheet(chrome, f"one-{name}", shots)
    assert not faults, "\n".join(faults)
