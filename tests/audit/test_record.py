"""The record of what happened: with the change, refusals too, and nobody can change it."""

from __future__ import annotations

import pytest
from django.db import ProgrammingError, connection, transaction

from apps.accounts.domain import Role
from apps.accounts.types import Actor, Denied, Permission
from apps.audit import services as audit
from apps.audit.models import Entry
from apps.jobs import services as jobs
from tests.factories import DOCUMENT, World

SYSTEM = Actor.system("test")


@pytest.fixture
def note() -> audit.Action:
    known = audit.actions()
    return known.get("test.noted") or audit.action("test.noted", "{actor} noted {what}")


@pytest.mark.django_db(transaction=True)
def test_a_record_needs_the_transaction_of_its_change(note: audit.Action) -> None:
    with pytest.raises(RuntimeError, match="belongs into the transaction"):
        audit.record(note, SYSTEM, "thing:1", what="x")


def test_a_change_that_rolls_back_takes_its_record_along(db: None, note: audit.Action) -> None:
    class Oops(Exception):
        pass

    @audit.use_case(note)
    def change(actor: Actor) -> None:
        audit.record(note, actor, "thing:1", what="x")
        raise Oops

    with pytest.raises(Oops):
        change(SYSTEM)
    assert not Entry.objects.exists()


def test_a_refusal_is_written_though_its_transaction_rolled_back(world: World) -> None:
    viewer = world.actor(Role.VIEWER)
    with pytest.raises(Denied):
        jobs.submit(viewer, tenant_id=world.nlp.pk, document=DOCUMENT)
    entry = Entry.objects.get()
    assert (entry.action, entry.result, entry.actor) == ("job.submitted", "refused", viewer.id)
    assert entry.params == {"permission": Permission.JOB_SUBMIT.value}
    assert entry.tenant_id == world.nlp.pk


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_entry SET actor = 'nobody'", "DELETE FROM audit_entry", "TRUNCATE audit_entry"],
)
def test_the_portals_database_role_cannot_change_history(world: World, statement: str) -> None:
    with transaction.atomic():
        audit.record(next(iter(audit.actions().values())), SYSTEM, "thing:1")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE maas_app")
        cursor.execute("SELECT count(*) FROM audit_entry")
        assert cursor.fetchone() == (1,)
        with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
            cursor.execute(statement)


def test_the_portals_database_role_can_add_to_history(world: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE maas_app")
    with transaction.atomic():
        audit.record(next(iter(audit.actions().values())), SYSTEM, "thing:1")
    assert Entry.objects.count() == 1
