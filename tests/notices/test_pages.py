"""The inbox and the bell, and what a job's owner is told of its end."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts import services as accounts
from apps.accounts.domain import Role
from apps.jobs import moves
from apps.jobs import services as jobs
from apps.jobs.domain.lifecycle import Reason
from apps.jobs.domain.phases import Phase
from apps.notices import services as notices
from apps.notices.models import Notice
from tests import factories
from tests.factories import World
from tests.pages import browser

INBOX = "/inbox/"


def end(world: World, how: Phase, name: str = "first light", **reason: Any) -> Any:
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING, document={"name": name})
    moves.move(job, how, moves.Facts(1, Reason(**reason)) if reason else moves.Facts(1))
    return job


def text(response: Any) -> str:
    assert response.status_code == 200, response
    return str(response.content.decode())


def test_a_jobs_owner_is_told_of_its_end_in_their_language(world: World) -> None:
    end(world, Phase.SUCCEEDED)
    job = end(world, Phase.FAILED, "夜间训练", code="failed.exit", params={"rank": 1, "code": 137})
    page = text(browser(world.scientist).get(INBOX))
    assert "The job first light has ended well" in page
    assert "The job 夜间训练 failed. Rank 1 ended with exit code 137." in page
    assert "Inbox, 2 unread" in page
    assert Notice.objects.for_system().latest("pk").link == reverse("jobs:detail", args=[job.pk])
    assert "Nothing in your inbox" in text(browser(world.people[Role.TEAM_ADMIN]).get(INBOX))
    chinese = text(browser(world.scientist, **{"Accept-Language": "zh-hans"}).get(INBOX))
    assert "退出码 137" in chinese


def test_who_stopped_their_own_job_is_not_told_so(world: World) -> None:
    for who in (Role.SCIENTIST, Role.TEAM_ADMIN):
        job = factories.job(world.scientist, world.place, phase=Phase.RUNNING, document={"name": f"by {who}"})
        jobs.stop(world.actor(who), job=job)
        job.refresh_from_db()
        moves.move(job, Phase.STOPPING, moves.Facts(1))
        moves.move(job, Phase.STOPPED, moves.Facts(1))
    assert [notices.sentence(each) for each in Notice.objects.for_system()] == [
        "Team-Admin stopped your job by team-admin"
    ]


def test_opening_a_notice_marks_it_and_leads_on(world: World) -> None:
    job = end(world, Phase.SUCCEEDED)
    client = browser(world.scientist)
    notice = Notice.objects.for_system().get()
    opened = client.post(reverse("notices:read", args=[notice.pk]), {"go": "1"})
    assert opened["Location"] == reverse("jobs:detail", args=[job.pk])
    assert "Inbox, nothing unread" in text(client.get(INBOX, {"part": "bell"}))
    client.post(reverse("notices:read", args=[notice.pk]), {"read": "0"})
    assert notices.unread_count(world.scientist.actor()) == 1


def test_a_notice_never_leads_out_of_the_portal(world: World) -> None:
    notice = Notice.objects.create(user=world.scientist, kind="x", link="//evil.test/", digest="x")
    opened = browser(world.scientist).post(reverse("notices:read", args=[notice.pk]), {"go": "1"})
    assert opened["Location"] == INBOX


def test_filters_and_pages_meet(world: World) -> None:
    for number in range(60):
        end(world, Phase.SUCCEEDED, f"run {number}")
    end(world, Phase.FAILED)
    client = browser(world.scientist)
    first = client.get(INBOX, {"kind": "job.succeeded", "unread": "1"}).context
    second = client.get(f"{INBOX}?{first['page'].older}").context
    assert [len(first["lines"]), len(second["lines"])] == [50, 10]
    assert second["page"].older == ""
    back = client.get(f"{INBOX}?{second['page'].newer}").context
    assert [line.notice.pk for line in back["lines"]] == [line.notice.pk for line in first["lines"]]
    client.post(reverse("notices:read-all"), {"up_to": first["lines"][0].notice.pk})
    assert "No notice fits these filters" in text(client.get(INBOX, {"kind": "job.succeeded", "unread": "1"}))
    assert notices.unread_count(world.scientist.actor()) == 1
    newer = text(client.get(INBOX, {"part": "newer", "first": first["lines"][0].notice.pk}))
    assert "1 new notice, show" in newer


def test_rest_reads_and_marks_and_a_read_only_token_only_reads(world: World) -> None:
    end(world, Phase.SUCCEEDED)
    end(world, Phase.FAILED)
    scientist = world.scientist

    def ask(read_only: bool, method: str, path: str, **body: Any) -> Any:
        token = accounts.create_token(scientist.actor(), name="t", days=1, read_only=read_only)
        client = browser(factories.user(f"other-{read_only}-{method}-{path}"))
        headers = {"Authorization": f"Bearer {token}"}
        return getattr(client, method)(
            path, body, headers=headers, **({"content_type": "application/json"} if body else {})
        )

    first = ask(True, "get", "/api/v1/inbox").json()["results"]
    assert [each["kind"] for each in first] == ["job.failed", "job.succeeded"]
    assert first[1]["text"] == "The job first light has ended well"
    assert first[1]["tenant"] == "nlp"
    assert ask(True, "post", "/api/v1/inbox/read", up_to=first[0]["id"]).status_code == 403
    assert ask(False, "post", f"/api/v1/inbox/{first[1]['id']}/read", read=True).json()["read_at"]
    assert [each["kind"] for each in ask(True, "get", "/api/v1/inbox?unread=1").json()["results"]] == ["job.failed"]
    assert ask(False, "post", "/api/v1/inbox/read", up_to=first[0]["id"]).json() == {"read": 1}


def test_a_page_of_notices_costs_the_same_however_many(world: World) -> None:
    client = browser(world.scientist)

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            text(client.get(INBOX))
        return len(queries)

    end(world, Phase.SUCCEEDED, "one")
    client.get(INBOX)
    few = cost()
    for number in range(30):
        end(world, Phase.SUCCEEDED, f"run {number}")
    assert cost() == few <= 10


@pytest.mark.parametrize("query", ["counting", "page", "newer"])
def test_ten_thousand_notices_are_read_by_an_index(world: World, query: str) -> None:
    me = world.scientist.pk
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO notices_notice (user_id, kind, params, link, digest, read_at) SELECT %s, 'job.succeeded', '{}', '/', "
            "md5(n::text), CASE WHEN n %% 100 = 0 THEN NULL ELSE now() END FROM generate_series(1, 10000) n",
            [me],
        )
        cursor.execute("ANALYZE notices_notice")
    own = notices.inbox(world.scientist.actor())
    found = {
        "counting": own.unread().order_by()[:100],
        "page": own.filter(pk__lt=own.latest("pk").pk).order_by("-pk")[:51],
        "newer": own.filter(pk__gt=9_990).order_by("pk")[:51],
    }[query]
    assert "Seq Scan on notices_notice" not in found.explain()


def test_the_kinds_have_names(db: None) -> None:
    assert [
        kind.key for kind in notices.kinds().values() if kind.name == kind.key and not kind.key.startswith("test.")
    ] == []
