"""Who registers, proposes, approves, sees and deletes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from apps.accounts.domain import Role
from apps.accounts.types import Denied
from apps.audit.models import Entry
from apps.catalog import services
from apps.catalog.models import ModelVersion, RegisteredModel, StageChange, Transfer
from apps.catalog.services import uses
from apps.catalog.services.market import Wanted, found_for
from tests import factories
from tests.catalog import made
from tests.factories import World


@pytest.fixture
def version(world: World) -> ModelVersion:
    return made.ready(made.version(world.scientist, world.place))


def move(person: Any, version: ModelVersion, act: str, comment: str = "") -> str:
    version.refresh_from_db()
    return services.move_stage(person.actor(), version=version, act=act, comment=comment).stage


def test_a_version_goes_from_draft_to_approved_by_two_people(world: World, version: ModelVersion) -> None:
    admin = world.people[Role.TEAM_ADMIN]
    assert move(world.scientist, version, "propose") == "candidate"
    assert list(services.waiting_for(admin.actor())) == [version]
    assert list(services.waiting_for(world.scientist.actor())) == []
    assert move(admin, version, "approve", "good on the test set") == "approved"
    assert list(services.waiting_for(admin.actor())) == []
    model = RegisteredModel.objects.get()
    assert (model.stage, model.format, model.parameters) == ("approved", "safetensors", 7)
    changes = [(c.old, c.new, c.by_id, c.comment) for c in services.stages_of(version)]
    assert changes[0] == ("candidate", "approved", admin.pk, "good on the test set")
    told = Entry.objects.filter(action="model.stage").order_by("pk").values_list("params__new", flat=True)
    assert list(told) == ["candidate", "approved"]


def test_nobody_approves_their_own(world: World) -> None:
    admin = world.people[Role.TEAM_ADMIN]
    own = made.ready(made.version(admin, world.place))
    move(world.scientist, own, "propose")
    with pytest.raises(Denied) as denied:
        move(admin, own, "approve")
    assert "themselves" in str(denied.value.reason)
    assert Entry.objects.get(action="model.stage", result="refused").actor == admin.audit_id
    other = factories.user("second admin", Role.TEAM_ADMIN, world.nlp)
    assert move(other, own, "approve") == "approved"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SCIENTIST, Role.AUDITOR, Role.OPERATOR])
def test_only_a_team_admin_approves(world: World, version: ModelVersion, role: Role) -> None:
    move(world.people[Role.TEAM_ADMIN], version, "propose")
    with pytest.raises(Denied):
        move(world.people[role], version, "approve")


def test_what_is_not_there_or_not_readable_is_not_proposed(world: World) -> None:
    coming = made.version(world.scientist, world.place)
    for change, code in ({}, "files-missing"), ({"faults": [{"path": "a", "code": "overlap"}]}, "files-faulty"):
        if change:
            made.ready(coming, **change)
        with pytest.raises(services.NotNow) as not_now:
            move(world.scientist, coming, "propose")
        assert not_now.value.code == code


def test_sending_back_says_why(world: World, version: ModelVersion) -> None:
    admin = world.people[Role.TEAM_ADMIN]
    move(world.scientist, version, "propose")
    with pytest.raises(services.Invalid):
        move(admin, version, "send-back")
    assert move(admin, version, "send-back", "licence is missing") == "draft"
    assert move(world.scientist, version, "withdraw") == "withdrawn"
    assert RegisteredModel.objects.get().stage == "withdrawn"
    assert not found_for(world.scientist.actor(), Wanted()).exists()
    assert found_for(world.scientist.actor(), Wanted(stage="withdrawn")).count() == 1
    assert move(world.scientist, version, "bring-back") == "draft"


@pytest.mark.django_db(transaction=True)
def test_of_two_reviewers_at_once_one_decides() -> None:
    world = World.make()
    version = made.ready(made.version(world.scientist, world.place))
    move(world.scientist, version, "propose")
    reviewers = [world.people[Role.TEAM_ADMIN], factories.user("second", Role.TEAM_ADMIN, world.nlp)]
    start, ends = threading.Barrier(2), []

    def decide(person: Any, act: str) -> None:
        own = ModelVersion.objects.select_related("model").get(pk=version.pk)
        start.wait()
        try:
            services.move_stage(person.actor(), version=own, act=act, comment="decided")
            ends.append("done")
        except services.NotNow as not_now:
            ends.append(not_now.code)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=decide, args=pair) for pair in zip(reviewers, ("approve", "send-back"), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["done", "stage"]
    assert StageChange.objects.filter(version=version, old="candidate").count() == 1
    assert Entry.objects.filter(action="model.stage", result="done").count() == 2


# --- who sees what --------------------------------------------------------------------------------------------------


def test_another_tenants_model_is_seen_once_it_is_public_and_approved(world: World, version: ModelVersion) -> None:
    stranger = world.stranger()

    def seen() -> tuple[bool, bool]:
        models = RegisteredModel.objects.visible_to(stranger.actor()).exists()
        return models, services.version_visible(stranger.actor(), version.pk) is not None

    assert seen() == (False, False)
    said = services.Said("harbour", "MIT", "public")
    services.edit_model(world.scientist.actor(), model=version.model, said=said)
    assert seen() == (False, False), "nobody has approved it"
    move(world.scientist, version, "propose")
    move(world.people[Role.TEAM_ADMIN], version, "approve")
    assert seen() == (True, True)
    draft = made.ready(made.version(world.scientist, world.place, model_id=version.model_id))
    assert services.version_visible(stranger.actor(), draft.pk) is None, "only what is approved"
    move(world.scientist, version, "withdraw")
    assert seen() == (False, False)
    assert services.version_visible(factories.user("nobody").actor(), version.pk) is None


def test_a_stranger_may_neither_register_nor_change(world: World, version: ModelVersion) -> None:
    stranger = world.stranger().actor()
    with pytest.raises(Denied):
        services.register(stranger, made.registration(world.place))
    with pytest.raises(Denied):
        services.edit_model(stranger, model=version.model, said=services.Said("mine", "MIT", "public"))
    with pytest.raises(Denied):
        services.delete_model(stranger, model=version.model, typed="harbour")
    foreign = made.registration(world.other_place, model_id=version.model_id)
    with pytest.raises(services.Invalid):
        services.register(stranger, foreign)
    assert RegisteredModel.objects.get().versions == 1


# --- registering ----------------------------------------------------------------------------------------------------


def test_a_second_press_finds_the_version_of_the_first(world: World) -> None:
    first = made.version(world.scientist, world.place, key="k1")
    assert made.version(world.scientist, world.place, key="k1") == first
    assert (ModelVersion.objects.count(), Transfer.objects.count()) == (1, 1)
    assert Entry.objects.filter(action="model.registered").count() == 1


def test_a_name_is_given_once_a_tenant_whatever_its_case(world: World) -> None:
    made.version(world.scientist, world.place, name="港口-Base")
    with pytest.raises(services.Invalid) as invalid:
        made.version(world.scientist, world.place, name="港口-base")
    assert [fault.code for fault in invalid.value.faults] == ["name-taken"]
    made.version(world.stranger(), world.other_place, name="港口-base")


def test_every_fault_is_named_at_once(world: World) -> None:
    with pytest.raises(services.Invalid) as invalid:
        made.version(
            world.scientist, world.place, name="a/b", licence=" ", visibility="all", tags=["x" * 41], card="\0"
        )
    assert {(f.field, f.code) for f in invalid.value.faults} == {
        ("name", "name-characters"), ("licence", "required"), ("visibility", "choice"), ("tags", "too-long"),
        ("card", "unprintable"),
    }  # fmt: skip
    assert not RegisteredModel.objects.exists()


@pytest.mark.parametrize("change", [{"model_id": "\0"}, {"model_id": "01NOTTHERE"}, {"key": "\0"}, {"note": "\0"}])
def test_what_nobody_can_mean_is_refused(world: World, change: dict[str, str]) -> None:
    with pytest.raises(services.Invalid):
        made.version(world.scientist, world.place, **change)


def test_lineage_stays_when_all_else_of_the_job_is_gone(world: World, version: ModelVersion) -> None:
    again = ModelVersion.objects.get(pk=version.pk)
    assert again.lineage["job"]["id"] == "01JOB"
    assert not [f for f in ModelVersion._meta.fields if f.related_model and f.related_model._meta.app_label == "jobs"]


# --- deleting -------------------------------------------------------------------------------------------------------


def test_a_model_in_use_stays_and_says_who_needs_it(world: World, version: ModelVersion, monkeypatch: Any) -> None:
    used = services.Use(version.pk, "deployment", "assistant", "/deployments/7/", world.nlp.pk)
    monkeypatch.setitem(uses._finders, "deployment", lambda ids: [used] if version.pk in ids else [])
    actor = world.scientist.actor()
    with pytest.raises(services.InUse) as in_use:
        services.delete_model(actor, model=version.model, typed="harbour")
    assert in_use.value.uses == [used]
    monkeypatch.setitem(uses._finders, "deployment", lambda ids: [])
    with pytest.raises(services.WrongName):
        services.delete_model(actor, model=version.model, typed="harbor")
    services.delete_model(actor, model=version.model, typed="harbour")
    assert not ModelVersion.objects.exists()
    assert Transfer.objects.get().version is None, "its pod is still to be taken away"
