"""One step at a time against a live API server: the cluster's side is written by the test, as Volcano would."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from apps.adapters.errors import Unavailable
from apps.adapters.kubernetes import KubeApi, objects
from apps.clusters import services as clusters
from apps.clusters.services.connect import connect, endpoint, vault
from apps.jobs import services
from apps.jobs.domain import manifests
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.models import Job, JobRank
from apps.jobs.reconcile.draft import judge_draft
from apps.jobs.reconcile.job import look, reconcile_job
from apps.jobs.services import background
from apps.tenants.domain.place import place_steps
from apps.tenants.models import Placement
from apps.tenants.services import due_placements, place_of
from tests import factories
from tests.factories import World


@pytest.fixture(autouse=True)
def outside_calls() -> Any:
    """A test's own transaction is not one the code under test has opened."""
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


class Cluster:
    """The cluster's side of one job."""

    def __init__(self, job: Job) -> None:
        self.job, self.api = job, connect(job.placement.cluster)
        self.namespace, self.name = job.placement.namespace, manifests.object_name(job.pk)
        self.path = objects.path(objects.VOLCANO_JOB, self.namespace, self.name)

    def volcano_says(self, phase: str, **status: Any) -> None:
        self.api.merge_patch(f"{self.path}/status", {"status": {"state": {"phase": phase}, **status}})

    def pod(self, index: int, *, attempt: int = 1, phase: str = "Running", exit_code: int | None = None) -> None:
        name = f"{self.name}-{'worker' if index else 'master'}-{max(0, index - 1)}-{attempt}"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {manifests.JOB_LABEL: self.job.pk},
                "annotations": {manifests.ATTEMPT_ANNOTATION: str(attempt - 1)},
            },
            "spec": {
                "nodeName": "node-1",
                "containers": [{"name": "main", "image": "x", "env": [{"name": "RANK", "value": str(index)}]}],
            },
        }
        path = objects.object_path(body)
        self.api.apply(path, body)
        state = (
            {"terminated": {"exitCode": exit_code, "finishedAt": "2026-11-26T12:00:00Z"}}
            if exit_code
            else {"running": {}}
        )
        self.api.merge_patch(
            f"{path}/status", {"status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}}
        )

    def clear_pods(self) -> None:
        selector = f"{manifests.JOB_LABEL}={self.job.pk}"
        for pod in self.api.list(objects.path(objects.POD, self.namespace), label_selector=selector):
            self.api.delete(objects.path(objects.POD, self.namespace, pod["metadata"]["name"]), grace=0)


def step(job: Job) -> Phase:
    """One look, as the task takes it."""
    clusters.look(background.job_rows(job.pk), reconcile_job)
    job.refresh_from_db()
    assert job.lease_until is None
    assert (job.due_at is None) == job.state.is_final
    return job.state


@pytest.fixture
def job(connected: World) -> Job:
    return factories.job(connected.scientist, connected.place)


def test_a_job_that_waits_for_long_is_looked_at_more_rarely(job: Job) -> None:
    """Its changes are told by the watch; thousands of looks that find nothing keep workers from new jobs."""

    def pause() -> timedelta:
        assert step(job) is Phase.WAITING
        assert job.due_at
        return job.due_at - timezone.now()

    assert pause() < timedelta(seconds=2), "just applied"
    assert pause() <= timedelta(seconds=30)
    Job.objects.for_system().filter(pk=job.pk).update(created_at=timezone.now() - timedelta(minutes=10))
    assert timedelta(minutes=2) < pause() < timedelta(minutes=3)
    Job.objects.for_system().filter(pk=job.pk).update(created_at=timezone.now() - timedelta(days=10))
    assert pause() <= timedelta(minutes=5)


class Counting(KubeApi):
    """Counts the objects that lists bring, and remembers what was listed."""

    listed = 0
    paths: frozenset[str] = frozenset()

    def list(self, path: str, label_selector: str = "", field_selector: str = "") -> list[dict[str, Any]]:
        found = super().list(path, label_selector, field_selector)
        self.paths |= {path.rpartition("/")[2]}
        self.listed += len(found)
        return found


@pytest.fixture
def applied(job: Job) -> Cluster:
    assert step(job) is Phase.WAITING
    return Cluster(job)


def test_a_job_from_submit_to_success(job: Job) -> None:
    assert step(job) is Phase.WAITING
    cluster = Cluster(job)
    stored = cluster.api.get(cluster.path)
    assert stored["metadata"]["uid"] == job.object_uid
    cluster.volcano_says("Pending")
    cluster.pod(0, phase="Pending")
    assert step(job) is Phase.STARTING
    cluster.pod(0)
    cluster.pod(1)
    cluster.volcano_says("Running")
    assert step(job) is Phase.RUNNING
    cluster.volcano_says("Completed")
    assert step(job) is Phase.SUCCEEDED
    assert [row.phase for row in services.history_of(job)] == [
        "submitted",
        "waiting",
        "starting",
        "running",
        "succeeded",
    ]
    assert job.ended_at
    assert sorted(JobRank.objects.filter(job=job).values_list("rank", "node")) == [(0, "node-1"), (1, "node-1")]


def test_a_job_that_waits_does_not_read_what_the_others_wait_for(applied: Cluster) -> None:
    """A thousand waiting jobs that each list a thousand PodGroups keep the API server busy with nothing else."""
    uid = applied.api.get(applied.path)["metadata"]["uid"]
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "0/4 nodes"}
    for name in ("another", f"{applied.name}-{uid}"):
        path = objects.path(objects.POD_GROUP, applied.namespace, name)
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"minMember": 2}}
        group["status"] = {"phase": "Inqueue", "conditions": [condition]}
        applied.api.apply(path, group | {"metadata": {"name": name, "namespace": applied.namespace}})
    api = Counting(endpoint(applied.job.placement.cluster))
    seen = look(api, applied.job)
    assert seen
    assert seen.waiting_for.code != "waiting.scheduler"
    assert api.listed == 0


@pytest.mark.parametrize(("wanted", "listed"), [(Wanted.RUN, {"pods", "events"}), (Wanted.STOP, {"pods"})])
def test_why_it_waits_is_asked_of_no_job_that_is_to_end(applied: Cluster, wanted: Wanted, listed: set[str]) -> None:
    """Events are dear to list, and thousands of jobs may be stopped at a time."""
    api = Counting(endpoint(applied.job.placement.cluster))
    applied.job.wanted = wanted
    assert look(api, applied.job)
    assert api.paths == listed


def test_an_apply_whose_answer_was_lost_is_found_and_not_repeated(applied: Cluster) -> None:
    job = applied.job
    before = applied.api.get(applied.path)["metadata"]
    Job.objects.for_system().update(phase=Phase.SUBMITTED, object_uid="")
    job.refresh_from_db()
    assert step(job) is Phase.WAITING
    after = applied.api.get(applied.path)["metadata"]
    assert (after["uid"], after["resourceVersion"]) == (before["uid"], before["resourceVersion"])
    assert job.object_uid == before["uid"]


def test_a_failed_rank_restarts_the_gang_as_attempt_two(applied: Cluster) -> None:
    job = applied.job
    for index in (0, 1):
        applied.pod(index)
    applied.volcano_says("Running")
    assert step(job) is Phase.RUNNING
    applied.pod(1, phase="Failed", exit_code=137)
    applied.volcano_says("Restarting", retryCount=1)
    assert step(job) is Phase.RESTARTING
    assert (job.attempt, job.reason, job.reason_params["code"]) == (2, "failed.exit", 137)
    applied.clear_pods()
    for index in (0, 1):
        applied.pod(index, attempt=2)
    applied.volcano_says("Running", retryCount=1)
    assert step(job) is Phase.RUNNING
    assert sorted(JobRank.objects.filter(job=job).values_list("attempt", "rank")) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert services.ranks_of(job).count() == 2


def test_the_rank_that_broke_a_gang_is_named_though_its_pod_went_before_anybody_looked(applied: Cluster) -> None:
    job = applied.job
    for index in (0, 1):
        applied.pod(index)
    applied.volcano_says("Running")
    assert step(job) is Phase.RUNNING
    broken = JobRank.objects.get(job=job, rank=1)
    end = clusters.PodEnd(job.pk, broken.pod_uid, broken.pod_name, 1, 1, "node-1", 137, timezone.now())
    background.note_pod_end(end)
    applied.clear_pods()
    applied.volcano_says("Restarting", retryCount=1)
    assert step(job) is Phase.RESTARTING
    assert (job.reason, job.reason_params) == ("failed.exit", {"rank": 1, "code": 137, "node": "node-1"})


def test_a_restart_seen_before_its_cause_is_told_gets_it_later(applied: Cluster) -> None:
    """The watch tells of the pod and of its job by two streams; a worker may be quicker than the first of them."""
    job = applied.job
    for index in (0, 1):
        applied.pod(index)
    applied.volcano_says("Running")
    assert step(job) is Phase.RUNNING
    broken = JobRank.objects.get(job=job, rank=1)
    applied.clear_pods()
    applied.volcano_says("Restarting", retryCount=1)
    assert step(job) is Phase.RESTARTING
    assert job.reason == "failed.cluster"
    background.note_pod_end(
        clusters.PodEnd(job.pk, broken.pod_uid, broken.pod_name, 1, 1, "node-1", 137, timezone.now())
    )
    job.refresh_from_db()
    assert (job.reason, job.reason_params) == ("failed.exit", {"rank": 1, "code": 137, "node": "node-1"})
    assert services.history_of(job)[-1].reason == "failed.exit"


def test_a_look_that_is_older_than_what_the_watch_told_changes_nothing(applied: Cluster) -> None:
    job = applied.job
    applied.pod(1)
    applied.volcano_says("Running")
    step(job)
    seen = JobRank.objects.get(job=job)
    background.note_pod_end(clusters.PodEnd(job.pk, seen.pod_uid, seen.pod_name, 1, 1, "node-1", 137, timezone.now()))
    step(job)
    seen.refresh_from_db()
    assert (seen.phase, seen.exit_code) == ("Failed", 137)
    applied.clear_pods()
    step(job)
    seen.refresh_from_db()
    assert (seen.phase, seen.exit_code) == ("Failed", 137)


def test_a_job_of_one_attempt_ends_in_it(applied: Cluster) -> None:
    """Volcano counts the failure that ended the job as a retry; no second run ever was."""
    job = applied.job
    applied.pod(0, phase="Failed", exit_code=3)
    applied.volcano_says("Failed", retryCount=1)
    assert step(job) is Phase.FAILED
    assert (job.attempt, job.reason_params["code"]) == (1, 3)
    assert services.ranks_of(job).count() == 1


def test_a_restart_between_two_looks_is_told_by_the_history(applied: Cluster) -> None:
    job = applied.job
    for index in (0, 1):
        applied.pod(index)
    applied.volcano_says("Running")
    assert step(job) is Phase.RUNNING
    applied.pod(1, phase="Failed", exit_code=137)
    for index in (0, 1):
        applied.pod(index, attempt=2)
    applied.volcano_says("Running", retryCount=1)
    assert step(job) is Phase.RUNNING
    told = [(row.phase, row.attempt, row.reason) for row in services.history_of(job)][-2:]
    assert told == [("restarting", 2, "failed.exit"), ("running", 2, "")]


def test_stop_deletes_and_a_late_apply_is_undone(applied: Cluster) -> None:
    job = applied.job
    Job.objects.for_system().update(wanted=Wanted.STOP, wanted_by="Li Na")
    assert step(job) is Phase.STOPPING
    assert step(job) is Phase.STOPPED
    assert (job.reason, job.reason_params) == ("stopped.by", {"name": "Li Na"})
    applied.api.apply(
        applied.path, manifests.job_manifests(job.pk, job.spec, services.reading.place(job.placement))[-1]
    )
    step(job)
    assert (
        applied.api.list(
            objects.path(objects.VOLCANO_JOB, applied.namespace), field_selector=f"metadata.name={applied.name}"
        )
        == []
    )


def test_a_late_apply_with_the_known_uid_revives_nothing(applied: Cluster) -> None:
    job = applied.job
    place = services.reading.place(job.placement)
    applied.api.delete(applied.path, uid=job.object_uid)
    late = manifests.job_manifests(job.pk, job.spec, place, uid=job.object_uid)[-1]
    with pytest.raises(Exception, match="uid"):
        applied.api.apply(applied.path, late)
    assert step(job) is Phase.FAILED
    assert job.reason == "failed.disappeared"


def test_suspend_and_resume_send_one_command_each(applied: Cluster) -> None:
    job, commands = applied.job, objects.path(objects.VOLCANO_COMMAND, applied.namespace)
    applied.volcano_says("Running")

    def sent() -> list[str]:
        mine = [c for c in applied.api.list(commands) if c["target"]["name"] == applied.name]
        return sorted(c["action"] for c in mine)

    Job.objects.for_system().update(wanted=Wanted.SUSPEND, wanted_by="Li Na")
    assert step(job) is Phase.SUSPENDING
    assert step(job) is Phase.SUSPENDING
    assert sent() == ["AbortJob"]
    applied.volcano_says("Aborted", retryCount=1)
    assert step(job) is Phase.SUSPENDED
    assert job.reason == "suspended.by"
    Job.objects.for_system().update(wanted=Wanted.RUN)
    step(job)
    step(job)
    assert sent() == ["AbortJob", "ResumeJob"]
    applied.volcano_says("Restarting", retryCount=1)
    for _look in range(2):
        assert step(job) is Phase.RESTARTING
        assert job.reason == "", "nothing broke"


def test_a_foreign_object_under_the_jobs_name_is_left_alone(job: Job) -> None:
    api: KubeApi = connect(job.placement.cluster)
    body = manifests.job_manifests(job.pk, job.spec, services.reading.place(job.placement))[-1]
    body["metadata"]["labels"] = {}
    api.create(objects.path(objects.VOLCANO_JOB, job.placement.namespace), body)
    assert step(job) is Phase.FAILED
    assert job.reason == "failed.conflict"


def test_a_cluster_that_is_away_keeps_the_job_and_says_so(job: Job) -> None:
    cluster = job.placement.cluster
    cluster.server = "http://127.0.0.1:1"
    cluster.save()
    assert step(job) is Phase.SUBMITTED
    assert (job.reason, job.failures) == ("waiting.cluster", 1)
    with pytest.raises(Unavailable):
        connect(cluster).version()


def test_a_job_asks_a_silent_cluster_rarely_until_the_watch_has_an_answer(job: Job) -> None:
    """Thousands that each ask every five seconds would hold up the jobs of every other cluster."""
    cluster = job.placement.cluster
    clusters.for_system().filter(pk=cluster.pk).update(server="http://127.0.0.1:1")

    def pause() -> timedelta:
        Job.objects.for_system().filter(pk=job.pk).update(failures=9)
        assert step(job) is Phase.SUBMITTED
        return job.due_at - timezone.now()

    assert pause() <= timedelta(seconds=5)
    clusters.note_silence(cluster.pk, "no route")
    assert timedelta(minutes=4) < pause() <= timedelta(minutes=5)
    assert background.waiting_jobs(cluster.pk) == [job.pk]
    assert background.due_jobs() == [job.pk]


def test_a_job_that_finds_nobody_as_the_watch_hears_an_answer_asks_again_soon(job: Job) -> None:
    """It was not written as one that waits when the watch listed those."""
    clusters.for_system().filter(pk=job.placement.cluster_id).update(server="http://127.0.0.1:1")
    clusters.note_silence(job.placement.cluster_id, "no route")
    stale = background.job_rows(job.pk).get()
    clusters.note_answer(job.placement.cluster_id, "v1")
    assert background.waiting_jobs(job.placement.cluster_id) == []
    pause = reconcile_job(stale)
    assert pause is not None
    assert pause <= timedelta(seconds=5)


def test_a_right_that_is_missing_keeps_the_job_until_it_is_there(job: Job) -> None:
    """A kube-apiserver that has just started says so of every right: no job may fail of it."""
    cluster, namespace = job.placement.cluster, job.placement.namespace
    admin = connect(cluster)
    account = objects.path(objects.SERVICE_ACCOUNT, namespace, "looker")
    admin.apply(account, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "looker"}})
    token = admin.create(f"{account}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}).object

    def grant(role: str, *rules: dict[str, list[str]]) -> None:
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": role}}
        admin.apply(objects.path(objects.ROLE, namespace, role), {"kind": "Role", "rules": rules} | rbac)
        subject = {"kind": "ServiceAccount", "name": "looker", "namespace": namespace}
        body = {"kind": "RoleBinding", "subjects": [subject]} | rbac
        body["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
        admin.apply(objects.path(objects.ROLE_BINDING, namespace, role), body)

    grant("look", {"apiGroups": ["", "batch.volcano.sh"], "resources": ["*"], "verbs": ["get", "list"]})
    cluster.credential_path = "clusters/looker"
    cluster.save()
    vault().write(cluster.credential_path, {"token": token["status"]["token"]})
    assert step(job) is Phase.SUBMITTED
    assert (job.reason, job.failures) == ("waiting.right", 1)
    grant("write", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    assert step(job) is Phase.WAITING


TAKEN_AWAY = {"the account": "portal-account", "its rights": "portal-binding"}


@pytest.mark.parametrize("what", TAKEN_AWAY)
def test_a_job_whose_tenant_lost_its_account_says_so_and_goes_in_when_that_is_back(job: Job, what: str) -> None:
    admin, steps = connect(job.placement.cluster), {one.key: one for one in place_steps(place_of(job.placement))}
    manifest = steps[TAKEN_AWAY[what]].manifest
    Placement.objects.for_system().update(due_at=None)
    admin.delete(objects.object_path(manifest))
    for failures in (1, 2):
        assert step(job) is Phase.SUBMITTED
        assert (job.reason, job.failures) == ("waiting.account", failures)
        assert due_placements() == [job.placement_id], "its place is looked at, and what is missing is named there"
    admin.apply(objects.object_path(manifest), manifest)
    assert step(job) is Phase.WAITING


def test_a_running_job_is_seen_without_its_tenants_account_and_stopped_when_that_is_back(applied: Cluster) -> None:
    job = applied.job
    (account,) = [one.manifest for one in place_steps(place_of(job.placement)) if one.key == "portal-account"]
    applied.api.delete(objects.object_path(account))
    applied.volcano_says("Running")
    applied.pod(0)
    applied.pod(1)
    assert step(job) is Phase.RUNNING
    Job.objects.for_system().update(wanted=Wanted.STOP)
    assert step(job) is Phase.RUNNING
    assert job.reason == "waiting.account"
    applied.api.apply(objects.object_path(account), account)  # another uid: tokens of the one before are refused
    assert step(job) is Phase.STOPPING


def test_a_job_in_the_place_of_another_tenant_is_refused_by_the_cluster(job: Job, connected: World) -> None:
    """Every check of the portal let it through: the cluster does not."""
    Job.objects.for_system().update(placement=connected.other_place)
    api = connect(job.placement.cluster)
    assert step(job) is Phase.SUBMITTED
    assert job.reason == "waiting.account"
    for kind in (objects.VOLCANO_JOB, objects.VOLUME_CLAIM, objects.SECRET):
        assert api.list(objects.path(kind, connected.other_place.namespace)) == []


def test_a_dry_run_judges_and_creates_nothing(connected: World) -> None:
    draft = factories.draft(connected.scientist, connected.nlp)
    judge_draft(str(draft.pk))
    draft.refresh_from_db()
    assert draft.dry_run["state"] == "accepted", draft.dry_run
    assert [entry["kind"] for entry in draft.dry_run["objects"]] == ["PersistentVolumeClaim", "Job", "Pod"]
    api = connect(connected.place.cluster)
    name = manifests.object_name(draft.job_id)
    for kind in (objects.VOLCANO_JOB, objects.VOLUME_CLAIM, objects.POD):
        found = api.list(objects.path(kind, connected.place.namespace))
        assert not [item for item in found if item["metadata"]["name"].startswith(name)]
