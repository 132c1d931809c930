"""Five clusters of four makers at once, a large one among them, and one that goes down: what people see of them.

MAAS_PROVE_NODES says how large the large one is; with MAAS_PROVE_CLUSTER=apiserver it is a real control plane, whose nodes
KWOK plays. Pictures are left in var/prove/clusters-*.png.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from deploy.local.access import KUBECTL, Access
from deploy.local.home import Home
from deploy.local.testing import demo
from deploy.testbed import SERVER_ONLY, control_plane
from deploy.testbed.api import Api
from tests.needs import require
from tests.prove import fleets
from tests.prove.browser import desk
from tests.prove.stack import Rest, Stack, until
from tests.prove.test_pages import look, sheet
from tests.small_cluster import SmallCluster, small_cluster

pytestmark = [pytest.mark.prove, pytest.mark.timeout(3600)]

NODES = int(os.environ.get("MAAS_PROVE_NODES", "400"))
REAL = os.environ.get("MAAS_PROVE_CLUSTER", "small") != "small"
OPERATOR = "zhao.lei"
NAMES = {"large": "Large", "ascend": "Ascend lab", "instinct": "Instinct", "shared": "Shared GPUs"}
VARIANTS = ((1440, "en", "light"), (390, "zh-hans", "dark"))
PAGES = {
    "fleet": "/fleet/",
    "large": "/fleet/?cluster=large",
    "shared": "/fleet/?cluster=shared",
    "nodes": "/fleet/nodes?cluster=large&state=pieces",
    "node": "/fleet/nodes/large/a800-0003",
    "vgpu": "/fleet/nodes/shared/vgpu-0003",
    "queues": "/fleet/queues/ascend",
    "list": "/clusters/",
    "cluster": "/clusters/large/",
}
MOST_BYTES = 320_000
"""A page with a picture of 5,000 nodes is smaller."""
PATIENCE = 60 + NODES / 10


@dataclass
class Five:
    """The demo's own cluster and four more; the three small ones can be killed."""

    stack: Stack
    small: dict[str, SmallCluster]

    @property
    def rest(self) -> Rest:
        return self.stack.rest(OPERATOR)

    def stands(self) -> dict[str, dict[str, Any]]:
        """Each cluster's part of the fleet, by slug."""
        return {one["cluster"]: one for one in self.rest.get("fleet")}


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Five]:
    require("postgres", "valkey", "openbao", "oidc", "chromium", *(["apiserver"] if REAL else []))
    folder = tmp_path_factory.mktemp("clusters")
    with ExitStack() as opened:
        stack = Stack(opened.enter_context(demo(None, "--port", "8420", "--without", "gateway")))
        pools = fleets.SMALL if REAL else {"large": fleets.large(NODES)} | fleets.SMALL
        small = {slug: opened.enter_context(small_cluster(folder / slug, controllers=False)) for slug in pools}
        for slug, one in small.items():
            with Api(one.server, one.token, one.ca_pem) as api:
                fleets.fill(api, pools[slug], folder / slug)
            _enter(stack, slug, one.kubeconfig)
        if REAL:
            _enter(stack, "large", opened.enter_context(_real(folder / "large")))
        found = Five(stack, small)
        until(lambda: len(found.stands()) == 5, PATIENCE, what="five clusters are taken into use")
        wanted = {"large": NODES} | {slug: sum(one["count"] for one in fleets.SMALL[slug]) for slug in fleets.SMALL}
        for slug, number in wanted.items():
            until(lambda s=slug, n=number: found.stands()[s]["nodes"] == n, PATIENCE, what=f"the nodes of {slug}")
        yield found


def _enter(stack: Stack, slug: str, administrator: Path) -> None:
    """As an operator does: apply the manifest, make a token, send both by REST."""
    home = Home(administrator.parent / "entered")
    home.prepare()
    access = Access(home, administrator)
    access.grant()
    body = {"slug": slug, "name": NAMES[slug], "kubeconfig": access.kubeconfig.read_text()}
    answer = stack.rest(OPERATOR).http.post("clusters", json=body)
    assert answer.status_code == 202, answer.text


@contextmanager
def _real(folder: Path) -> Iterator[Path]:
    """A real control plane with a large fleet; gives its administrator's kubeconfig."""
    folder.mkdir(parents=True, exist_ok=True)
    pools, fleet = fleets.large(NODES), folder / "nodes.json"
    fleet.write_text(json.dumps(pools))
    with control_plane(folder / "plane", replace(SERVER_ONLY, fleet=fleet, crds=("volcano",))) as plane:
        with plane.api() as api:
            fleets.fill(api, pools, folder, played=True)
        yield plane.kubeconfig


@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds_with_five_clusters(name: str, five: Five, chrome: Browser) -> None:
    with five.stack.browser(OPERATOR) as client:
        answer = client.get(PAGES[name])
        assert (answer.status_code, len(answer.content) < MOST_BYTES) == (200, True), len(answer.content)
        _photographed(chrome, five, name, client.cookies["sessionid"])


def _photographed(chrome: Browser, five: Five, name: str, cookie: str, suffix: str = "") -> None:
    faults, shots = [], []
    for variant in VARIANTS:
        found, shot = look(chrome, five.stack.url + PAGES[name], cookie, variant, "")
        faults += [f"{variant}: {fault}" for fault in found]
        shots.append((variant[0], shot))
    sheet(chrome, f"clusters-{name}{suffix}", shots)
    assert not faults, "\n".join(faults)


def test_a_cluster_that_goes_down_is_said_on_open_pages_and_the_others_go_on(five: Five, chrome: Browser) -> None:
    with desk(chrome, five.stack, OPERATOR) as one, five.stack.browser(OPERATOR) as client:
        page, other = one.page, one.page.context.new_page()
        page.goto("/fleet/")
        card = page.get_by_role("region", name=NAMES["instinct"], exact=True)
        expect(card.get_by_text("Silent")).to_have_count(0)
        other.goto("/fleet/nodes/ascend/atlas-0002")
        expect(other.locator(".title")).to_contain_text("Idle")
        before = five.stands()

        five.small["instinct"].kill("apiserver")
        expect(card.get_by_text("Silent")).to_be_visible(timeout=60_000)
        kubeconfig = f"--kubeconfig={five.small['ascend'].kubeconfig}"
        subprocess.run([str(KUBECTL), kubeconfig, "cordon", "atlas-0002"], check=True)
        expect(other.locator(".title")).to_contain_text("Cordoned", timeout=30_000)

        now = five.stands()
        assert now["instinct"]["unreachable_since"]
        assert now["instinct"]["nodes"] == before["instinct"]["nodes"], "what was seen of it stays to be read"
        assert now["ascend"]["free"] == before["ascend"]["free"] - 8
        for slug in ("shared", "small"):
            assert now[slug] == before[slug]
        row = page.context.new_page()
        row.goto("/clusters/")
        down = row.get_by_role("row").filter(has_text=NAMES["instinct"])
        expect(down).to_contain_text("Down")
        expect(down).to_contain_text("since")
        expect(down).to_contain_text("as last seen")
        for name in ("fleet", "list"):
            _photographed(chrome, five, name, client.cookies["sessionid"], "-down")

        five.small["instinct"].start("apiserver")
        expect(card.get_by_text("Silent")).to_have_count(0, timeout=60_000)
    assert five.stands()["instinct"]["unreachable_since"] is None
