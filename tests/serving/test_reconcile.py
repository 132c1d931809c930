"""One step at a time against a live API server: the cluster's side is written by the test, as its controllers would."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from apps.adapters.errors import NotFound
from apps.adapters.kubernetes import objects
from apps.audit.services import Entry
from apps.catalog.models import Grant
from apps.clusters import services as clusters
from apps.clusters.models import Cluster
from apps.clusters.services.connect import connect
from apps.notices.models import Notice
from apps.quotas import services as quotas
from apps.serving import services
from apps.serving.domain import manifests
from apps.serving.domain.phases import Phase
from apps.serving.models import Deployment, Replica
from apps.serving.reconcile import routes
from apps.serving.reconcile.deployment import reconcile_deployment
from apps.serving.services import background
from apps.serving.services.waiting import waiting_for
from apps.tenants.domain.place import place_steps
from apps.tenants.services import place_of
from tests.factories import World
from tests.serving import made

P = Phase
POOL = quotas.Pool("train-a", "nvidia.com/gpu")


class Ground:
    """The cluster's side of one deployment: its controllers make pods, and the test plays scheduler and nodes."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment, self.api = deployment, connect(deployment.placement.cluster)
        self.namespace, self.name = deployment.placement.namespace, manifests.object_name(deployment.pk)
        self.path = objects.path(objects.DEPLOYMENT, self.namespace, self.name)

    def pods(self) -> list[dict[str, Any]]:
        selector = f"{manifests.LABEL}={self.deployment.pk}"
        found = self.api.list(objects.path(objects.POD, self.namespace), label_selector=selector)
        return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"] + pod["metadata"]["name"])

    def wait(self, count: int) -> list[dict[str, Any]]:
        """The pods, once there are so many that do not end."""
        wait_until(lambda: len([pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]) == count, 20)
        return self.pods()

    def run(self, pod: dict[str, Any], *, ready: bool = True, **container: Any) -> str:
        """Let a pod run, with an address that is returned; `container` overwrites the state of its main container."""
        path = objects.path(objects.POD, self.namespace, pod["metadata"]["name"])
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod["metadata"]["name"]},
                "target": target,
            }
            self.api.create(f"{path}/binding", body)
        main = {"name": "main", "state": {"running": {}}, "started": True, "ready": ready, "restartCount": 0}
        address = f"127.20.0.{1 + int(pod['metadata']['uid'][:2], 16) % 250}"
        status = {
            "phase": "Running",
            "podIP": address,
            "startTime": "2026-11-30T00:00:00Z",
            "containerStatuses": [{**main, "image": "x", "imageID": "x", **container}],
        }
        self.api.merge_patch(f"{path}/status", {"status": status})
        return address

    def kill(self, pod: dict[str, Any]) -> None:
        self.api.delete(objects.path(objects.POD, self.namespace, pod["metadata"]["name"]), grace=0)

    def end_all(self) -> None:
        """What its Deployment left behind ends, as kubelets would see to."""
        wait_until(lambda: all("deletionTimestamp" in pod["metadata"] for pod in self.pods()), 20)
        for pod in self.pods():
            self.kill(pod)
        wait_until(lambda: not self.pods(), 20)

    def is_there(self, kind: objects.Kind, name: str = "") -> bool:
        try:
            self.api.get(objects.path(kind, self.namespace, name or self.name))
        except NotFound:
            return False
        return True


def wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.05)


def step(deployment: Deployment) -> Phase:
    """One look, as the task takes it."""
    clusters.look(background.deployment_rows(deployment.pk), reconcile_deployment)
    deployment.refresh_from_db()
    assert deployment.lease_until is None
    return deployment.state


def endpoints(settings: Any, deployment: Deployment) -> list[str] | None:
    """The addresses that the gateway's files give for a deployment; None where no route leads to it."""
    folder = Path(settings.GATEWAY_DIR)
    if deployment.slug not in (folder / "routes.json").read_text():
        return None
    clusters = json.loads((folder / "clusters.json").read_text())["resources"]
    own = next(each for each in clusters if deployment.pk in each["name"])
    found = own["load_assignment"]["endpoints"][0]["lb_endpoints"]
    return [each["endpoint"]["address"]["socket_address"]["address"] for each in found]


@pytest.fixture
def ground(connected: World) -> Iterator[Ground]:
    """A deployment that nobody has taken to the cluster yet. What it leaves behind would use up the others' quota."""
    deployment = made.deployment(connected.scientist, made.version(connected.scientist, connected.place), replicas=2)
    here = Ground(deployment)
    yield here
    here.api.delete(here.path)
    here.end_all()


@pytest.fixture
def ready(ground: Ground) -> Ground:
    step(ground.deployment)
    for pod in ground.wait(2):
        ground.run(pod)
    assert step(ground.deployment) is P.READY
    return ground


def test_from_the_button_to_ready(ground: Ground, settings: Any) -> None:
    deployment = ground.deployment
    assert step(deployment) is P.ASKING
    stored = ground.api.get(ground.path)
    pod = stored["spec"]["template"]["spec"]
    assert stored["metadata"]["labels"][manifests.LABEL] == deployment.pk
    assert pod["schedulerName"] == "volcano"
    assert stored["spec"]["template"]["metadata"]["annotations"][manifests.QUEUE] == "tenant-nlp"
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert pod["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/health"
    assert ground.is_there(objects.SERVICE)
    assert Grant.objects.filter(subject=deployment.subject).count() == 1
    one, two = ground.wait(2)
    ground.run(one, ready=False)
    assert step(deployment) is P.WARMING
    assert endpoints(settings, deployment) == []
    first = ground.run(ground.pods()[0])
    assert step(deployment) is P.WARMING, "one of two"
    assert endpoints(settings, deployment) == [first]
    second = ground.run(two)
    assert step(deployment) is P.READY
    assert endpoints(settings, deployment) == sorted([first, second])
    assert [row.phase for row in services.history_of(deployment)] == ["asking", "warming", "ready"]
    assert Notice.objects.get().kind == "deployment.ready"
    version = ground.api.get(ground.path)["metadata"]["resourceVersion"]
    assert step(deployment) is P.READY
    assert ground.api.get(ground.path)["metadata"]["resourceVersion"] == version, "what stands is not sent again"


def test_a_pod_that_is_killed_degrades_it_and_its_return_is_seen(ready: Ground, settings: Any) -> None:
    deployment = ready.deployment
    lost, left = ready.pods()
    ready.kill(lost)
    assert step(deployment) is P.DEGRADED
    assert endpoints(settings, deployment) == [left["status"]["podIP"]]
    assert services.reason_text(deployment.reason, deployment.reason_params).startswith("1 of 2 replicas")
    assert quotas.booked(deployment.subject) > 0, "what the lost replica used is in the ledger"
    new = next(pod for pod in ready.wait(2) if pod["metadata"]["name"] != left["metadata"]["name"])
    ready.run(new)
    assert step(deployment) is P.READY
    assert Notice.objects.count() == 1, "that it is ready again is told nobody"


def test_scaling_changes_the_cluster_and_gives_the_hold_back_when_pods_are_gone(ready: Ground) -> None:
    deployment = ready.deployment
    services.scale(deployment.owner.actor(), deployment=deployment, replicas=1)
    assert step(deployment) is P.SCALING
    assert ready.api.get(ready.path)["spec"]["replicas"] == 1
    ready.wait(1)
    assert step(deployment) is P.SCALING, "one still ends"
    assert quotas.use(deployment.tenant_id, POOL).held == 2
    ready.kill(next(pod for pod in ready.pods() if "deletionTimestamp" in pod["metadata"]))
    assert step(deployment) is P.READY
    assert quotas.use(deployment.tenant_id, POOL).held == 1
    assert quotas.check() == []


def test_stopping_takes_the_route_away_before_the_replicas(ready: Ground, settings: Any) -> None:
    deployment = ready.deployment
    services.stop(deployment.owner.actor(), deployment=deployment)
    assert step(deployment) is P.STOPPING
    assert endpoints(settings, deployment) == []
    assert not ready.is_there(objects.DEPLOYMENT)
    assert not ready.is_there(objects.SERVICE)
    assert step(deployment) is P.STOPPING
    assert quotas.use(deployment.tenant_id, POOL).held == 2, "held while pods end"
    ready.end_all()
    assert step(deployment) is P.STOPPED
    assert quotas.use(deployment.tenant_id, POOL).held == 0
    assert quotas.check() == []
    assert not Grant.objects.filter(subject=deployment.subject).exists()
    services.start(deployment.owner.actor(), deployment=deployment)
    assert step(deployment) is P.ASKING
    assert ready.is_there(objects.DEPLOYMENT)


def test_removing_ends_the_route(ready: Ground, settings: Any) -> None:
    deployment = ready.deployment
    services.remove(deployment.owner.actor(), deployment=deployment, typed=deployment.name)
    assert step(deployment) is P.REMOVING
    assert endpoints(settings, deployment) is None
    ready.end_all()
    assert step(deployment) is P.REMOVED
    assert not Replica.objects.exists()
    assert quotas.check() == []
    moved = Entry.objects.filter(action="deployment.moved").order_by("id")
    assert [entry.params["new"] for entry in moved] == ["ready", "removing", "removed"]


def test_an_apply_that_comes_late_is_undone(ready: Ground) -> None:
    deployment = ready.deployment
    services.stop(deployment.owner.actor(), deployment=deployment)
    step(deployment)
    ready.end_all()
    assert step(deployment) is P.STOPPED
    plan = services.manifests_of(Deployment.objects.for_system().select_related("placement__tenant").get())
    ready.api.apply(ready.path, plan[1])
    assert step(deployment) is P.STOPPED
    assert not ready.is_there(objects.DEPLOYMENT)


def test_a_model_that_does_not_start_is_given_up_with_its_exit_code(ground: Ground) -> None:
    deployment = ground.deployment
    step(deployment)
    ended = {"terminated": {"exitCode": 1, "message": "No model to serve"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    ground.run(ground.wait(2)[0], ready=False, state=waiting, lastState=ended, restartCount=3, started=False)
    assert step(deployment) is P.FAILED
    assert (deployment.reason, deployment.reason_params["code"]) == ("failed.crash", 1)
    assert Notice.objects.get().kind == "deployment.failed"
    (waiting,) = waiting_for(deployment.owner.actor())
    assert (waiting.tone, "exit code 1" in str(waiting.note)) == ("red", True)
    step(deployment)
    assert not ground.is_there(objects.DEPLOYMENT)
    ground.end_all()
    assert step(deployment) is P.FAILED
    assert quotas.use(deployment.tenant_id, POOL).held == 0
    assert quotas.check() == []


def test_while_the_cluster_is_away_it_is_kept_and_goes_in_after(ground: Ground) -> None:
    deployment = ground.deployment
    here = deployment.placement.cluster.server
    Cluster.objects.for_system().update(server="http://127.0.0.1:1")
    assert step(deployment) is P.ASKING
    assert deployment.reason == "asking.cluster"
    Cluster.objects.for_system().update(server=here)
    step(deployment)
    assert ground.is_there(objects.DEPLOYMENT)
    assert deployment.failures == 0


def test_a_foreign_object_of_its_name_is_left_alone(ground: Ground) -> None:
    plan = services.manifests_of(ground.deployment)[1]
    plan["metadata"]["labels"] = {}
    plan["metadata"]["annotations"] = {}
    ground.api.apply(ground.path, plan)
    assert step(ground.deployment) is P.FAILED
    assert ground.deployment.reason == "failed.conflict"
    assert ground.is_there(objects.DEPLOYMENT)


def test_deleted_by_somebody_else_it_comes_back(ready: Ground) -> None:
    ready.api.delete(ready.path)
    ready.end_all()
    assert step(ready.deployment) is P.DEGRADED
    assert ready.is_there(objects.DEPLOYMENT)


def test_the_token_for_files_is_renewed_while_the_old_one_holds(ready: Ground) -> None:
    deployment = ready.deployment
    Deployment.objects.for_system().update(ticket_until=timezone.now() + timedelta(minutes=20))
    step(deployment)
    assert deployment.ticket_until
    assert deployment.ticket_until > timezone.now() + timedelta(minutes=50)
    assert Grant.objects.filter(subject=deployment.subject).count() == 2


def test_without_its_tenants_account_it_is_still_seen_and_stops_when_that_is_back(ready: Ground) -> None:
    deployment = ready.deployment
    place = {one.key: one.manifest for one in place_steps(place_of(deployment.placement))}
    account = place["portal-account"]
    ready.api.delete(objects.object_path(account))
    Deployment.objects.for_system().update(ticket_until=timezone.now() + timedelta(minutes=20))
    for pod in ready.pods():
        ready.kill(pod)
    assert step(deployment) is P.DEGRADED
    services.stop(deployment.owner.actor(), deployment=deployment)
    assert step(deployment) is P.DEGRADED
    assert deployment.reason == "asking.account"
    assert ready.is_there(objects.DEPLOYMENT)
    ready.api.apply(objects.object_path(account), account)
    assert step(deployment) is P.STOPPING
    assert not ready.is_there(objects.DEPLOYMENT)


def test_routes_that_cannot_be_written_hold_nothing_up_and_come_later(ready: Ground, settings: Any) -> None:
    deployment, folder = ready.deployment, settings.GATEWAY_DIR
    settings.GATEWAY_DIR = "/dev/null/gateway"
    services.stop(deployment.owner.actor(), deployment=deployment)
    assert step(deployment) is P.STOPPING
    assert not ready.is_there(objects.DEPLOYMENT)
    settings.GATEWAY_DIR = folder
    assert endpoints(settings, deployment) != []
    step(deployment)
    assert endpoints(settings, deployment) == []


def test_routes_are_read_in_two_queries(ready: Ground, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(2):
        assert len(list(routes.routes())) == 1
