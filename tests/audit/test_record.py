"""The record of what happened: with the change, refusals too, and nobody can change it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection, transaction

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


@pytest.fixture
def portal(transactional_db: None) -> Iterator[psycopg.Connection]:
    """A connection of the portal's own role to a log of one entry. The role cannot become another by itself."""
    with transaction.atomic():
        audit.record(next(iter(audit.actions().values())), SYSTEM, "thing:1")
    address = os.environ["APP_DATABASE_URL"]
    with psycopg.connect(address, dbname=connection.settings_dict["NAME"], autocommit=True) as opened:
        yield opened


ENTRY = "('a', 'done', 'x', 't', '{}', '')"
COLUMNS = "(action, result, actor, target, params, request_id)"
REWRITES = [
    "UPDATE audit_entry SET actor = 'nobody'",
    "UPDATE audit_entry SET params = '{}' WHERE false",
    "DELETE FROM audit_entry",
    "DELETE FROM audit_entry USING accounts_user",
    "TRUNCATE audit_entry",
    "TRUNCATE audit_entry, accounts_user CASCADE",
    "SELECT * FROM audit_entry FOR UPDATE",
    f"INSERT INTO audit_entry (id, {COLUMNS[1:]} VALUES (1, {ENTRY[1:]} ON CONFLICT (id) DO UPDATE SET actor = 'x'",
    "MERGE INTO audit_entry e USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE",
    "WITH gone AS (DELETE FROM audit_entry RETURNING 1) SELECT count(*) FROM gone",
    "COPY audit_entry FROM PROGRAM 'true'",
    "COPY audit_entry TO '/tmp/audit'",
    "ALTER TABLE audit_entry DISABLE TRIGGER ALL",
    "ALTER TABLE audit_entry OWNER TO maas_app",
    "ALTER TABLE audit_entry DROP COLUMN params",
    "DROP TABLE audit_entry",
    "DROP INDEX audit_actor",
    "CREATE RULE gone AS ON INSERT TO audit_entry DO INSTEAD NOTHING",
    "CREATE TRIGGER gone BEFORE INSERT ON audit_entry EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE TABLE mine (id int REFERENCES audit_entry ON DELETE CASCADE)",
    "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "SELECT setval('audit_entry_id_seq', 1)",
    "ALTER SEQUENCE audit_entry_id_seq RESTART",
    "SET ROLE maas_owner",
    "SET SESSION AUTHORIZATION maas_owner",
    "SET session_replication_role = replica",
    "UPDATE pg_catalog.pg_class SET relacl = NULL WHERE relname = 'audit_entry'",
    "UPDATE django_migrations SET name = name; TRUNCATE audit_entry",
]


def test_the_portals_database_role_cannot_change_history(portal: psycopg.Connection) -> None:
    before = portal.execute("SELECT * FROM audit_entry").fetchall()
    assert len(before) == 1
    portal.execute("GRANT ALL ON audit_entry TO maas_app")  # the server only warns that nothing came of it
    for statement in REWRITES:
        try:
            portal.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            continue
        pytest.fail(f"{statement} was allowed")
    assert portal.execute("SELECT * FROM audit_entry").fetchall() == before


def test_the_portals_database_role_can_add_to_history_and_read_it(portal: psycopg.Connection) -> None:
    portal.execute(f"INSERT INTO audit_entry {COLUMNS} VALUES {ENTRY}")
    with portal.cursor() as cursor, cursor.copy(f"COPY audit_entry {COLUMNS} FROM STDIN") as copy:
        copy.write_row(("a", "done", "x", "t", "{}", ""))
    assert portal.execute("SELECT count(*) FROM audit_entry").fetchone() == (3,)


def test_no_foreign_key_trigger_or_rule_leads_into_history(db: None) -> None:
    """Deleting a person or a tenant, which the portal may, reaches no entry by a cascade."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE contype = 'f' AND 'audit_entry'::regclass IN (conrelid, confrelid) "
            "UNION SELECT tgname FROM pg_trigger WHERE tgrelid = 'audit_entry'::regclass "
            "UNION SELECT rulename FROM pg_rules WHERE tablename = 'audit_entry'"
        )
        assert cursor.fetchall() == []
