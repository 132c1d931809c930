"""A tenant's place in a live cluster: made, compared, restored, taken away."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.domain import Role
from apps.accounts.types import Actor, Denied
from apps.adapters.errors import NotFound
from apps.adapters.kubernetes import objects
from apps.audit.models import Entry
from apps.jobs.models import Job
from apps.notices.models import Notice
from apps.notices.services import waiting_for
from apps.quotas import services as quotas
from apps.tenants import services
from apps.tenants.models import Placement
from tests import factories
from tests.tenants.conftest import Plane, Scene

KEYS = [
    "namespace", "quota", "defaults", "network-deny", "network-allow", "account", "role", "binding", "portal-account",
    "portal-binding", "queue",
]  # fmt: skip


def test_a_place_from_nothing(scene: Scene) -> None:
    scene.ask(gpus=8)
    placement = scene.until(Placement.State.READY)
    assert scene.states() == dict.fromkeys(KEYS, "applied")
    admin, path = scene.admin, scene.path
    labels = admin.get(path(objects.NAMESPACE, scene.namespace))["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    hard = {"requests.nvidia.com/gpu": "8"}
    assert admin.get(path(objects.RESOURCE_QUOTA, "tenant"))["spec"]["hard"] == hard
    assert admin.get(path(objects.QUEUE, scene.namespace))["spec"]["capability"] == {"nvidia.com/gpu": "8"}
    deny = admin.get(path(objects.NETWORK_POLICY, "default-deny"))["spec"]
    assert "ingress" not in deny
    assert "egress" not in deny
    subjects = admin.get(path(objects.ROLE_BINDING, "tenant-reader"))["subjects"]
    assert {one["name"] for one in subjects} >= {"runner", f"oidc:/{scene.slug}/team-admins"}
    assert quotas.use(placement.tenant_id, placement.pool).limit == 8
    asker = scene.world.people[Role.TEAM_ADMIN]
    assert [one.kind for one in Notice.objects.for_system().filter(user=asker).order_by("pk")] == [
        "tenant.approved",
        "tenant.ready",
    ]


def test_a_repeat_changes_nothing(scene: Scene) -> None:
    scene.ask()
    before = scene.until(Placement.State.READY).found
    for key, kind, name in (("quota", objects.RESOURCE_QUOTA, "tenant"), ("role", objects.ROLE, "tenant-reader")):
        version = scene.admin.get(scene.path(kind, name))["metadata"]["resourceVersion"]
        scene.look()
        assert scene.admin.get(scene.path(kind, name))["metadata"]["resourceVersion"] == version, key
    assert [(one.state, one.mark) for one in scene.look().found] == [(one.state, one.mark) for one in before]
    assert Entry.objects.filter(action="tenant.ready").count() == 1


def test_a_removed_limit_range_is_reported_and_comes_back_when_asked(scene: Scene) -> None:
    scene.ask()
    placement = scene.until(Placement.State.READY)
    path = scene.path(objects.LIMIT_RANGE, "tenant")
    scene.admin.delete(path)
    for _ in range(2):
        scene.look()
        assert scene.states()["defaults"] == "missing"
        assert [one.note for one in waiting_for(scene.world.actor(Role.OPERATOR))] == ["LimitRange tenant"]
        assert waiting_for(scene.world.actor(Role.SCIENTIST)) == []
        assert scene.look().is_ready
        with pytest.raises(NotFound):
            scene.admin.get(path)
    assert Entry.objects.get(action="tenant.drift").params["objects"] == "LimitRange tenant"
    with pytest.raises(Denied):
        services.restore(scene.world.actor(Role.SCIENTIST), placement=placement)
    services.restore(Actor.system("test"), placement=scene.look())
    scene.look()
    assert scene.states()["defaults"] == "applied"
    assert scene.admin.get(path)["spec"]["limits"]
    done = Entry.objects.get(action="tenant.restored", result="done")
    assert done.params["objects"] == "LimitRange tenant"


CHANGES: dict[str, tuple[str, objects.Kind, str, dict[str, Any], str]] = {
    "a hole in the network policy": (
        "network-allow", objects.NETWORK_POLICY, "baseline", {"spec": {"egress": [{}]}}, "spec.egress",
    ),
    "more GPUs": (
        "quota", objects.RESOURCE_QUOTA, "tenant", {"spec": {"hard": {"requests.nvidia.com/gpu": "99"}}},
        "spec.hard.requests.nvidia.com/gpu",
    ),
    "a role that reads secrets": (
        "role", objects.ROLE, "tenant-reader",
        {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}, "rules",
    ),
    "a namespace without Pod Security": (
        "namespace", objects.NAMESPACE, "", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}},
        "metadata.labels.pod-security.kubernetes.io/enforce",
    ),
    "our own label taken off": (
        "account", objects.SERVICE_ACCOUNT, "runner", {"metadata": {"labels": {"maas.portal/tenant": None}}},
        "metadata.labels.maas.portal/tenant",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_somebody_changes_is_named_and_restored(scene: Scene, change: str) -> None:
    key, kind, name, patch, field = CHANGES[change]
    scene.ask()
    scene.until(Placement.State.READY)
    path = scene.path(kind, name or scene.namespace)
    before = scene.admin.get(path)
    scene.admin.merge_patch(path, patch)
    found = {one.key: one for one in scene.look().found}
    assert [one.key for one in found.values() if one.is_off] == [key]
    assert field in [one.field for one in found[key].fields]
    services.restore(scene.world.actor(Role.OPERATOR), placement=scene.look())
    scene.look()
    assert scene.states()[key] == "applied"
    after = scene.admin.get(path)
    for part in ("spec", "rules"):
        assert after.get(part) == before.get(part)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


def test_what_others_add_beside_ours_is_no_drift(scene: Scene) -> None:
    scene.ask()
    scene.until(Placement.State.READY)
    path = scene.path(objects.NAMESPACE, scene.namespace)
    scene.admin.merge_patch(path, {"metadata": {"labels": {"istio-injection": "enabled"}}})
    scene.look()
    assert scene.states()["namespace"] == "applied"


def test_a_closed_queue_is_drift_and_is_opened_again(scene: Scene) -> None:
    scene.ask()
    scene.until(Placement.State.READY)
    queue = scene.admin.get(scene.path(objects.QUEUE, scene.namespace))
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "close", "namespace": scene.namespace},
        "action": "CloseQueue",
        "target": {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "name": scene.namespace,
            "uid": queue["metadata"]["uid"],
        },
    }
    scene.admin.create(objects.path(objects.VOLCANO_COMMAND, scene.namespace), command)
    placement = scene.until(Placement.State.FAILED)
    assert [one.field for one in placement.off[0].fields] == ["status.state"]
    services.restore(Actor.system("test"), placement=placement)
    scene.until(Placement.State.READY)


def test_a_changed_limit_follows_without_putting_back_what_was_removed(scene: Scene) -> None:
    scene.ask(gpus=8)
    placement = scene.until(Placement.State.READY)
    scene.admin.delete(scene.path(objects.LIMIT_RANGE, "tenant"))
    quotas.set_base(scene.world.actor(Role.OPERATOR), placement.tenant_id, placement.pool, 12)
    assert placement.pk in services.due_placements()
    scene.look()
    hard = scene.admin.get(scene.path(objects.RESOURCE_QUOTA, "tenant"))["spec"]["hard"]
    assert hard == {"requests.nvidia.com/gpu": "12"}
    queue = scene.admin.get(scene.path(objects.QUEUE, scene.namespace))
    assert queue["spec"]["capability"] == {"nvidia.com/gpu": "12"}
    assert scene.states()["defaults"] == "missing"


def test_a_namespace_that_is_not_ours_is_left_alone(scene: Scene) -> None:
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.namespace, "labels": {"owner": "x"}}}
    scene.admin.create("/api/v1/namespaces", theirs)
    scene.ask()
    placement = scene.until(Placement.State.FAILED)
    assert scene.states()["namespace"] == "taken"
    assert scene.states()["quota"] == "waiting"
    assert not scene.admin.list(objects.path(objects.RESOURCE_QUOTA, scene.namespace))
    services.remove(scene.world.actor(Role.OPERATOR), placement=placement, typed=scene.slug)
    scene.until(Placement.State.GONE)
    labels = scene.admin.get(scene.path(objects.NAMESPACE, scene.namespace))["metadata"]["labels"]
    assert labels["owner"] == "x"
    assert "maas.portal/tenant" not in labels


def test_a_cluster_that_is_away_for_a_while(scene: Scene, plane: Plane) -> None:
    placement = scene.ask()
    plane.stop()
    try:
        away = scene.look()
        assert (away.state, bool(away.problem), away.looked_at) == (Placement.State.ASKED, True, None)
    finally:
        plane.start()
    ready = scene.until(Placement.State.READY)
    assert (ready.pk, ready.problem) == (placement.pk, "")


def test_nothing_is_removed_while_a_job_lives(scene: Scene) -> None:
    scene.ask()
    placement = scene.until(Placement.State.READY)
    operator = scene.world.actor(Role.OPERATOR)
    job = factories.job(scene.world.scientist, placement)
    with pytest.raises(services.Blocked) as blocked:
        services.remove(operator, placement=placement, typed=scene.slug)
    assert "tenant=" + scene.slug in blocked.value.blockers[0].url
    assert scene.look().is_ready
    with pytest.raises(services.WrongName):
        services.remove(operator, placement=placement, typed="nlp")
    with pytest.raises(Denied):
        services.remove(scene.world.actor(Role.TEAM_ADMIN), placement=placement, typed=scene.slug)
    Job.objects.for_system().filter(pk=job.pk).update(phase="stopped", ended_at="2026-11-30T00:00:00Z")
    services.remove(operator, placement=placement, typed=scene.slug)
    assert services.placement_of(placement.tenant_id) is None
    scene.until(Placement.State.GONE)
    assert scene.states() == dict.fromkeys(("work", "close", "delete-queue", "delete-namespace"), "done")
    for kind in (objects.NAMESPACE, objects.QUEUE):
        with pytest.raises(NotFound):
            scene.admin.get(scene.path(kind, scene.namespace))
    assert quotas.use(placement.tenant_id, placement.pool).limit == 0
    gone = scene.look()
    assert (gone.tenant.slug, gone.due_at) == (scene.slug, None)


def test_a_job_that_slipped_in_holds_the_removal_up(scene: Scene) -> None:
    scene.ask()
    placement = scene.until(Placement.State.READY)
    services.remove(scene.world.actor(Role.OPERATOR), placement=placement, typed=scene.slug)
    job = factories.job(scene.world.scientist, placement)
    scene.look()
    assert scene.states()["work"] == "waiting"
    assert scene.admin.get(scene.path(objects.QUEUE, scene.namespace))["status"]["state"] == "Open"
    Job.objects.for_system().filter(pk=job.pk).update(phase="stopped", ended_at="2026-11-30T00:00:00Z")
    scene.until(Placement.State.GONE)


def test_a_removed_tenant_can_come_back(scene: Scene) -> None:
    placement = scene.ask()
    scene.until(Placement.State.READY)
    services.remove(scene.world.actor(Role.OPERATOR), placement=placement, typed=scene.slug)
    scene.until(Placement.State.GONE)
    again = scene.ask(gpus=4)
    assert again.pk == placement.pk
    scene.until(Placement.State.READY)
    assert scene.states() == dict.fromkeys(KEYS, "applied")
