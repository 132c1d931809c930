"""Secrets on loan: read by a token of one tenant, renewed while the work lives, revoked at its end."""

from __future__ import annotations

from datetime import timedelta

import hvac
import pytest
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.types import Actor
from apps.adapters.errors import Unavailable
from apps.audit.models import Entry as AuditEntry
from apps.secrets import services
from apps.secrets.models import Loan, Secret
from apps.secrets.services import registry, store
from apps.tenants.services import Placement, blockers_of
from tests.adapters.test_vault import Bao
from tests.factories import World
from tests.secrets.test_entering import enter, entry

WORK = "thing:1"
SYSTEM = Actor.system("test")


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The things that live; a kind of work as an upper app registers it."""
    living = {WORK}
    kind = registry.UserKind("thing", lambda _tenants: [], lambda subjects: living & set(subjects))
    monkeypatch.setitem(registry._kinds, "thing", kind)
    return living


def lend(world: World, *names: str) -> store.Lent:
    return store.lend(SYSTEM, WORK, world.nlp.pk, names)


def token_of(bao: Bao, loan: Loan) -> dict[str, object] | None:
    try:
        return dict(bao.root.auth.token.lookup_accessor(loan.accessor)["data"])
    except hvac.exceptions.VaultError:
        return None


def tend_all() -> None:
    Loan.objects.filter(due_at__isnull=False).update(due_at=timezone.now() - timedelta(seconds=1))
    for pk in services.due_loans():
        store.tend(pk)


def test_work_is_lent_the_version_that_counts(world: World, vault: Bao, alive: set[str]) -> None:
    secret = enter(world, "a", "one")
    vault.root.secrets.kv.v2.create_or_update_secret(
        f"tenants/{world.nlp.pk}/{secret.pk}", {"token": "stray"}, mount_point="maas"
    )
    lent = lend(world, "a")
    assert dict(lent.values["a"]) == {"token": "one"}
    assert lent.versions == {"a": 1}
    assert "one" not in repr(lent)
    loan = Loan.objects.get()
    token = token_of(vault, loan)
    assert token
    assert (token["policies"], token["orphan"], token["renewable"]) == ([f"maas-tenant-{world.nlp.pk}"], True, True)
    assert token["meta"] == {"subject": WORK, "tenant": str(world.nlp.pk)}


def test_the_policy_keeps_tenants_apart(world: World, vault: Bao, alive: set[str]) -> None:
    """Even with the other's row at hand, the token reads nothing of it."""
    enter(world, "a")
    theirs = services.enter(world.stranger().actor(), tenant_id=world.vision.pk, name="b", entry=entry("theirs"))
    with pytest.raises(store.Gone):
        lend(world, "b")
    Secret.objects.for_system().filter(pk=theirs.pk).update(tenant=world.nlp)
    with pytest.raises(Unavailable):
        lend(world, "b")


def test_a_loan_is_renewed_while_the_work_lives_and_revoked_at_its_end(
    world: World, vault: Bao, alive: set[str]
) -> None:
    enter(world, "a")
    lend(world, "a")
    loan = Loan.objects.get()
    vault.root.auth.token.renew_accessor(loan.accessor)
    Loan.objects.update(expires_at=timezone.now())
    tend_all()
    loan.refresh_from_db()
    assert loan.expires_at is not None
    assert loan.expires_at > timezone.now() + timedelta(minutes=59)
    services.end(WORK)
    services.end(WORK)
    assert token_of(vault, loan)
    for pk in services.due_loans():
        store.tend(pk)
    assert token_of(vault, loan) is None
    assert services.due_loans() == []
    told = AuditEntry.objects.filter(target=WORK).order_by("id").values_list("action", "params__names")
    assert list(told) == [("secret.lent", "a v1"), ("secret.returned", "a")]


def test_work_that_ended_unseen_loses_its_token_all_the_same(world: World, vault: Bao, alive: set[str]) -> None:
    enter(world, "a")
    lend(world, "a")
    loan = Loan.objects.get()
    alive.clear()
    tend_all()
    assert token_of(vault, loan) is None
    loan.refresh_from_db()
    assert (loan.ended_at is not None, loan.due_at) == (True, None)


def test_a_store_sealed_at_the_end_revokes_when_it_is_back(world: World, vault: Bao, alive: set[str]) -> None:
    enter(world, "a")
    lend(world, "a")
    services.end(WORK)
    with vault.sealed():
        tend_all()
        assert Loan.objects.get().due_at is not None
    tend_all()
    assert token_of(vault, Loan.objects.get()) is None


def test_lent_again_the_earlier_token_ends_and_the_record_says_so_once(
    world: World, vault: Bao, alive: set[str]
) -> None:
    """Going in takes several tries; each has a token, one lasts."""
    enter(world, "a")
    for _ in range(3):
        lend(world, "a")
    first, _second, last = Loan.objects.order_by("pk")
    tend_all()
    assert token_of(vault, first) is None
    assert token_of(vault, last)
    assert Loan.objects.get() == last
    assert AuditEntry.objects.filter(target=WORK).count() == 1


def test_a_token_that_ran_out_stops_nothing(world: World, vault: Bao, alive: set[str]) -> None:
    enter(world, "a")
    lend(world, "a")
    vault.root.auth.token.revoke_accessor(Loan.objects.get().accessor)
    tend_all()
    assert Loan.objects.get().ended_at is None
    services.end(WORK)
    tend_all()
    assert Loan.objects.get().due_at is None


def test_a_sealed_store_lends_nothing(world: World, vault: Bao, alive: set[str]) -> None:
    enter(world, "a")
    with vault.sealed(), pytest.raises(Unavailable) as caught:
        lend(world, "a")
    assert caught.value.system == "secrets"
    assert not AuditEntry.objects.filter(action="secret.lent").exists()
    assert lend(world, "a").versions == {"a": 1}


def test_names_are_those_of_the_tenant(world: World, vault: Bao, alive: set[str]) -> None:
    enter(world, "b")
    enter(world, "a")
    assert services.names_visible(world.actor(Role.SCIENTIST), world.nlp.pk) == ["a", "b"]
    assert services.names_visible(world.actor(Role.VIEWER), world.nlp.pk) == []
    assert services.names_visible(world.stranger().actor(), world.nlp.pk) == []
    assert services.exists(world.nlp.pk, "a")
    assert not services.exists(world.vision.pk, "a")


def test_a_tenant_that_leaves_secrets_behind_is_held_back(world: World, vault: Bao) -> None:
    def told(place: Placement) -> list[str]:
        return [str(one.text) for one in blockers_of(place) if "secret" in str(one.text)]

    enter(world, "a")
    assert told(world.other_place) == []
    assert told(world.place) == ["1 secret is stored for it, which a data scientist or team admin removes."]
