"""The cluster's API server is killed under a steady stream of submissions, and comes back: nothing is lost, nothing
happens twice, and nothing is there that no row knows.

MAAS_AWAY_SECONDS and MAAS_AWAY_RATE make it longer or faster: 60 s under 50 submissions a second is what the portal
promises; by default both are less, so that the whole takes minutes on two cores.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.prove.stack import ADMIN, FINAL, SCIENTIST, Rest, Stack, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1200)]

RATE = float(os.environ.get("MAAS_AWAY_RATE", "10"))
AWAY = float(os.environ.get("MAAS_AWAY_SECONDS", "12"))
BEFORE = AFTER = 3.0
CLIENTS = 8
TWICE = 7
"""Every so manieth submission is sent twice at the same time, as by an impatient client."""
PATIENCE = 900.0
"""Thousands of jobs go in one after the other; how fast is the machine's affair."""
TENANT, NAMESPACE, GPUS = "nlp", "tenant-nlp", 8
LABEL = "maas.portal/job"
CORE = f"api/v1/namespaces/{NAMESPACE}"
OWNED = {
    "pods": f"{CORE}/pods",
    "claims": f"{CORE}/persistentvolumeclaims",
    "secrets": f"{CORE}/secrets",
    "configmaps": f"{CORE}/configmaps",
    "services": f"{CORE}/services",
    "groups": f"apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups",
    "commands": f"apis/bus.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/commands",
}


@dataclass
class Submissions:
    """A stream of small jobs by several clients, each sent until it is answered. `ids` is what came back, by key."""

    clients: list[Rest]
    command: str
    tag: str = field(default_factory=lambda: os.urandom(3).hex())
    ids: dict[str, set[str]] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """How long each answer took."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Submissions:
        self._begun, self._numbers = time.monotonic(), itertools.count()
        self._pool = ThreadPoolExecutor(CLIENTS)
        self._running = [self._pool.submit(self._client, one) for one in range(CLIENTS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._pool.shutdown()
        self.lasted = time.monotonic() - self._begun
        for one in self._running:
            one.result()

    @property
    def rate(self) -> float:
        """Answered submissions a second."""
        return len(self.ids) / self.lasted

    def _client(self, which: int) -> None:
        rest = self.clients[which % len(self.clients)]
        while True:
            number = next(self._numbers)
            self._ended.wait(max(0.0, self._begun + number / RATE - time.monotonic()))
            if self._ended.is_set():
                return
            document = self.document(number)
            copies = 2 if number % TWICE == 0 else 1
            with ThreadPoolExecutor(copies) as senders:
                ids = set(senders.map(self._sent, [rest] * copies, [document] * copies))
            self.ids[document["name"]] = ids

    def document(self, name: object) -> dict[str, Any]:
        return {
            "template": "command", "name": f"away {self.tag} {name}", "image": "maas/shell:1", "command": self.command,
            "ranks": 1, "gpus_per_rank": GPUS, "cpus_per_rank": 0.1, "memory_gib_per_rank": 0.1, "grace_seconds": 1,
        }  # fmt: skip

    def _sent(self, rest: Rest, document: dict[str, Any]) -> str:
        """The id that it is answered with; its name is its key."""
        while True:
            start = time.monotonic()
            try:
                answer = rest.post(document, document["name"])
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1
                continue
            self.seconds.append(time.monotonic() - start)
            self.answers[str(answer.status_code)] += 1
            if answer.status_code == 202:
                return str(answer.json()["id"])
            assert answer.status_code >= 500, answer.text
            time.sleep(float(answer.headers.get("Retry-After", 1)))


@dataclass
class Told:
    """The stream as it was answered, and what was read while the API server was away."""

    stack: Stack
    submissions: Submissions
    witness: str
    """A job that ran before, and goes on running."""
    job: dict[str, Any]
    cluster: dict[str, Any]
    page: str
    listed: int

    @property
    def ids(self) -> set[str]:
        return {self.witness}.union(*self.submissions.ids.values())

    def rows(self) -> dict[str, tuple[str, str]]:
        """Phase and uid of the object, by job."""
        name = f"away {self.submissions.tag} %"
        found = self.stack.rows("SELECT id, phase, object_uid FROM jobs_job WHERE name LIKE %s", name)
        return {job_id: (phase, uid) for job_id, phase, uid in found}

    def unfinished(self) -> set[str]:
        return {job_id for job_id, (phase, _uid) in self.rows().items() if phase not in FINAL}

    def objects(self) -> dict[str, str]:
        """Uid of each one's Volcano Job in the cluster, by job."""
        items = [item["metadata"] for item in self.stack.cluster.items(self.stack.cluster.JOBS)]
        assert len({item["labels"][LABEL] for item in items}) == len(items), "two objects of one job"
        return {item["labels"][LABEL]: item["uid"] for item in items if item["labels"][LABEL] in self.ids}

    def owned(self) -> dict[str, set[str]]:
        """The jobs whose things are in the tenant's namespace, by kind of thing: read from label or name."""
        found: dict[str, set[str]] = {}
        for kind, path in OWNED.items():
            items = [item["metadata"] for item in self.stack.cluster.items(path)]
            named = {item["name"][2:28].upper() for item in items if item["name"].startswith("j-")}
            found[kind] = named | {item["labels"][LABEL] for item in items if LABEL in item.get("labels", {})}
        return found


@pytest.fixture(scope="module")
def told(second_stack: Stack) -> Iterator[Told]:
    stack = second_stack
    stack.await_all()
    room = round(RATE * (BEFORE + AWAY + AFTER + 60)) * GPUS
    stack.give_room(TENANT, room)
    clients = [stack.rest(SCIENTIST), stack.rest(ADMIN)]
    submissions = Submissions(clients, "sh -c 'echo ran; sleep 0.5'")
    witness = stack.rest().submit(submissions.document("witness") | {"command": "sleep 3600"})
    stack.rest().await_phase(witness, "running", seconds=240)
    slug = stack.rest().get("quota", tenant=TENANT)[0]["cluster"]
    with stack.browser(SCIENTIST) as page, submissions:
        time.sleep(BEFORE)
        with stack.without_api():
            gone = time.monotonic()
            cluster = until(lambda: silent(stack, slug), 30, what="the silence is noticed")
            job = until(lambda: read(stack, f"jobs/{witness}"), 30)
            text = until(lambda: read_page(page, f"/jobs/{witness}/"), 30)
            listed = until(lambda: len(read(stack, "jobs")["results"]), 30)
            time.sleep(max(0.0, gone + AWAY - time.monotonic()))
        time.sleep(AFTER)
    one = Told(stack, submissions, witness, job, cluster, text, listed)
    print(f"{one.submissions.rate:.1f} submissions/s of {RATE:g}, {len(one.ids)} jobs, {one.submissions.answers}")
    yield one
    stack.give_room(TENANT, 16)


def read(stack: Stack, path: str) -> dict[str, Any]:
    """The answer; nothing while the portal says that it has too much to do."""
    answer = stack.rest().http.get(path)
    assert answer.status_code in (200, 503), answer.text
    return dict(answer.json()) if answer.status_code == 200 else {}


def read_page(client: httpx.Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code in (200, 503), answer.text
    return answer.text if answer.status_code == 200 else ""


def silent(stack: Stack, slug: str) -> dict[str, Any]:
    cluster = read(stack, f"clusters/{slug}")
    return cluster if cluster.get("silent_since") else {}


def test_every_submission_was_answered_once(told: Told) -> None:
    """The same key again is the same job, however often and whatever came back the first time."""
    assert all(len(ids) == 1 for ids in told.submissions.ids.values())
    assert told.ids == told.rows().keys()
    codes = {code for code in told.submissions.answers if code.isdigit()}
    assert codes <= {"202", "503"}, "an answer that a cluster has given"


def test_what_was_read_meanwhile_said_how_old_it_was(told: Told) -> None:
    assert told.job["silent_since"] == told.cluster["silent_since"]
    assert "does not answer" in told.page
    assert told.listed


def test_every_job_reached_the_cluster_once(told: Told) -> None:
    waited = time.monotonic()
    until(lambda: all(phase != "submitted" for phase, _ in told.rows().values()), PATIENCE, what="all have gone in")
    print(f"all went in within {time.monotonic() - waited:.0f} s of the last submission")
    rows, objects = told.rows(), told.objects()
    assert {phase for phase, _ in rows.values()} <= {"waiting", "starting", "running", "succeeded"}
    assert rows[told.witness][0] == "running"
    assert objects == {job_id: uid for job_id, (_phase, uid) in rows.items()}


def test_nothing_is_there_that_no_row_knows(told: Told) -> None:
    known = {job_id for (job_id,) in told.stack.rows("SELECT id FROM jobs_job")}
    found = told.owned()
    assert {kind: ids - known for kind, ids in found.items()} == {kind: set() for kind in OWNED}
    assert told.ids <= found["claims"]


def test_what_is_held_and_recorded_is_what_was_submitted(told: Told) -> None:
    assert "0 differences" in told.stack.demo.manage("check_holds")
    sql = "SELECT target, count(*) FROM audit_entry WHERE action = 'job.submitted' AND target = ANY(%s) GROUP BY 1"
    recorded = told.stack.rows(sql, [f"job:{job_id}" for job_id in told.ids])
    assert recorded
    assert dict(recorded) == {f"job:{job_id}": 1 for job_id in told.ids}


def test_everything_can_be_stopped_and_nothing_stays(told: Told) -> None:
    """What ended by itself keeps its object for a day; every job keeps its checkpoints' volume."""
    until(lambda: any(phase == "succeeded" for phase, _ in told.rows().values()), 90, what="a job has ended well")
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda job_id: told.stack.rest(ADMIN).stop_through_outages(job_id), told.unfinished()))
    until(lambda: not told.unfinished(), PATIENCE, what="all have ended")
    rows = told.rows()
    succeeded = {job_id for job_id, (phase, _) in rows.items() if phase == "succeeded"}
    assert {phase for phase, _ in rows.values()} <= {"succeeded", "stopped"}
    until(lambda: told.objects().keys() == succeeded, 60, what="only what ended well has its object still")
    stopped = rows.keys() - succeeded
    things = [kind for kind in OWNED if kind != "claims"]
    until(lambda: not any(told.owned()[kind] & stopped for kind in things), 60, what="nothing of the others is left")
    assert not told.owned()["commands"]
    assert told.ids <= told.owned()["claims"]
    pods = [pod for pod in told.stack.cluster.items(told.stack.cluster.PODS) if LABEL in pod["metadata"]["labels"]]
    assert {pod["status"]["phase"] for pod in pods} <= {"Succeeded"}
    assert "0 differences" in told.stack.demo.manage("check_holds")
    assert told.stack.rest().get("quota", tenant=TENANT)[0]["held"] == 0


def test_no_job_ran_twice(told: Told) -> None:
    """Each that ended well has written its line, and once, whether or not the API server was there when it did."""
    succeeded = [job_id for job_id, (phase, _) in told.rows().items() if phase == "succeeded"]
    assert succeeded
    for job_id in succeeded:
        lines = until(lambda: told.stack.rest().lines(job_id), 60, what=f"the log of {job_id}")  # noqa: B023
        assert [text for _attempt, _rank, _at, text in lines] == ["ran"]
    sql = "SELECT job_id FROM jobs_jobrank WHERE job_id = ANY(%s) GROUP BY 1 HAVING count(*) > 1"
    assert told.stack.rows(sql, sorted(told.ids)) == []
