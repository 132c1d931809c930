"""The audit page: whose entries, in whose words, how far back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import transaction
from django.urls import reverse
from django.utils import translation

from apps.accounts import services as accounts
from apps.accounts.domain import Role
from apps.accounts.services import refuse_sign_in
from apps.accounts.types import Actor, Denied
from apps.audit import services as audit
from apps.audit.models import Entry
from apps.audit.services import reading
from apps.jobs import moves
from apps.jobs import services as jobs
from apps.jobs.domain.phases import Phase
from apps.jobs.services.submit import JOB_SUBMITTED
from tests import factories
from tests.factories import World
from tests.pages import browser


def tell(actor: Actor, tenant_id: int | None, target: str = "job:1", **params: Any) -> None:
    with transaction.atomic():
        audit.record(JOB_SUBMITTED, actor, target, tenant_id=tenant_id, **{"name": "first light", "gpus": 2, **params})


def text(response: Any) -> str:
    return str(response.content.decode())


def test_an_entry_is_a_sentence_with_names_and_nothing_in_it_is_markup(world: World) -> None:
    tell(world.actor(Role.SCIENTIST), world.nlp.pk, name="<i>x</i>")
    page = text(browser(world.people[Role.AUDITOR]).get(reverse("audit:list")))
    said = '<span class="audit-lead"><b>Data-Scientist</b></span> submitted the job <b>&lt;i&gt;x&lt;/i&gt;</b>'
    assert f"{said} with <b>2</b> GPUs" in page


@pytest.mark.parametrize(
    ("params", "end"), [({"gpus": 1}, "1 GPU"), ({"gpus": 2}, "2 GPUs"), ({"gpus": 1234}, "1,234 GPUs"), ({}, "… GPUs")]
)
def test_one_is_not_many(world: World, params: dict[str, int], end: str) -> None:
    with transaction.atomic():
        audit.record(JOB_SUBMITTED, world.actor(Role.SCIENTIST), "job:1", name="first light", **params)
    assert audit.plain_sentence(Entry.objects.get(), {}).endswith(f" with {end}")


def test_a_team_admin_reads_their_tenant_an_auditor_everything_others_nothing(world: World) -> None:
    tell(world.actor(Role.SCIENTIST), world.nlp.pk, name="ours")
    tell(world.stranger().actor(), world.vision.pk, name="theirs")
    tell(Actor.system("watch"), None, name="the platform's")

    def seen(role: Role, **query: str) -> set[str]:
        page = text(browser(world.people[role]).get(reverse("audit:list"), query))
        return set(re.findall("ours|theirs|the platform&#x27;s", page))

    assert seen(Role.TEAM_ADMIN) == {"ours"}
    assert seen(Role.AUDITOR) == {"ours", "theirs", "the platform&#x27;s"}
    assert seen(Role.AUDITOR, tenant="vision") == {"theirs"}
    assert seen(Role.TEAM_ADMIN, tenant="vision") == set()
    assert browser(world.scientist).get(reverse("audit:list")).status_code == 403


def test_pages_meet_and_filters_stay(world: World) -> None:
    for number in range(60):
        tell(world.actor(Role.SCIENTIST), world.nlp.pk, target=f"job:{number}")
    client = browser(world.people[Role.AUDITOR])
    first = client.get(reverse("audit:list"), {"action": "job.submitted"}).context
    second = client.get(f"{reverse('audit:list')}?{first['page']['older']}").context
    ids = [row.entry.pk for row in [*first["rows"], *second["rows"]]]
    assert ids == list(Entry.objects.order_by("-pk").values_list("pk", flat=True))
    assert second["page"]["older"] == ""
    assert "action=job.submitted" in second["page"]["newer"]


def test_codes_and_parts_of_the_system_are_told_in_words(world: World) -> None:
    job = factories.job(world.scientist, world.place)
    moves.move(job, Phase.WAITING, moves.Facts(1))
    refuse_sign_in("disabled")
    client = browser(world.people[Role.AUDITOR])
    page = text(client.get(reverse("audit:list")))
    assert "went from <b>Submitted</b> to <b>Waiting</b>" in page
    assert "Job control" in page
    assert "A sign-in was refused: <b>the account is switched off</b>" in page
    with translation.override("zh-hans"):
        roles = audit.told(Entry(action="accounts.roles-changed", params={"before": "–", "after": "viewer, auditor"}))
    assert roles == {"before": "–", "after": "查看者、审计员"}


def test_what_was_refused_is_named_and_so_is_the_tenant(world: World) -> None:
    with pytest.raises(Denied):
        jobs.begin_draft(world.actor(Role.VIEWER), tenant_id=world.nlp.pk, template="charlm")
    page = text(browser(world.people[Role.AUDITOR]).get(reverse("audit:list")))
    assert "<b>Viewer</b></span> was refused “<b>Begin a draft</b>” (<b>NLP</b>)" in page
    newest = Entry.objects.order_by("-id").first()
    assert newest
    auditor = browser(world.people[Role.AUDITOR])
    for address in (reverse("audit:entry", args=[newest.pk]), f"{reverse('audit:list')}?open={newest.pk}"):
        assert f"{newest.pk} · tenant NLP</dd>" in text(auditor.get(address))


def test_a_tenant_that_was_not_made_is_told_by_its_short_name(world: World) -> None:
    with pytest.raises(Denied):
        accounts.ensure_tenant(world.actor(Role.VIEWER), slug="speech", name="Speech")
    page = text(browser(world.people[Role.AUDITOR]).get(reverse("audit:list")))
    assert "(<b>the tenant speech</b>)" in page


def test_every_action_has_a_name_and_each_value_in_words_belongs_to_one() -> None:
    known = audit.actions()
    assert [each.key for each in known.values() if each.name == each.key and not each.key.startswith("test.")] == []
    assert {key for key, _param in reading._words} <= known.keys()


def test_somebody_erased_stays_somebody(world: World) -> None:
    tell(Actor(id="user:00000000-0000-0000-0000-000000000000", name="x"), world.nlp.pk)
    assert "somebody erased" in text(browser(world.people[Role.AUDITOR]).get(reverse("audit:list")))
