"""Secrets reach a job as files and leave with it: one step at a time against a live API server and a real store."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.accounts.domain import Role
from apps.adapters.errors import NotFound
from apps.adapters.kubernetes import objects
from apps.audit.models import Entry as AuditEntry
from apps.jobs import services as jobs
from apps.jobs.domain import manifests
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.models import Job
from apps.jobs.reconcile import delivery
from apps.secrets import services
from apps.secrets.models import Loan
from apps.secrets.services import store
from tests import factories
from tests.canaries import Canaries, database_dump, redis_dump
from tests.factories import World
from tests.jobs.test_reconcile import Cluster, step
from tests.secrets.test_entering import enter, entry


@pytest.fixture
def outside_calls() -> Iterator[None]:
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield
    del connection.outside_calls_allowed  # type: ignore[attr-defined]


@pytest.fixture
def place(outside_calls: None, connected: World) -> World:
    return connected


def job_with(world: World, *names: str) -> Job:
    return factories.job(world.scientist, world.place, document={"secrets": list(names)})


def brought(job: Job) -> dict[str, dict[str, Any]]:
    """The Secrets of a job as the cluster has them, by the name of what the job was given; read as an administrator."""
    api, found = Cluster(job).api, {}
    for name, stored in manifests.secret_names(job.pk, job.spec).items():
        try:
            found[name] = api.get(objects.path(objects.SECRET, job.placement.namespace, stored))
        except NotFound:
            continue
    return found


def data_of(secret: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


def test_a_job_is_given_files_and_loses_them_at_its_end(
    place: World, canaries: Canaries, caplog: pytest.LogCaptureFixture
) -> None:
    token, key = canaries.plant("token"), canaries.plant("key")
    enter(place, "hf-token", token)
    enter(place, "git", key)
    job = job_with(place, "hf-token", "git")
    assert step(job) is Phase.WAITING
    found = brought(job)
    assert {name: data_of(secret) for name, secret in found.items()} == {
        "hf-token": {"token": token},
        "git": {"token": key},
    }
    assert all(one["metadata"]["labels"][manifests.JOB_LABEL] == job.pk for one in found.values())
    volcano = Cluster(job).api.get(Cluster(job).path)
    pod = volcano["spec"]["tasks"][0]["template"]["spec"]
    mounts = {
        m["mountPath"]: (m["name"], m["readOnly"])
        for m in pod["containers"][0]["volumeMounts"]
        if "secret" in m["name"]
    }
    assert mounts == {"/run/secrets/maas/hf-token": ("secret-0", True), "/run/secrets/maas/git": ("secret-1", True)}
    volumes = {v["name"]: v["secret"] for v in pod["volumes"] if "secret" in v}
    assert volumes["secret-0"] == {"secretName": found["hf-token"]["metadata"]["name"], "defaultMode": 0o400}
    cluster = Cluster(job)
    cluster.volcano_says("Completed")
    assert step(job) is Phase.SUCCEEDED
    assert brought(job) == {}
    (loan,) = Loan.objects.all()
    assert loan.ended_at
    store.tend(loan.pk)
    assert Loan.objects.get().due_at is None
    said = AuditEntry.objects.filter(target=f"job:{job.pk}", action__startswith="secret.").order_by("id")
    assert [(one.action, one.params["names"]) for one in said] == [
        ("secret.lent", "git v1, hf-token v1"),
        ("secret.returned", "git, hf-token"),
    ]
    shown = str([*jobs.manifests_of(job), job.document])
    canaries.expect_none(
        database=database_dump(), redis=redis_dump(settings.REDIS_URL), log=caplog.text or "none", manifests=shown,
        job=str(volcano),
    )  # fmt: skip


@pytest.mark.parametrize("end", ["stopped", "failed", "deleted", "refused"])
def test_whatever_ends_it_the_secrets_go(place: World, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(place, "a")
    job = job_with(place, "a")
    if end == "refused":  # after its Secrets are there, its Volcano Job is refused
        Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(hours=1))
        monkeypatch.setattr(
            manifests, "_volcano_job", lambda job_id, *_: {**manifests._claim(job_id, _[1]), "spec": {"no": 1}}
        )
    else:
        assert step(job) is Phase.WAITING
        assert brought(job).keys() == {"a"}
    cluster = Cluster(job)
    match end:
        case "stopped":
            Job.objects.filter(pk=job.pk).update(wanted=Wanted.STOP)
            step(job)
        case "failed":
            cluster.volcano_says("Failed")
        case "deleted":
            cluster.api.delete(cluster.path)
    assert step(job).is_final
    assert brought(job) == {}
    assert Loan.objects.get().ended_at


def test_a_secret_that_is_gone_before_the_job_goes_in_fails_it_with_its_name(place: World) -> None:
    secret = enter(place, "a")
    job = job_with(place, "a")
    services.remove(place.actor(Role.SCIENTIST), secret=secret)
    assert step(job) is Phase.FAILED
    assert (job.reason, job.reason_params) == ("failed.secret", {"name": "a"})


def test_a_job_that_runs_keeps_what_it_was_given_and_the_next_gets_the_new(place: World) -> None:
    secret = enter(place, "a", "old")
    first = job_with(place, "a")
    step(first)
    services.replace(place.actor(Role.SCIENTIST), secret=secret, entry=entry("new"))
    Cluster(first).volcano_says("Running")
    step(first)
    second = job_with(place, "a")
    step(second)
    assert [data_of(brought(job)["a"]) for job in (first, second)] == [{"token": "old"}, {"token": "new"}]


def test_a_job_stopped_while_a_slow_worker_brings_its_secrets_ends_without_them(place: World) -> None:
    """The slow worker's next look, or the end of its lease, takes them back."""
    enter(place, "a")
    job = job_with(place, "a")
    slow = Job.objects.select_related("placement__tenant", "placement__cluster").get(pk=job.pk)
    Job.objects.filter(pk=job.pk).update(wanted=Wanted.STOP)
    assert step(job) is Phase.STOPPED
    delivery.bring(Cluster(slow).api, slow)
    assert brought(job)
    assert step(job) is Phase.STOPPED
    assert brought(job) == {}
    assert not Loan.objects.filter(ended_at=None).exists()


def test_removing_says_which_unfinished_jobs_name_it(place: World) -> None:
    secret = enter(place, "a")
    named, ended = job_with(place, "a"), job_with(place, "a")
    job_with(place)
    Job.objects.filter(pk=ended.pk).update(phase=Phase.FAILED)
    (used,) = services.with_uses([secret])
    assert [use.url for use in used.uses] == [f"/jobs/{named.pk}/"]


def test_names_of_another_tenant_are_no_names_here(place: World) -> None:
    services.enter(place.stranger().actor(), tenant_id=place.vision.pk, name="theirs", entry=entry("x"))
    document = {**factories.DOCUMENT, "secrets": ["theirs"]}
    with pytest.raises(jobs.InvalidDocument) as caught:
        jobs.submit(place.actor(Role.SCIENTIST), tenant_id=place.nlp.pk, document=document)
    assert [(p.field, p.code) for p in caught.value.problems] == [("secrets", "unknown-secret")]
