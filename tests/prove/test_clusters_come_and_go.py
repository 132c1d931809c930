"""A cluster is added, its credential rotated and revoked or over, and it is removed again, all while jobs run in it and
in another one: no job and no line is lost, the other cluster never notices, and nothing of ours stays behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.prove.other_cluster import SECRETS, OtherCluster, other_cluster
from tests.prove.stack import SCIENTIST, Stack, until
from tests.prove.story import OPERATOR, TENANT, Story

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]

SLUG, NAMESPACE = "other", f"tenant-{TENANT}"
VOLCANO_JOBS = f"apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
OURS = "app.kubernetes.io/managed-by=maas-portal"
ENDS_AFTER = 40.0
"""Seconds for which the short-lived credential is good: long enough to be checked."""


@dataclass
class Guest:
    """The other cluster as its operator and its tenant's people see it through the portal."""

    story: Story
    cluster: OtherCluster
    counting: str = ""
    """A job that writes a number, the next higher each time, until it is stopped."""
    late: str = ""
    """A job that was submitted while the credential was rejected."""
    tokens: set[str] = field(default_factory=set)

    @property
    def stack(self) -> Stack:
        return self.story.stack

    def seen(self, slug: str = SLUG) -> dict[str, Any]:
        return dict(self.story.rest(OPERATOR).get(f"clusters/{slug}"))

    def access(self, token: str) -> dict[str, str]:
        self.tokens.add(token)
        return {"server": self.cluster.server, "ca_pem": self.cluster.ca_pem, "token": token}

    def accepted(self) -> int:
        """How many credentials of any cluster were taken into use."""
        found = self.stack.rows("SELECT count(*) FROM audit_entry WHERE action = 'cluster.credential-accepted'")
        return int(found[0][0])

    def renew(self, token: str) -> None:
        before = self.accepted()
        self.story.done(OPERATOR, "PUT", f"clusters/{SLUG}/credential", json=self.access(token))
        until(lambda: self.accepted() > before, 120, what="the new credential is in use")

    def numbers(self) -> list[int]:
        """What the counting job's log holds, in its order."""
        return [int(text) for _attempt, _rank, _at, text in self.story.rest(SCIENTIST).lines(self.counting)]

    def await_more(self) -> None:
        """The log goes on, without a line missing or doubled."""
        after = len(self.numbers()) + 5
        numbers = until(lambda: found if len(found := self.numbers()) >= after else None, 120, what="the log goes on")
        assert numbers == list(range(1, len(numbers) + 1))

    def submit(self, tenant: str, command: str) -> str:
        document = {
            "template": "command", "name": f"{tenant} {self.story.tag} {time.time_ns()}", "image": "maas/shell:1",
            "command": command, "ranks": 1, "gpus_per_rank": 1, "cpus_per_rank": 0.1, "memory_gib_per_rank": 0.1,
            "grace_seconds": 1,
        }  # fmt: skip
        answer = self.story.done(SCIENTIST, "POST", "jobs", json={"tenant": tenant, "document": document})
        return str(answer["id"])

    def home_is_well(self) -> None:
        """In the cluster that was there before, a job goes its whole way."""
        job = self.submit("nlp", "true")
        assert self.story.rest(SCIENTIST).await_phase(job, "succeeded")["attempt"] == 1
        assert self.seen(self.story.cluster)["silent_since"] is None

    def told(self, kind: str) -> int:
        return int(self.stack.rows("SELECT count(*) FROM notices_notice WHERE kind = %s", kind)[0][0])


@pytest.fixture(scope="module")
def guest(second_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    second_stack.await_all()
    with other_cluster(tmp_path_factory.mktemp("other")) as cluster:
        yield Guest(Story(second_stack), cluster)


def test_a_cluster_is_added_while_jobs_run_elsewhere(guest: Guest) -> None:
    story = guest.story
    before = guest.submit("nlp", "sleep 3600")
    body = {"slug": SLUG, "name": "Other", **guest.access(guest.cluster.credential("first"))}
    story.done(OPERATOR, "POST", "clusters", json=body)
    until(lambda: guest.seen()["state"] == "ready" and guest.seen()["seen_at"], 120, what="it is checked and watched")
    wish = {"slug": TENANT, "name": "语音", "cluster": SLUG, "gpus": 4, "reason": "more room"}
    story.done(OPERATOR, "POST", "tenant-requests", code=201, json=wish)
    story.await_tenant()
    story.sign_in_again()
    guest.counting = guest.submit(TENANT, "sh -c 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.5; done'")
    story.rest(SCIENTIST).await_phase(guest.counting, "running")
    guest.await_more()
    assert story.rest(SCIENTIST).await_phase(before, "running")["attempt"] == 1
    guest.stack.rest().stop_through_outages(before)


def test_its_credential_is_rotated_while_a_job_runs(guest: Guest) -> None:
    guest.renew(guest.cluster.credential("second"))
    guest.cluster.revoke("first")
    guest.await_more()
    job = guest.submit(TENANT, "true")
    guest.story.rest(SCIENTIST).await_phase(job, "succeeded")
    assert guest.seen()["silent_since"] is None
    assert guest.story.rest(SCIENTIST).job(guest.counting)["phase"] == "running"


def test_without_a_credential_work_goes_on_unseen_and_is_kept(guest: Guest) -> None:
    """A real API server's token comes to its end; the small one's is revoked."""
    if guest.cluster.key:
        guest.renew(guest.cluster.credential_until(time.time() + ENDS_AFTER))
    guest.cluster.revoke("second")
    until(lambda: guest.seen()["silent_since"], 180, what="the cluster rejects the portal")
    kind = "cluster.expired" if guest.cluster.key else "cluster.credential-rejected"
    until(lambda: guest.told(kind), 120, what="operators are told")
    assert guest.told(kind) == 1
    job = guest.story.rest(SCIENTIST).job(guest.counting)
    assert (job["phase"], job["silent_since"]) == ("running", guest.seen()["silent_since"])
    with guest.stack.browser(OPERATOR) as client:
        assert "It has rejected the portal's credential since" in client.get(f"/clusters/{SLUG}/").text
    guest.late = guest.submit(TENANT, "true")
    late = until(lambda: found if (found := guest.story.rest(SCIENTIST).job(guest.late))["reason"] else None, 60)
    assert late["phase"] == "submitted"
    guest.home_is_well()


def test_a_new_credential_lets_everything_go_on(guest: Guest) -> None:
    guest.renew(guest.cluster.credential("third"))
    until(lambda: guest.seen()["silent_since"] is None, 120, what="it is seen again")
    assert guest.story.rest(SCIENTIST).await_phase(guest.late, "succeeded")["attempt"] == 1
    guest.await_more()
    job = guest.story.rest(SCIENTIST).job(guest.counting)
    assert (job["phase"], job["attempt"], job["silent_since"]) == ("running", 1, None)


def test_it_is_not_removed_while_something_lives_there(guest: Guest) -> None:
    refused = guest.story.ask(OPERATOR, "POST", f"clusters/{SLUG}/remove", json={"name": SLUG})
    assert refused.status_code == 409, refused.text
    assert "has its place here" in refused.text
    assert "1 job has not ended" in refused.text
    assert guest.seen()["takes_work"]


def test_it_is_removed_when_nothing_does_and_nothing_stays(guest: Guest) -> None:
    story = guest.story
    story.rest(SCIENTIST).stop_through_outages(guest.counting)
    story.rest(SCIENTIST).await_phase(guest.counting, "stopped")
    story.done(OPERATOR, "POST", f"tenants/{TENANT}/{SLUG}/remove", json={"name": TENANT})
    gone = "the tenant has left the cluster"
    until(lambda: story.rest(OPERATOR).get(f"tenants/{TENANT}")[0]["state"] == "gone", 180, what=gone)
    story.done(OPERATOR, "POST", f"clusters/{SLUG}/remove", code=204, json={"name": SLUG})
    assert story.ask(OPERATOR, "GET", f"clusters/{SLUG}").status_code == 404
    cluster = guest.cluster
    assert not cluster.is_there(f"api/v1/namespaces/{NAMESPACE}")
    assert not cluster.is_there(f"apis/scheduling.volcano.sh/v1beta1/queues/{NAMESPACE}")
    for path in ("api/v1/pods", "api/v1/persistentvolumeclaims", "api/v1/secrets", "api/v1/namespaces", VOLCANO_JOBS):
        assert cluster.items(path, labelSelector=OURS) == [], path
    assert [one["metadata"]["name"] for one in cluster.items(SECRETS)] == ["third"], "the operator's own, to be revoked"
    ended = guest.stack.rows("SELECT phase, count(*) FROM jobs_job WHERE name LIKE %s GROUP BY 1", f"{TENANT} %")
    assert dict(ended) == {"succeeded": 2, "stopped": 1}
    assert "0 differences" in guest.stack.demo.manage("check_holds")
    guest.home_is_well()
