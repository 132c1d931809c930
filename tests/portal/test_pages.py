"""Home, help, and what stands around every page."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.accounts.types import Denied
from apps.clusters.models import Cluster, ClusterNode
from apps.jobs import moves
from apps.jobs import services as jobs
from apps.jobs.domain.phases import Phase
from apps.jobs.services import overview
from apps.quotas import services as quotas
from apps.tenants.models import Placement
from maasportal import ui
from tests import factories
from tests.factories import World
from tests.pages import browser

TEMPLATES = Path(__file__).parents[2] / "templates"


def text(response: Any) -> str:
    return str(response.content.decode())


def test_home_of_somebody_new_says_why_it_is_empty_and_offers_the_one_way_on(world: World) -> None:
    page = text(browser(world.scientist).get("/"))
    assert "No jobs yet" in page
    assert "Nothing needs you" in page
    assert f'href="{reverse("jobs:new")}"' in page
    outsider = text(browser(factories.user("nobody")).get("/"))
    assert "not a member of any tenant yet" in outsider
    assert "New job" not in outsider


def test_home_names_what_needs_me_and_nothing_that_does_not(world: World) -> None:
    me, now = world.scientist, timezone.now()

    def failed(name: str, days: int, **more: Any) -> Any:
        ended = now - timedelta(days=days)
        return factories.job(me, world.place, document={"name": name}, phase=Phase.FAILED, ended_at=ended, **more)

    failed("fresh", 1)
    failed("long ago", 5)
    cloned = failed("cloned since", 1)
    factories.job(me, world.place, document={"name": "the clone"}, cloned_from=cloned, phase=Phase.SUCCEEDED)
    factories.draft(me, world.nlp, name="half done")
    factories.draft(world.people[Role.TEAM_ADMIN], world.nlp, name="another's")
    page = text(browser(me).get("/"))
    needs = page[page.index('id="needs"') : page.index('id="running"')]
    assert "fresh failed" in needs
    assert "half done" not in needs
    assert "Draft: half done" in page
    assert "<b>1</b> thing needs you" in page
    assert not re.search("long ago|cloned since failed|another's", needs)


def test_home_folds_what_is_too_much_and_says_where_it_does_not_count_all(world: World) -> None:
    ended = timezone.now() - timedelta(hours=1)
    for number in range(11):
        document = {"name": f"broken {number}"}
        factories.job(world.scientist, world.place, document=document, phase=Phase.FAILED, ended_at=ended)
    context = browser(world.scientist).get("/").context
    assert (context["needs"], context["not_all"]) == (10, True)
    assert "more than <b>10</b> things need you" in text(browser(world.scientist).get("/"))


def test_home_says_what_could_start_now_and_how_that_is_counted(world: World) -> None:
    """16 are left of the quota and 12 free in the cluster: one job of 12; with 14 held, one of 2."""
    for number, used in enumerate((0, 4, 8), 1):
        ClusterNode.objects.create(
            cluster=world.place.cluster, name=f"gpu-{number}", product="A800-80G", resource="nvidia.com/gpu", total=8,
            used=used, ready=True,
        )  # fmt: skip
    factories.draft(world.scientist, world.nlp)
    page = text(browser(world.scientist).get("/?tenant=nlp"))
    assert "one job of <b>12 × A800-80G</b> could start now" in page
    assert "another 4 GPUs are free in parts" in page
    with transaction.atomic():
        quotas.take(world.nlp.pk, world.place.pool, 14, "job:else")
    page = text(browser(world.scientist).get("/?part=live"))
    assert "the limit now: <b>one job of 2</b>" in page
    assert "limit 16 − held by work of the tenant 14 = 2 left" in page


def test_gpus_in_use_are_those_of_jobs_on_nodes_against_the_quota(world: World) -> None:
    def held(owner: User, place: Placement, phase: Phase, ranks: int) -> None:
        job = factories.job(owner, place, phase=phase, document={"ranks": ranks})
        with transaction.atomic():
            quotas.take(place.tenant_id, place.pool, ranks, f"job:{job.pk}")

    held(world.scientist, world.place, Phase.RUNNING, 2)
    held(world.scientist, world.place, Phase.RESTARTING, 4)
    held(world.scientist, world.place, Phase.WAITING, 8)
    held(world.stranger(), world.other_place, Phase.RUNNING, 2)
    own = overview.use_seen(world.actor(Role.SCIENTIST))
    assert [(use.place.tenant.slug, use.used, use.limit, use.left, use.waiting) for use in own] == [
        ("nlp", 6, 16, 2, 1)
    ]
    operator = overview.use_seen(world.actor(Role.OPERATOR))
    assert [(use.place.tenant.slug, use.used) for use in operator] == [("nlp", 6), ("vision", 2)]


def test_the_rail_shows_only_what_one_may_see(world: World) -> None:
    audit = f'href="{reverse("audit:list")}"'
    assert audit not in text(browser(world.scientist).get("/"))
    assert audit in text(browser(world.people[Role.TEAM_ADMIN]).get("/"))
    assert audit in text(browser(world.people[Role.AUDITOR]).get("/"))


def test_help_comes_as_a_page_and_as_a_dialog(world: World) -> None:
    client = browser(world.scientist)
    assert "<html" in text(client.get(reverse("portal:help")))
    assert "<html" not in text(client.get(reverse("portal:help"), headers={"HX-Request": "true"}))


@pytest.mark.parametrize("name", ["400", "404", "403", "csrf", "500", "503"])
def test_an_error_page_needs_neither_database_nor_request(name: str) -> None:
    page = Template(f'{{% extends "errors/{name}.html" %}}').render(Context())
    assert "What happened" in page
    assert "What you can do" in page


INLINE = re.compile(r"""\sstyle=|\son[a-z]+=|\shx-on|javascript:|<style|hx-vals=['"]js:|<script(?![^>]*\bsrc=)""")


def test_no_template_has_inline_script_or_style() -> None:
    """The policy of the pages forbids them: they would be dead, and the reader would see an unstyled page."""
    found = [
        f"{path.relative_to(TEMPLATES)}: {match[0].strip()}"
        for path in TEMPLATES.rglob("*.html")
        for match in INLINE.finditer(path.read_text())
    ]
    assert found == []


def test_every_phase_has_a_look_and_every_icon_a_file() -> None:
    assert ui.LOOKS.keys() == set(Phase)
    used = {name for path in TEMPLATES.rglob("*.html") for name in re.findall(r'{% icon "([^"]+)"', path.read_text())}
    for name in used | {name for _tone, name in ui.LOOKS.values()}:
        assert "<path" in ui.icon(name)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (61, "1 min 1 s"),
        (660, "11 min"),
        (3600, "1 h"),
        (8040, "2 h 14 min"),
        (183600, "2 d 3 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: int, said: str) -> None:
    with translation.override("en"):
        assert ui.duration(seconds) == said


def test_figures_keep_their_size_readable() -> None:
    assert [ui.figure(value) for value in (1.8342, 0.0, 1e-5, 123456.0, 2e11, None)] == [
        "1.834",
        "0.000",
        "1e-05",
        "123,456",
        "2e+11",
        "–",
    ]
    assert ui.figure(float("nan")) == "NaN"
    assert [ui.initials(name) for name in ("陈静", "Li Na", "Inês Duarte", "")] == ["陈", "LN", "ID", "?"]


def test_times_are_in_the_zone_the_person_chose_else_the_browsers_else_utc(world: World) -> None:
    def zone(**cookies: str) -> str | None:
        client = browser(world.scientist)
        client.cookies.load(cookies)
        found = re.search(r'data-zone="([^"]*)"', text(client.get("/")))
        return found and found[1]

    assert zone() == "UTC"
    assert zone(timezone="../../etc/passwd") == "UTC"
    assert zone(timezone="Asia/Tokyo") == "Asia/Tokyo"
    type(world.scientist).objects.update(timezone="Europe/Madrid")
    assert zone(timezone="Asia/Tokyo") == "Europe/Madrid"


def test_pages_do_without_the_cache(world: World, settings: Any) -> None:
    """Sessions are in the database, and only cached."""
    reader = browser(world.scientist)
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "redis://127.0.0.1:1"}}
    assert "No jobs yet" in text(reader.get("/"))
    reader.logout()
    assert reader.get("/jobs/").status_code == 302


def test_each_of_the_five_finds_what_waits_for_them(world: World) -> None:
    """The scientist their job, the admin and the operator what they decide, the auditor what was refused, and the
    viewer nothing."""
    failed = factories.job(world.scientist, world.place, phase=Phase.FAILED, ended_at=timezone.now())
    Cluster.objects.for_system().update(unreachable_since=timezone.now())
    with pytest.raises(Denied):
        jobs.begin_draft(world.actor(Role.VIEWER), tenant_id=world.nlp.pk, template="charlm")

    def waits(role: Role, query: str = "") -> list[tuple[str, str]]:
        context = browser(world.people[role]).get(f"/{query}").context
        assert context["needs"] == len(context["waiting"])
        return [(str(thing.text), thing.url) for thing in context["waiting"]]

    mine = ("first light failed", reverse("jobs:detail", args=[failed.pk]))
    assert waits(Role.SCIENTIST) == [mine] == waits(Role.SCIENTIST, "?tenant=nlp")
    assert waits(Role.SCIENTIST, "?tenant=vision") == []
    assert [text for text, _url in waits(Role.OPERATOR)] == ["The cluster Train A does not answer"]
    assert waits(Role.VIEWER) == []
    ((said, url),) = waits(Role.AUDITOR)
    assert said == "1 attempt was refused since yesterday"
    found = browser(world.people[Role.AUDITOR]).get(url).context["rows"]
    assert [row.entry.action for row in found] == ["draft.begun"]


def test_what_changed_stands_on_home_until_it_was_read(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING)
    moves.move(job, Phase.SUCCEEDED, moves.Facts(1))
    client = browser(world.scientist)
    assert "The job first light has ended well" in text(client.get("/?part=live"))
    client.post("/inbox/read", {"up_to": client.get("/inbox/").context["lines"][0].notice.pk})
    assert "The job first light has ended well" not in text(client.get("/?part=live"))


def test_home_costs_the_same_however_much_there_is(world: World) -> None:
    client = browser(world.scientist)

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get("/")
        return len(queries)

    for phase in (Phase.RUNNING, Phase.FAILED):
        factories.job(world.scientist, world.place, phase=phase, ended_at=timezone.now())
    factories.draft(world.scientist, world.nlp)
    client.get("/")
    few = cost()
    for number in range(20):
        job = factories.job(world.scientist, world.place, phase=Phase.RUNNING, document={"name": f"run {number}"})
        if number % 2:
            moves.move(job, Phase.FAILED, moves.Facts(1))
        factories.draft(world.scientist, world.nlp)
    assert cost() <= few + 1  # the job's reason
    assert few <= 30
