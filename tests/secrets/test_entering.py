"""Secrets go in: what is kept of them, who is first, and what a sealed store leaves behind."""

from __future__ import annotations

import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import hvac
import pytest
from django.conf import settings
from django.db import connection, connections
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.adapters.errors import InsideTransaction, Unavailable
from apps.audit.models import Entry as AuditEntry
from apps.audit.services import Denied
from apps.secrets import services
from apps.secrets.domain import MOST_BYTES, Bad, Values, tidied
from apps.secrets.models import Secret
from apps.secrets.services import entering, store
from tests.adapters.test_vault import Bao
from tests.canaries import Canaries, database_dump, forms, redis_dump
from tests.factories import World


def entry(value: str, key: str = "token", **more: object) -> services.Entry:
    return services.Entry(Values({key: value}), **more)  # type: ignore[arg-type]


def enter(world: World, name: str, value: str = "x", actor: Actor | None = None) -> Secret:
    actor = actor or world.actor(Role.SCIENTIST)
    return services.enter(actor, tenant_id=world.nlp.pk, name=name, entry=entry(value))


def stored(bao: Bao, secret: Secret, version: int | None = None) -> dict[str, str]:
    path = f"tenants/{secret.tenant_id}/{secret.pk}"
    answer = bao.root.secrets.kv.v2.read_secret_version(
        path, version=version, mount_point="maas", raise_on_deleted_version=True
    )
    return dict(answer["data"]["data"])


def paths(bao: Bao, tenant_id: int) -> list[str]:
    try:
        return list(bao.root.adapter.list(f"/v1/maas/metadata/tenants/{tenant_id}")["data"]["keys"])
    except hvac.exceptions.InvalidPath:
        return []


def test_a_value_goes_to_the_store_and_nowhere_else(
    world: World, vault: Bao, canaries: Canaries, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = canaries.plant("first value"), canaries.plant("second value", "hf_")
    secret = enter(world, "hf-token", first)
    assert (secret.version, secret.keys, secret.changed_by) == (1, ["token"], world.scientist)
    services.replace(world.actor(Role.TEAM_ADMIN), secret=secret, entry=entry(second, "key", note="the hub's"))
    secret.refresh_from_db()
    assert (secret.version, secret.keys, secret.changed_by) == (2, ["key"], world.people[Role.TEAM_ADMIN])
    assert stored(vault, secret) == {"key": second}
    assert stored(vault, secret, 1) == {"token": first}
    canaries.expect_none(database=database_dump(), redis=redis_dump(settings.REDIS_URL), log=caplog.text or "none")
    said = (
        AuditEntry.objects.filter(target=f"secret:{secret.pk}").order_by("id").values_list("action", "params__version")
    )
    assert list(said) == [("secret.entered", 1), ("secret.replaced", 2)]


def test_the_canaries_would_be_found(world: World, vault: Bao, canaries: Canaries) -> None:
    """A search that finds nothing must be one that finds something."""
    value = canaries.plant("note")
    for form in forms(value).values():
        assert canaries.hits(place=b"before " + form + b" after")
    enter(world, "a")
    Secret.objects.for_system().update(note=value)
    assert canaries.hits(database=database_dump()) == ["note (plain) in database"]


def test_values_show_in_no_repr_and_travel_in_no_message() -> None:
    values = Values({"token": "hunter2"})
    told = services.Entry(values)
    assert "hunter2" not in f"{values!r} {values} {told!r} {Bad('values', 'empty', key='token')!r}"
    with pytest.raises(TypeError):
        pickle.dumps(values)


def test_only_members_with_the_right_enter_and_refusals_are_recorded(world: World, vault: Bao) -> None:
    for actor in (world.actor(Role.VIEWER), world.actor(Role.AUDITOR), world.stranger().actor()):
        with pytest.raises(Denied):
            enter(world, "a", actor=actor)
    assert not Secret.objects.for_system().exists()
    assert AuditEntry.objects.filter(action="secret.entered", result="refused").count() == 3


@pytest.mark.parametrize(
    ("name", "values", "field", "code"),
    [("", {"k": "v"}, "name", "required"), ("Token", {"k": "v"}, "name", "name"), ("令牌", {"k": "v"}, "name", "name"),
     ("../up", {"k": "v"}, "name", "name"), ("a/b", {"k": "v"}, "name", "name"), ("a\n", {"k": "v"}, "name", "name"),
     ("x" * 41, {"k": "v"}, "name", "name"), ("a", {}, "keys", "required"), ("a", {"../k": "v"}, "keys", "key"),
     ("a", {".hidden": "v"}, "keys", "key"), ("a", {"k": ""}, "values", "empty"), ("a", {"k": "a\0b"}, "values", "binary"),
     ("a", {"k": "x" * (MOST_BYTES + 1)}, "values", "too-large"), ("a", {f"k{n}": "v" for n in range(21)}, "keys", "keys")],
)  # fmt: skip
def test_what_cannot_be_a_secret_is_refused(
    world: World, vault: Bao, name: str, values: dict[str, str], field: str, code: str
) -> None:
    with pytest.raises(Bad) as caught:
        services.enter(
            world.actor(Role.SCIENTIST), tenant_id=world.nlp.pk, name=name, entry=services.Entry(Values(values))
        )
    assert (caught.value.field, caught.value.code) == (field, code)
    assert not Secret.objects.for_system().exists()


def test_values_come_out_as_programs_need_them() -> None:
    key = "-----BEGIN " + "OPENSSH PRIVATE KEY-----\r\nabc\r\n-----END OPENSSH PRIVATE KEY-----"
    assert tidied("ssh", {"id": key})["id"] == key.replace("\r\n", "\n") + "\n"
    assert tidied("token", {"t": " abc\n"})["t"] == "abc"
    assert tidied("generic", {"t": " abc\n"})["t"] == " abc\n"


def test_a_sealed_store_keeps_nothing_and_frees_the_name(
    world: World, vault: Bao, canaries: Canaries, caplog: pytest.LogCaptureFixture
) -> None:
    value = canaries.plant("value")
    with vault.sealed(), pytest.raises(Unavailable) as caught:
        enter(world, "hf-token", value)
    assert services.names_of(world.nlp.pk) == []
    assert not AuditEntry.objects.filter(action="secret.entered").exists()
    canaries.expect_none(
        database=database_dump(), log=caplog.text or "none", error=f"{caught.value!r} {caught.value.text}"
    )
    secret = enter(world, "hf-token", value)
    for pk in services.due_secrets():
        store.destroy(pk)
    assert paths(vault, world.nlp.pk) == [str(secret.pk)]
    assert list(Secret.objects.for_system().values_list("name", "version")) == [("hf-token", 1)]


def test_a_store_that_is_sealed_while_one_replaces_leaves_the_old_version(world: World, vault: Bao) -> None:
    secret = enter(world, "a", "old")
    with vault.sealed(), pytest.raises(Unavailable):
        services.replace(world.actor(Role.SCIENTIST), secret=secret, entry=entry("new"))
    secret.refresh_from_db()
    assert (secret.version, secret.removed_at) == (1, None)
    services.replace(world.actor(Role.SCIENTIST), secret=secret, entry=entry("new"))
    assert stored(vault, secret) == {"token": "new"}


def test_what_broke_off_is_destroyed_and_never_named(world: World, vault: Bao, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies after the store has the value and before the row says so."""

    def dies(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(entering, "hint", dies)
        with pytest.raises(SystemExit):
            enter(world, "a")
    assert not services.exists(world.nlp.pk, "a")
    assert len(paths(vault, world.nlp.pk)) == 1
    with pytest.raises(services.NameTaken):
        enter(world, "a")
    Secret.objects.for_system().update(due_at=timezone.now() - timedelta(seconds=1))
    (pk,) = services.due_secrets()
    store.destroy(pk)
    assert paths(vault, world.nlp.pk) == []
    assert enter(world, "a").version == 1


def test_a_double_click_enters_once(world: World, vault: Bao) -> None:
    once = uuid.uuid4()
    both = [
        services.enter(world.actor(Role.SCIENTIST), tenant_id=world.nlp.pk, name="a", entry=entry("x", once=once))
        for _ in range(2)
    ]
    assert both[0].pk == both[1].pk
    assert AuditEntry.objects.filter(action="secret.entered").count() == 1
    again = uuid.uuid4()
    for _ in range(2):
        services.replace(world.actor(Role.SCIENTIST), secret=both[0], entry=entry("y", once=again))
    assert Secret.objects.for_system().get().version == 2


def test_who_replaces_what_was_replaced_meanwhile_is_told(world: World, vault: Bao) -> None:
    mine, theirs = enter(world, "a"), Secret.objects.for_system().get()
    services.replace(world.actor(Role.TEAM_ADMIN), secret=theirs, entry=entry("b"))
    with pytest.raises(services.Stale):
        services.replace(world.actor(Role.SCIENTIST), secret=mine, entry=entry("c"))
    assert stored(vault, mine) == {"token": "b"}


@pytest.mark.django_db(transaction=True)
def test_two_people_entering_one_name_at_once_make_one_secret(world: World, vault: Bao) -> None:
    """One row, one value, one record; the other is told, and the stored value is the winner's."""
    people = [world.actor(Role.SCIENTIST), world.actor(Role.TEAM_ADMIN)] * 3

    def one(number: int) -> str:
        try:
            enter(world, "a", f"value {number}", people[number])
        except services.NameTaken:
            return "taken"
        finally:
            connections.close_all()
        return f"value {number}"

    with ThreadPoolExecutor(len(people)) as pool:
        told = list(pool.map(one, range(len(people))))
    won = [one for one in told if one != "taken"]
    assert len(won) == 1
    assert stored(vault, Secret.objects.for_system().get()) == {"token": won[0]}
    assert AuditEntry.objects.filter(action="secret.entered", result="done").count() == 1


def test_removing_frees_the_name_at_once_and_destroys_every_version_later(world: World, vault: Bao) -> None:
    secret = enter(world, "a")
    services.replace(world.actor(Role.SCIENTIST), secret=secret, entry=entry("y"))
    with vault.sealed():
        services.remove(world.actor(Role.SCIENTIST), secret=secret)
        services.remove(world.actor(Role.SCIENTIST), secret=secret)
        assert not services.exists(world.nlp.pk, "a")
        store.destroy(secret.pk)
    again = enter(world, "a")
    assert again.pk != secret.pk
    Secret.objects.for_system().filter(pk=secret.pk).update(due_at=timezone.now())
    store.destroy(secret.pk)
    assert paths(vault, world.nlp.pk) == [str(again.pk)]
    assert AuditEntry.objects.filter(action="secret.removed").count() == 1


def test_no_value_is_sent_inside_a_transaction(world: World, vault: Bao) -> None:
    del connection.outside_calls_allowed  # type: ignore[attr-defined]
    try:
        with pytest.raises(InsideTransaction):
            enter(world, "a")
    finally:
        connection.outside_calls_allowed = True  # type: ignore[attr-defined]
