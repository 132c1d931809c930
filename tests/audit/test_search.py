"""Finding entries: by whom, about what, when; what belongs together; pages that meet; indexes that serve."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from apps.accounts.domain import Role
from apps.accounts.types import Actor, Denied
from apps.audit import services as audit
from apps.audit.domain import Search, changes
from apps.audit.forms import SearchForm
from apps.audit.models import Entry
from apps.audit.services import reading, search
from apps.jobs import services as jobs
from apps.jobs.services.submit import JOB_SUBMITTED
from tests import factories
from tests.factories import World
from tests.pages import browser

AUDIT = "/audit/"


def note(
    actor: Actor, target: str, tenant_id: int | None = None, what: audit.Action = JOB_SUBMITTED, **more: Any
) -> int:
    with transaction.atomic():
        audit.record(what, actor, target, tenant_id=tenant_id, **{"name": "first light", "gpus": 2, **more})
    return Entry.objects.latest("pk").pk


def found(world: World, role: Role = Role.AUDITOR, **asked: Any) -> list[int]:
    entries = audit.found(world.actor(role), Search(**asked))
    return list(entries.order_by("pk").values_list("pk", flat=True))


def test_people_are_found_by_a_part_of_their_name_in_any_script(world: World) -> None:
    me = world.scientist
    type(me).objects.filter(pk=me.pk).update(name="陈静")
    mine = note(me.actor(), "job:1")
    watch = note(Actor.system("reconcile"), "job:1")
    assert found(world, who="陈") == found(world, who=f"user:{me.pk}") == [mine]
    assert found(world, who="job cont") == [watch]
    assert found(world, who="nobody of that name") == []


def test_things_are_found_by_name_and_id_with_all_that_concerns_them(world: World) -> None:
    named = note(world.scientist.actor(), "job:01A", name="夜间训练")
    unnamed = note(world.scientist.actor(), "job:01A", name="another name")
    note(world.scientist.actor(), "job:01B")
    assert found(world, about="夜间训练") == [named, unnamed] == found(world, about="job:01A")


def test_a_part_of_a_name_in_any_case_is_enough(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = note(world.scientist.actor(), "job:01A", name="Fine-Tune É 50%")
    night = note(world.scientist.actor(), "model:01B", name="夜间训练")
    note(world.scientist.actor(), "job:01C", name="50 others")
    assert found(world, about="fine-t") == found(world, about="tune é") == found(world, about="50%") == [tuned]
    assert found(world, about="夜间") == found(world, about="训练") == [night]
    assert found(world, about="_") == found(world, about="tuna") == []
    monkeypatch.setattr(search, "RECENT", 1)
    assert found(world, about="FINE") == [tuned], "a beginning is found however old"
    assert found(world, about="Tune") == [], "a part is looked for among the newest"
    assert found(world, Role.TEAM_ADMIN, about="fine") == [], "what one may not see is not found by its name"


def test_a_time_is_the_readers_and_a_day_ends_with_it(world: World) -> None:
    def read(**asked: str) -> tuple[datetime | None, datetime | None]:
        form = SearchForm(asked)
        assert form.is_valid(), form.errors
        return form.search().since, form.search().until

    with timezone.override("Asia/Shanghai"):
        assert read(since="2026-11-30", until="2026-11-30") == (
            datetime(2026, 11, 29, 16, tzinfo=UTC),
            datetime(2026, 11, 30, 16, tzinfo=UTC),
        )
        assert read(until="2026-11-30T14:05")[1] == datetime(2026, 11, 30, 6, 5, tzinfo=UTC)
        assert read(since="2026-11-30T14:05:00Z")[0] == datetime(2026, 11, 30, 14, 5, tzinfo=UTC)
    assert not SearchForm({"since": "yesterday"}).is_valid()
    assert not SearchForm({"since": "2026-02-30"}).is_valid()
    assert not SearchForm({"since": "2026-11-30", "until": "2026-11-29"}).is_valid()
    client = browser(world.people[Role.AUDITOR])
    assert client.get(AUDIT, {"since": "yesterday", "until": "2026-11-30"}).status_code == 422
    client.cookies["timezone"] = "Asia/Shanghai"
    filled = client.get(AUDIT, {"since": "2026-11-29T16:30:00+00:00", "until": "2026-11-30"}).context["moments"]
    assert filled == {"since": "2026-11-30T00:30", "until": "2026-12-01T00:00"}


def test_the_refused_are_found(world: World) -> None:
    note(world.scientist.actor(), "job:1", world.nlp.pk)
    for target_tenant in (world.nlp, world.vision):
        with pytest.raises(Denied):
            jobs.begin_draft(world.actor(Role.VIEWER), tenant_id=target_tenant.pk, template="charlm")
    refused = found(world, result="refused")
    assert len(refused) == 2
    assert found(world, Role.TEAM_ADMIN, result="refused") == [refused[0]]


@pytest.fixture
def model(world: World) -> Iterator[dict[str, list[str]]]:
    """A job, two versions made of it, a deployment of the second, as catalog and serving would tell."""
    near = {
        "run:1": ["build:1", "build:2"],
        "build:1": ["run:1"],
        "build:2": ["run:1", "served:1"],
        "served:1": ["build:2"],
    }
    kinds = {"run": "job", "build": "version", "served": "deployment"}
    for kind, word in kinds.items():
        reading._kinds[kind] = audit.TargetKind(word, relatives=lambda key, kind=kind: near[f"{kind}:{key}"])
    yield near
    for kind in kinds:
        del reading._kinds[kind]


def test_the_life_of_a_model_is_told_from_the_job_to_the_endpoint_in_both_languages(
    world: World, model: dict[str, list[str]]
) -> None:
    me = world.scientist.actor()
    told = [
        note(me, target, world.nlp.pk, name=f"name of {target}")
        for target in ("run:1", "build:1", "build:2", "served:1")
    ]
    note(me, "run:2", world.nlp.pk)
    for start in model:
        assert found(world, life=start) == told
    client = browser(world.people[Role.AUDITOR])
    page = client.get(AUDIT, {"life": "served:1", "sort": "old"})
    assert [row.entry.pk for row in page.context["rows"]] == told
    assert [name for _target, name, _page in page.context["relatives"]] == [
        "job name of run:1",
        "version name of build:1",
        "version name of build:2",
        "deployment name of served:1",
    ]
    with translation.override("zh-hans"):
        names = reading.names_for(Entry.objects.all(), Entry.objects.all())
        assert "提交" in reading.plain_sentence(Entry.objects.get(pk=told[0]), names)


def test_what_one_may_not_see_is_in_no_life_and_bears_no_name(world: World, model: dict[str, list[str]]) -> None:
    note(world.stranger().actor(), "build:2", world.vision.pk, name="secret project")
    mine = note(world.scientist.actor(), "served:1", world.nlp.pk, name="ours")
    assert found(world, Role.TEAM_ADMIN, life="served:1") == [mine]
    assert found(world, Role.TEAM_ADMIN, about="secret project") == []
    client = browser(world.people[Role.TEAM_ADMIN])
    page = client.get(AUDIT, {"life": "served:1"})
    assert "secret project" not in page.content.decode()
    assert client.get(reverse("audit:entry", args=[mine])).status_code == 200
    theirs = Entry.objects.get(target="build:2").pk
    assert client.get(reverse("audit:entry", args=[theirs])).status_code == 404


def test_pages_meet_in_both_orders_though_clocks_stand_still(world: World) -> None:
    ids = [note(world.scientist.actor(), f"job:{number}") for number in range(25)]
    Entry.objects.filter(pk__in=ids[5:15]).update(at=timezone.now() - timedelta(hours=1))
    order = list(Entry.objects.order_by("at", "pk").values_list("pk", flat=True))
    for old, wanted in ((True, order), (False, order[::-1])):
        forwards: list[int] = []
        place, page = {}, None
        while page is None or place:
            page = audit.page(Entry.objects.all(), oldest_first=old, size=7, **place)
            forwards += [entry.pk for entry in page.entries]
            onwards = page.newer if old else page.older
            place = {"after" if old else "before": onwards} if onwards else {}
        assert forwards == wanted
        back = page.older if old else page.newer
        previous = audit.page(Entry.objects.all(), oldest_first=old, size=7, **{"before" if old else "after": back})
        assert [entry.pk for entry in previous.entries] == wanted[14:21]


def test_an_opened_row_shows_what_was_recorded_before_and_after(world: World) -> None:
    params = {"before": {"amount": 32, "step": "team"}, "after": {"amount": 32, "step": "platform"}}
    pk = note(world.scientist.actor(), "job:1", world.nlp.pk, **params)
    assert [(each.name, each.differs) for each in changes(params)] == [("amount", False), ("step", True)]
    assert [(each.before, each.after) for each in changes({"old": "a", "new": "b"})] == [("a", "b")]
    page = browser(world.people[Role.AUDITOR]).get(AUDIT, {"open": pk}).content.decode()
    assert 'aria-expanded="true"' in page
    assert re.search(r"tone-green[^<]*<th scope=\"row\">step</th><td>platform", page)
    assert f"user:{world.scientist.pk}" in page
    assert "Life of the job first light" in page


def test_rest_finds_the_same_and_pages(world: World) -> None:
    ids = [note(world.scientist.actor(), "job:1", world.nlp.pk, name=f"run {number}") for number in range(3)]
    note(world.stranger().actor(), "job:2", world.vision.pk)
    client = browser(world.people[Role.TEAM_ADMIN], **{"Accept-Language": "zh-hans"})
    first = client.get("/api/v1/audit", {"limit": 2}).json()
    assert [each["id"] for each in first["results"]] == ids[:0:-1]
    assert "提交" in first["results"][0]["sentence"]
    rest = client.get("/api/v1/audit", {"limit": 2, "before": first["next"]}).json()
    assert ([each["id"] for each in rest["results"]], rest["next"]) == (ids[:1], None)
    assert client.get("/api/v1/audit", {"about": "run 1"}).json()["results"][0]["tenant"] == "NLP"
    bad = client.get("/api/v1/audit", {"until": "never"})
    assert (bad.status_code, list(bad.json()["errors"])) == (400, ["until"])


def test_a_page_costs_the_same_however_many_entries_it_has(world: World) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            browser_page = client.get(AUDIT)
        assert browser_page.status_code == 200
        return len(queries)

    client = browser(world.people[Role.AUDITOR])
    client.get(AUDIT)
    note(world.scientist.actor(), "job:1")
    few = cost()
    for number in range(30):
        note(factories.user(f"p{number}", Role.SCIENTIST, world.nlp).actor(), f"job:{number}")
    assert cost() == few <= 12


FILL = """
INSERT INTO audit_entry (at, action, result, actor, tenant_id, target, params, request_id)
SELECT TIMESTAMPTZ '2026-01-01' + n * interval '30 s', 'thing.' || n %% 40,
       CASE WHEN n %% 200 = 0 THEN 'refused' ELSE 'done' END, 'user:' || n %% 200, n %% 50,
       'job:' || n / 10, jsonb_build_object('name', 'run ' || n / 10, 'gpus', n %% 8), ''
FROM generate_series(1, %s) AS n
"""
NARROWED = {
    "nothing": {},
    "person": {"actor": "user:7"},
    "action": {"action": "thing.7"},
    "done": {"result": "done"},
    "refused": {"result": "refused"},
    "target": {"target": "job:77"},
    "name": {"about": "run 77"},
    "time": {"since": datetime(2026, 1, 2, tzinfo=UTC), "until": datetime(2026, 1, 3, tzinfo=UTC)},
}


def plans(world: World, search: Search, role: Role) -> str:
    """How PostgreSQL answers every query of a page of this search, page by page."""
    actor, text = world.actor(role), []
    with CaptureQueriesContext(connection) as queries:
        first = audit.page(audit.found(actor, search))
        audit.page(audit.found(actor, search), before=first.older)
        audit.page(audit.found(actor, search), oldest_first=True)
    for each in queries:
        if "audit_entry" in each["sql"]:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {each['sql']}")
                text += [line for (line,) in cursor.fetchall()]
    return "\n".join(text)


def check_plans(world: World) -> None:
    for name, narrowed in NARROWED.items():
        plan = plans(world, Search(**narrowed), Role.AUDITOR)
        assert "Seq Scan" not in plan, (name, plan)
        assert "Index" in plan
    plan = plans(world, Search(tenant="nlp"), Role.AUDITOR) + plans(world, Search(), Role.TEAM_ADMIN)
    assert "Seq Scan" not in plan
    assert "audit_tenant" in plan


def fill(rows: int, tenant_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILL, [rows])
        cursor.execute("INSERT INTO audit_entry (action, result, actor, tenant_id, target, params, request_id) "
                       "SELECT 'thing.1', 'done', 'user:1', %s, 'job:1', '{}', '' FROM generate_series(1, 100)", [tenant_id])  # fmt: skip
        cursor.execute("ANALYZE audit_entry")


def test_every_filter_alone_is_served_by_an_index_at_ten_thousand_rows(world: World) -> None:
    fill(10_000, world.nlp.pk)
    check_plans(world)


@pytest.mark.prove
def test_every_filter_alone_is_served_by_an_index_at_a_million_rows(world: World) -> None:
    fill(1_000_000, world.nlp.pk)
    check_plans(world)
    client = browser(world.people[Role.AUDITOR])
    for asked in ({}, {"result": "refused"}, {"who": "Auditor"}, {"about": "run 77"}, {"since": "2026-11-01"}):
        assert client.get(AUDIT, asked).status_code == 200
    assert json.loads(client.get("/api/v1/audit", {"limit": 1}).content)["next"]
