"""The log as a file: what is in it, what a spreadsheet must not run, and that it is recorded itself."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.db import connection, connections, transaction
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from apps.accounts import services as accounts
from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.audit import services as audit
from apps.audit.domain import Search, cell
from apps.audit.models import Entry
from apps.audit.services import exports
from apps.jobs.services.submit import JOB_SUBMITTED
from tests.factories import World
from tests.pages import browser, session_of

EXPORT = "/api/v1/audit/export"


def note(actor: Actor, tenant_id: int | None, name: str) -> int:
    with transaction.atomic():
        audit.record(JOB_SUBMITTED, actor, "job:1", tenant_id=tenant_id, name=name, gpus=2)
    return Entry.objects.latest("pk").pk


def read(response: Any) -> bytes:
    assert response.status_code == 200, response
    return b"".join(response.streaming_content)


def test_csv_opens_in_a_spreadsheet_with_chinese_and_without_formulas(world: World) -> None:
    note(world.scientist.actor(), world.nlp.pk, '=HYPERLINK("http://evil.test","训练")')
    client = browser(world.people[Role.AUDITOR], **{"Accept-Language": "zh-hans"})
    body = read(client.get(EXPORT, {"as": "csv"}))
    assert body.startswith(b"\xef\xbb\xbf")
    (row,) = csv.DictReader(io.StringIO(body.decode("utf-8-sig")))
    assert (row["action"], row["tenant"], row["result"]) == ("job.submitted", "NLP", "done")
    assert "提交" in row["sentence"]
    assert "训练" in row["sentence"]
    assert json.loads(row["params"])["name"].startswith("=HYPERLINK")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1", "＠SUM"])
def test_a_cell_that_a_spreadsheet_would_run_is_text(text: str) -> None:
    assert cell(text) == f"'{text}"
    assert cell("plain = text") == "plain = text"
    assert cell(None) == ""


def test_every_column_of_every_row_is_neutralised(world: World) -> None:
    me = world.scientist
    type(me).objects.filter(pk=me.pk).update(name="=cmd|' /C calc'!A0")
    note(me.actor(), world.nlp.pk, "x")
    text = read(browser(world.people[Role.AUDITOR]).get(EXPORT)).decode("utf-8-sig")
    cells = [value for row in csv.reader(io.StringIO(text)) for value in row]
    assert "'=cmd|' /C calc'!A0" in cells
    assert not [value for value in cells if value.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_json_lines_are_what_was_recorded_in_every_batch_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "BATCH", 3)
    ids = [note(world.scientist.actor(), world.nlp.pk, f"run {number}") for number in range(10)]
    lines = read(browser(world.people[Role.AUDITOR]).get(EXPORT, {"as": "jsonl"})).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == ids[::-1]
    assert rows[0]["params"] == {"name": "run 9", "gpus": 2}


def test_an_export_is_recorded_with_its_search_and_count_and_is_not_in_itself(world: World) -> None:
    note(world.scientist.actor(), world.nlp.pk, "ours")
    note(world.stranger().actor(), world.vision.pk, "theirs")
    admin = world.people[Role.TEAM_ADMIN]
    body = read(browser(admin).get(EXPORT, {"as": "jsonl", "action": "job.submitted"})).decode()
    assert "ours" in body
    assert "theirs" not in body
    entry = Entry.objects.latest("pk")
    assert (entry.action, entry.actor, entry.tenant_id) == ("audit.exported", admin.audit_id, world.nlp.pk)
    assert entry.params == {"count": 1, "kind": "jsonl", "filter": {"action": "job.submitted"}}
    with translation.override("en"):
        said = audit.plain_sentence(entry, accounts.audit_names([entry.actor]))
    assert said == "Team-Admin exported 1 entries of the audit log as JSON Lines: action=job.submitted"


def test_who_may_not_export_is_refused_and_that_is_recorded(world: World) -> None:
    assert browser(world.scientist).get(EXPORT).status_code == 403
    entry = Entry.objects.get()
    assert (entry.action, entry.result, entry.actor) == ("audit.exported", "refused", world.scientist.audit_id)
    assert browser(world.people[Role.AUDITOR]).get(EXPORT, {"as": "xlsx"}).status_code == 400
    assert browser(world.people[Role.AUDITOR]).get(EXPORT, {"since": "never"}).status_code == 400


def test_a_file_is_made_while_it_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "BATCH", 10)
    for number in range(50):
        note(world.scientist.actor(), world.nlp.pk, f"run {number}")
    pieces = audit.export(world.actor(Role.AUDITOR), Search(), audit.Format.JSON_LINES)
    with CaptureQueriesContext(connection) as first:
        next(pieces)
    with CaptureQueriesContext(connection) as rest:
        assert sum(1 for _piece in pieces) == 5
    assert len(first) < len(rest) / 4


@pytest.mark.django_db(transaction=True)
async def test_an_asynchronous_server_sends_the_first_piece_before_the_last_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exports, "BATCH", 2)
    client = AsyncClient()

    def prepare() -> None:
        world = World.make()
        for number in range(6):
            note(world.scientist.actor(), world.nlp.pk, f"run {number}")
        session_of(client, world.people[Role.AUDITOR])

    await database_sync_to_async(prepare)()
    response = await client.get(EXPORT, {"as": "jsonl"})
    assert response.is_async
    pieces = [piece async for piece in response]
    assert len(pieces) > 2
    assert b"".join(pieces).count(b"\n") == 6
    await sync_to_async(connections.close_all)()
