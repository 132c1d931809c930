"""One step at a time against a live API server: the pod's side is written by the test, as a kubelet would."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.adapters.kubernetes import objects
from apps.catalog import services
from apps.catalog.domain import manifests
from apps.catalog.domain.moving import Moving
from apps.catalog.models import ModelVersion, RegisteredModel, Transfer
from apps.catalog.reconcile.transfer import reconcile_transfer
from apps.catalog.services import background, words
from apps.clusters import services as clusters
from apps.clusters.services.connect import connect
from apps.tenants.domain.place import place_steps
from apps.tenants.services import place_of
from tests.catalog import made
from tests.factories import World


class Cluster:
    """The cluster's side of one transfer."""

    def __init__(self, transfer: Transfer) -> None:
        self.api, self.namespace = connect(transfer.placement.cluster), transfer.placement.namespace
        self.name = manifests.object_name(transfer.pk)
        self.pod, self.secret = (
            objects.path(kind, self.namespace, self.name) for kind in (objects.POD, objects.SECRET)
        )

    def claim(self, name: str) -> None:
        body = {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }  # fmt: skip
        self.api.apply(objects.object_path(body), body)

    def token(self) -> str:
        return base64.b64decode(self.api.get(self.secret)["data"]["token"]).decode()

    def there(self) -> list[str]:
        """Which of the transfer's objects are there."""
        selector = f"{manifests.TRANSFER_LABEL}"
        kinds = (objects.POD, objects.SECRET)
        return [
            kind.name
            for kind in kinds
            for item in self.api.list(objects.path(kind, self.namespace), label_selector=selector)
            if item["metadata"]["name"] == self.name and not item["metadata"].get("deletionTimestamp")
        ]


def step(transfer: Transfer) -> Moving:
    """One look, as the task takes it."""
    clusters.look(background.transfer_rows(transfer.pk), reconcile_transfer)
    transfer.refresh_from_db()
    assert transfer.lease_until is None
    return transfer.state


@pytest.fixture
def transfer(connected: World) -> Transfer:
    transfer = made.transfer_of(made.version(connected.scientist, connected.place))
    Cluster(transfer).claim("j-01job")
    return transfer


def test_from_asked_to_ready_and_nothing_stays_behind(transfer: Transfer) -> None:
    cluster = Cluster(transfer)
    assert step(transfer) is Moving.CARRYING
    assert cluster.there() == ["Pod", "Secret"]
    pod, token = cluster.api.get(cluster.pod), cluster.token()
    assert token not in json.dumps(pod), "the token is in a file, nowhere in the manifest"
    assert not pod["spec"]["containers"][0].get("env")
    claim = next(v["persistentVolumeClaim"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v)
    assert claim == {"claimName": "j-01job", "readOnly": True}
    files = {"model.safetensors": made.safetensors({"w": ("F32", [2], b"\0" * 8)})}
    asking = Client(headers={"Authorization": f"Bearer {token}"})
    base = f"/artifacts/uploads/{transfer.pk}"
    assert asking.put(base, json.dumps(made.plan(files))).json()["needed"] == list(files)
    assert asking.put(f"{base}/model.safetensors", files["model.safetensors"]).status_code == 204
    assert asking.post(base, '{"outcome": "done"}', content_type="application/json").status_code == 204
    assert step(transfer) is Moving.DONE
    step(transfer)
    assert cluster.there() == []
    version = ModelVersion.objects.get()
    assert (version.files, version.facts["format"], version.facts["parameters"]) == ("ready", "safetensors", 2)
    assert RegisteredModel.objects.get().format == "safetensors"


def test_a_second_look_after_a_lost_answer_keeps_the_pod_and_its_token(transfer: Transfer) -> None:
    step(transfer)
    token = Cluster(transfer).token()
    Transfer.objects.filter(pk=transfer.pk).update(phase=Moving.ASKED)  # the worker died before it could note it
    assert step(transfer) is Moving.CARRYING
    assert Cluster(transfer).token() == token


def test_a_pod_that_ends_without_a_word_fails_it_and_a_person_may_try_again(
    connected: World, transfer: Transfer
) -> None:
    cluster = Cluster(transfer)
    step(transfer)
    state = {"terminated": {"exitCode": 137, "finishedAt": "2026-11-30T00:00:00Z"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}
    cluster.api.merge_patch(f"{cluster.pod}/status", {"status": status})
    assert step(transfer) is Moving.FAILED
    assert "exit code 137" in words.transfer_text(transfer)
    step(transfer)
    assert cluster.there() == []
    version = ModelVersion.objects.get()
    again = services.bring_again(connected.scientist.actor(), version=version)
    assert step(again) is Moving.CARRYING


def test_a_pod_that_finds_no_node_says_so_and_is_given_up_in_the_end(transfer: Transfer) -> None:
    cluster = Cluster(transfer)
    step(transfer)
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    cluster.api.merge_patch(f"{cluster.pod}/status", {"status": {"phase": "Pending", "conditions": [waiting]}})
    assert step(transfer) is Moving.CARRYING
    assert "Unschedulable" in words.transfer_text(transfer)
    Transfer.objects.filter(pk=transfer.pk).update(started_at=timezone.now() - timedelta(minutes=16))
    assert step(transfer) is Moving.FAILED
    assert transfer.reason == "pod-pending"


def test_a_pod_that_somebody_deleted_fails_it(transfer: Transfer) -> None:
    step(transfer)
    cluster = Cluster(transfer)
    cluster.api.delete(cluster.pod, grace=0)
    assert step(transfer) is Moving.FAILED
    assert transfer.reason == "pod-gone"


def test_a_volume_that_is_gone_is_said(connected: World) -> None:
    transfer = made.transfer_of(made.version(connected.scientist, connected.place, name="late"))
    Transfer.objects.filter(pk=transfer.pk).update(source={"claim": "j-gone"})
    transfer.refresh_from_db()
    assert step(transfer) is Moving.FAILED
    assert "j-gone" in words.transfer_text(transfer)


def test_a_deleted_models_transfer_is_taken_away(connected: World, transfer: Transfer) -> None:
    step(transfer)
    model = RegisteredModel.objects.get()
    services.delete_model(connected.scientist.actor(), model=model, typed=model.name)
    assert step(transfer) is Moving.STOPPED
    assert Cluster(transfer).there() == []


def test_a_cluster_that_is_away_is_waited_for(transfer: Transfer) -> None:
    cluster = transfer.placement.cluster
    cluster.server = "http://127.0.0.1:1"
    cluster.save()
    assert step(transfer) is Moving.ASKED
    assert (transfer.reason, transfer.failures) == ("waits-cluster", 1)


def test_something_else_of_that_name_is_left_alone(transfer: Transfer) -> None:
    cluster = Cluster(transfer)
    body: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": cluster.name, "namespace": cluster.namespace},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }  # fmt: skip
    cluster.api.apply(cluster.pod, body)
    assert step(transfer) is Moving.FAILED
    assert transfer.reason == "name-taken"
    step(transfer)
    assert cluster.api.get(cluster.pod)["spec"]["containers"][0]["image"] == "x"


def test_without_its_tenants_account_it_waits_and_says_so(transfer: Transfer) -> None:
    cluster = Cluster(transfer)
    place = {one.key: one.manifest for one in place_steps(place_of(transfer.placement))}
    rights = place["portal-binding"]
    cluster.api.delete(objects.object_path(rights))
    assert step(transfer) is Moving.ASKED
    assert transfer.reason == "waits-account"
    assert cluster.there() == []
    cluster.api.apply(objects.object_path(rights), rights)
    assert step(transfer) is Moving.CARRYING
