"""Why a job waits: our own manifests under the scheduler, what its page, REST and the command then say of it."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.domain import Role
from apps.clusters.domain.queues import QueueSeen
from apps.clusters.services.catalogue import catalogue
from apps.clusters.services.queues import note_queues
from apps.clusters.services.seen import note_nodes
from apps.clusters.watch.nodes import Inventory
from apps.clusters.watch.projections import NODES, PODS
from apps.clusters.watch.queues import QUEUES
from apps.clusters.watch.queues import seen as read_queue
from apps.jobs import moves, services
from apps.jobs.domain import manifests
from apps.jobs.domain.lifecycle import Decision, Reason, decide
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.domain.seen import read_seen, waiting_for
from apps.jobs.models import Job
from apps.jobs.services import background, waiting
from apps.jobs.services.why import judged
from apps.tenants.domain.place import place_steps
from apps.tenants.services import place_of
from tests import factories
from tests.clusters import fleet_made
from tests.clusters.test_pending import seen_by_the_watch
from tests.factories import World
from tests.localcluster.volcano_cases import Object, case
from tests.localcluster.volcano_world import World as Volcano
from tests.pages import browser


class Stage:
    """Jobs of one tenant, as the portal sends them, in a cluster in memory where Volcano's stand-in decides."""

    def __init__(self, world: World, fleet: str = "4x8", **queue: Any) -> None:
        self.world, self.volcano = world, Volcano(fleet)
        self.place = world.place
        spec = {"capability": {"nvidia.com/gpu": "64"}, **queue}
        self.volcano.create({"kind": "Queue", "metadata": {"name": self.place.queue}, "spec": spec})

    def submit(self, name: str, **sizes: Any) -> Job:
        document = {"name": name, "gpus_per_rank": 8, **sizes}
        job = factories.job(self.world.scientist, self.place, document=document)
        Job.objects.filter(pk=job.pk).update(gpus=job.spec.gpus)
        job.refresh_from_db()
        claim, item = services.manifests_of(job)
        claim["spec"]["volumeName"] = "bound"
        self.volcano.claims[item["metadata"]["namespace"], claim["metadata"]["name"]] = claim
        self.volcano.create(item)
        moves.move(job, Phase.WAITING, moves.Facts(1, Reason("waiting.scheduler")))
        return self.look(job)

    def look(self, job: Job) -> Job:
        """Let the cluster come to rest, and take the step that a reconciler takes of what it sees."""
        self.volcano.settle()
        self._seen_by_the_watch()
        name = manifests.object_name(job.pk)
        item = self.volcano.jobs[name]
        group = self.volcano.groups.get(f"{name}-uid-{name}")
        told = [
            words for label, _reason, words in sorted(self.volcano.told) if group and label == group["metadata"]["name"]
        ]
        events = [{"message": words, "metadata": {}} for words in told]
        seen = read_seen(item, self.volcano.mine(item), group, events)
        decision = decide(job.state, Wanted(job.wanted), seen, known_uid="", ranks=job.spec.ranks)
        for rank in seen.ranks:
            background.keep_rank(rank.uid, {
                "job_id": job.pk, "pod_name": rank.name, "attempt": rank.attempt, "rank": rank.rank, "node": rank.node,
                "phase": rank.phase,
            })  # fmt: skip
        if decision.phase is Phase.WAITING:
            decision = Decision(decision.phase, decision.act, judged(job, decision.reason))
        moves.take(job, decision, seen.retries + 1)
        return job

    def _seen_by_the_watch(self) -> None:
        nodes, pods = seen_by_the_watch(self.volcano)
        read = Inventory(self.place.cluster_id).read(
            [NODES.decode(json.dumps(one)) for one in nodes],
            [PODS.decode(json.dumps(one)) for one in pods],
            catalogue(),
        )
        note_nodes(self.place.cluster_id, read)
        queues = []
        for name, queue in self.volcano.queues.items():
            queue["status"]["allocated"] = self.volcano.decisions.allocated[name]
            queue["metadata"] |= {"uid": name, "resourceVersion": "1"}
            queues.append(read_queue(QUEUES.decode(json.dumps(queue))))
        note_queues(self.place.cluster_id, queues)

    def why(self, job: Job) -> dict[str, Any]:
        answer: dict[str, Any] = browser(self.world.scientist).get(f"/api/v1/jobs/{job.pk}/why").json()
        return answer

    def gpus(self, job: Job) -> int:
        """Accelerators that its pods hold on nodes."""
        mine = self.volcano.mine(self.volcano.jobs[manifests.object_name(job.pk)])
        return sum(job.spec.gpus_per_rank for pod in mine if pod["spec"].get("nodeName"))

    def pods(self, job: Job) -> list[Object]:
        return self.volcano.mine(self.volcano.jobs[manifests.object_name(job.pk)])


# --- a job that never leaves Pending ------------------------------------------------------------------------------------


def test_volcano_3910_a_gang_larger_than_the_fleet_is_told_that_it_will_never_start(world: World) -> None:
    """volcano-sh/volcano#3910: the PodGroup stays Pending without pods, and the words are those of a full cluster."""
    stage = Stage(world)
    job = stage.submit("too large", ranks=5)
    assert not stage.pods(job), "nothing is there that an autoscaler or a person could look at"
    assert job.reason_params["text"] == "resource in cluster is overused: overused nvidia.com/gpu"
    assert [str(one.text) for one in waiting.waiting_for(world.scientist.actor())] == [
        "too large cannot start as it is"
    ]
    told = stage.why(job)
    assert told["codes"] == ["waiting.fleet-never"]
    sentence = "The job asks for 40 GPUs, and all nodes of the cluster together have 32 GPUs. It cannot start as it is:"
    assert told["reasons"] == [sentence + " clone it with fewer."]
    assert told["nodes"] | {"resource": ""} == {
        "resource": "", "asked": 40, "used": 0, "promised": 0, "deserved": None, "limit": 32, "free": 32, "short": 8,
    }  # fmt: skip


def test_volcano_3220_a_limit_of_9999_is_not_blamed_for_what_the_fleet_lacks(world: World) -> None:
    """volcano-sh/volcano#3220: "queue resource quota insufficient" under a limit that nobody can reach."""
    capability = {"cpu": "99999", "memory": "999999Gi", "vendor.example/rdma": "9999", "nvidia.com/gpu": "9999"}
    stage = Stage(world, capability=capability)
    job = stage.submit("a bit too large", ranks=9, gpus_per_rank=4)
    assert job.reason_params["text"] == "queue resource quota insufficient: insufficient nvidia.com/gpu"
    assert job.reason == "waiting.fleet-never"
    assert (job.reason_params["asked"], job.reason_params["most"]) == (36, 32)
    assert "queue" not in stage.why(job)["reasons"][0]


def test_volcano_3426_a_limit_that_names_gpus_alone_lets_jobs_in(world: World) -> None:
    """volcano-sh/volcano#3426: with `nvidia.com/gpu` and `cpu` in the limit nothing ran. Ours names the accelerator
    alone; a job within it starts, and one beyond it is told which resource is short, and by how much."""
    stage = Stage(world, capability={"nvidia.com/gpu": "4", "cpu": "5"})
    assert stage.submit("fits", ranks=1, gpus_per_rank=3, cpus_per_rank=4).phase in ("starting", "running")
    more = stage.submit("does not", ranks=1, gpus_per_rank=1, cpus_per_rank=2)
    assert more.reason == "waiting.queue-full"
    assert {key: more.reason_params[key] for key in ("resource", "asked", "used", "limit", "free", "short")} == {
        "resource": "cpu", "asked": 2000, "used": 4000, "limit": 5000, "free": 1000, "short": 1000,
    }  # fmt: skip
    (told,) = stage.why(more)["reasons"]
    assert "has 1 CPU core left of at most 5 CPU cores, and the job asks for 2 CPU cores; missing: 1 CPU core." in told
    only = next(step.manifest for step in place_steps(place_of(world.place)) if step.key == "queue")
    assert list(only["spec"]["capability"]) == [world.place.accelerator]


def test_volcano_3426_a_scheduler_that_takes_what_is_not_named_for_zero_is_found_out(world: World) -> None:
    """volcano-sh/volcano#3426: those versions name no resource, and count `pods` against a limit that says nothing of
    pods."""
    stage = Stage(world, capability={"nvidia.com/gpu": "8"})
    stage.volcano.settle()
    stage._seen_by_the_watch()
    job = factories.job(world.scientist, world.place, phase=Phase.WAITING)
    event = {"message": "queue resource quota insufficient", "metadata": {}}
    reason = judged(job, waiting_for({"status": {"phase": "Pending"}}, [event]))
    assert (reason.code, reason.params["unnamed"]) == ("waiting.queue-unnamed", ["cpu", "memory", "pods"])
    assert "The limit does not name cpu, memory, pods" in services.reason_text(reason.code, reason.params)
    event["message"] += ": insufficient nvidia.com/gpu"
    assert judged(job, waiting_for(None, [event])).code == "waiting.queue-limit", "it is named, so that is not it"


def test_volcano_2814_what_a_job_without_nodes_was_let_in_for_is_counted(world: World) -> None:
    """volcano-sh/volcano#2814: a gang that was let in and finds no nodes keeps its part of the queue from all others."""
    stage = Stage(world, "2gpu2cpu", capability={"nvidia.com/gpu": "15"})
    for number in range(2):
        stage.volcano.create(others_pod(f"piece-{number}"))
    stage.volcano.settle()
    first = stage.submit("in pieces", ranks=2, gpus_per_rank=7)
    assert (first.reason, len(stage.pods(first))) == ("waiting.pieces", 2)
    second = stage.submit("behind it", ranks=1, gpus_per_rank=2)
    told = stage.why(second)
    assert told["codes"] == ["waiting.queue-full"]
    (line,) = (one for one in told["queues"][0]["lines"] if one["resource"] == "nvidia.com/gpu")
    assert (line["used"], line["promised"], line["free"], line["short"]) == (0, 14, 1, 1)
    assert [(one["name"], one["gpus"], one["placed"]) for one in told["holders"]] == [("in pieces", 14, False)]


def others_pod(name: str, gpus: str = "1") -> Object:
    """A job of one pod in the queue of somebody else."""
    asks = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": gpus}
    container = {"name": "main", "image": "x", "resources": {"requests": asks, "limits": asks}}
    task = {"name": "w", "replicas": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    spec = {"schedulerName": "volcano", "queue": "default", "tasks": [task]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "a"},
        "spec": spec,
    }


def test_crater_318_a_job_that_fits_by_size_is_told_what_is_in_the_way_from_the_first_moment_on(world: World) -> None:
    """raids-lab/crater#318: it asked for less than nodes have, no event said why it waited, and it was released silently
    when its time was over."""
    stage = Stage(world)
    ahead = stage.submit("ahead", ranks=4)
    job = stage.submit("behind", ranks=1)
    assert ahead.phase in ("starting", "running")
    stage.volcano.told.clear()  # events live for an hour
    assert stage.look(job).reason == "waiting.fleet-full"
    told = stage.why(job)
    assert (
        "Of 32 GPUs in the cluster 0 GPUs are free, and the job asks for 8 GPUs; missing: 8 GPUs." in told["reasons"][0]
    )
    assert [(one["name"], one["gpus"], one["placed"]) for one in told["holders"]] == [("ahead", 32, True)]
    with time_machine.travel(timezone.now() + timedelta(days=30)):
        assert stage.look(job).state is Phase.WAITING, "nothing lets go of a job but a person"


def test_volcano_5805_a_gang_that_lost_a_node_gives_up_the_rest_and_is_never_said_to_run(world: World) -> None:
    """volcano-sh/volcano#5805: after a node was repaired another job had its place, and the gang stood below its minimum
    for good, with accelerators that computed nothing."""
    stage = Stage(world)
    gang = stage.submit("gang", ranks=4, attempts=5)
    assert stage.look(gang).state is Phase.RUNNING
    lost = stage.pods(gang)[0]
    cordoned = next(node for node in stage.volcano.nodes if node["metadata"]["name"] == lost["spec"]["nodeName"])
    cordoned["spec"]["unschedulable"] = True
    stage.volcano.follow({"delete": f"Pod/{lost['metadata']['name']}"})
    assert stage.look(gang).state is Phase.WAITING
    assert (gang.attempt, gang.reason) == (2, "waiting.nodes-out")
    assert stage.gpus(gang) == 0, "nothing is kept by ranks that wait for others"
    stage.volcano.create(others_pod("quicker", "6"))
    stage.volcano.settle()
    cordoned["spec"]["unschedulable"] = False
    assert stage.look(gang).reason == "waiting.fleet-full"
    assert stage.gpus(gang) == 0
    stage.volcano.end("quicker-w-0", 0)
    assert stage.look(gang).state is Phase.RUNNING, "it heals by itself, whole"
    assert stage.gpus(gang) == 32


def test_volcano_5805_ranks_that_wait_for_others_are_counted_and_shown_to_their_owner(world: World) -> None:
    """The same where something else has taken one rank away: the page does not say that every rank has a node."""
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING, document={"ranks": 4})
    pods = [
        {
            "metadata": {"name": f"w-{n}", "uid": f"w-{n}"}, "spec": {"nodeName": f"n-{n}" if n else ""},
            "status": {"phase": "Running" if n else "Pending"},
        }
        for n in range(4)
    ]  # fmt: skip
    item = {"metadata": {"uid": "u"}, "status": {"state": {"phase": "Pending"}}}
    decision = decide(job.state, Wanted.RUN, read_seen(item, pods, None, []), known_uid="u", ranks=4)
    assert (decision.phase, decision.reason) == (Phase.STARTING, Reason("starting.stranded", {"placed": 3, "ranks": 4}))
    moves.take(job, decision, 1)
    page = browser(world.scientist).get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "3 of 4 ranks have a node and wait for the others" in page
    assert "suspend the job and resume it" in page
    assert waiting.waiting_for(world.scientist.actor()) == [], "a gang takes a moment to be placed"
    with time_machine.travel(timezone.now() + timedelta(minutes=6)):
        (told,) = waiting.waiting_for(world.scientist.actor())
    assert str(told.text).endswith("lost a part of its place")


# --- what the scheduler and the controller say ---------------------------------------------------------------------------

SAID = {
    "07-queue-quota": ("b", "waiting.queue-limit"),
    "07-busy-by-one-job": ("a", "waiting.cluster-full"),
    "07-not-enough-whole-nodes": ("a", "waiting.nodes"),
    "03-gang-victim": ("high", "waiting.nodes"),  # it was first kept outside, and the event of that is still there
    "07-namespace-quota": ("a", "waiting.quota"),
    "07-namespace-quota-pods": ("a", "waiting.quota"),
    "07-missing-service-account": ("a", "waiting.pods"),
    "03-unknown-priority-class": ("a", "waiting.pods"),
    "07-missing-pvc": ("a", "waiting.volume"),
    "09-job-name-dot-svc": ("llama3.1-run", "waiting.plugin"),
}


@pytest.mark.parametrize("label", SAID)
def test_recorded_words_of_volcano_are_understood(label: str) -> None:
    job, code = SAID[label]
    outcome = case(label)["outcome"]
    group = outcome["final"].get("podgroups", {}).get(f"{job}-<uid>")
    about = (f"Job/{job}", f"PodGroup/{job}-<uid>")
    events = [{"message": one["message"], "metadata": {}} for one in outcome["events"] if one["on"] in about]
    reason = waiting_for({"status": group} if group else None, events)
    assert reason.code == code
    assert "0x" not in reason.params["text"]
    assert "ErrStatus" not in reason.params["text"], "the dump of an answer is not for people"


# --- told alike everywhere ----------------------------------------------------------------------------------------------


def test_page_rest_and_command_tell_the_same_in_both_languages(world: World) -> None:
    stage = Stage(world, capability={"nvidia.com/gpu": "24"})
    stage.submit("holds sixteen", ranks=2)
    job = stage.submit("asks for sixteen", ranks=2)
    told = stage.why(job)
    assert told["codes"] == ["waiting.queue-full"]
    sentence = told["reasons"][0]
    assert "8 GPUs left of at most 24 GPUs, and the job asks for 16 GPUs; missing: 8 GPUs" in sentence
    assert browser(world.scientist).get(f"/api/v1/jobs/{job.pk}").json()["reason"] == sentence
    page = browser(world.scientist).get(reverse("jobs:detail", args=[job.pk])).content.decode()
    for shown in (sentence, told["releases"][0], "holds sixteen", "queue tenant-nlp", told["told"]):
        assert shown in page
    out = StringIO()
    call_command("why", job.pk, "--as", world.scientist.sub, "--json", stdout=out)
    assert json.loads(out.getvalue()) == told
    out = StringIO()
    call_command("why", job.pk, "--as", world.scientist.sub, stdout=out)
    assert sentence in out.getvalue()
    assert "tenant-nlp: asked 16 GPUs, used 16 GPUs, limit 24 GPUs, free 8 GPUs, short 8 GPUs" in out.getvalue()
    viewer = browser(world.people[Role.VIEWER]).get(f"/api/v1/jobs/{job.pk}/why").json()
    assert viewer == told, "whoever may see the job may know why it waits"
    assert browser(world.stranger()).get(f"/api/v1/jobs/{job.pk}/why").status_code == 404


def test_a_gang_of_other_ranks_is_offered_where_only_their_size_is_in_the_way(world: World) -> None:
    stage = Stage(world)
    for number in range(4):
        stage.volcano.create(others_pod(f"five-{number}", "5"))
    job = stage.submit("whole nodes", ranks=1, gpus_per_rank=8)
    told = stage.why(job)
    assert told["codes"] == ["waiting.pieces"]
    assert told["releases"][0] == "It is cloned with 4 ranks of 2 GPUs each: they find room now"


def test_a_job_that_waits_for_nothing_in_its_cluster_is_told_so(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.RUNNING)
    assert browser(world.scientist).get(f"/api/v1/jobs/{job.pk}/why").json()["waiting"] is False
    unseen = factories.job(world.scientist, world.place, phase=Phase.WAITING, reason="waiting.scheduler")
    told = browser(world.scientist).get(f"/api/v1/jobs/{unseen.pk}/why").json()
    assert told["codes"] == ["waiting.scheduler"], "nothing is made up of a cluster that was not seen"


def test_a_fleet_of_any_size_is_counted_in_as_many_queries(world: World) -> None:
    job = factories.job(world.scientist, world.place, phase=Phase.WAITING, reason="waiting.scheduler")
    counts = []
    for nodes in (5, 500):
        note_nodes(world.place.cluster_id, [fleet_made.node(f"n-{n}") for n in range(nodes)])
        note_queues(world.place.cluster_id, [QueueSeen(f"q-{n}", state="Open") for n in range(nodes // 5)])
        with CaptureQueriesContext(connection) as queries:
            told = judged(job, Reason("waiting.scheduler"))
        assert told.code == "waiting.scheduler", "two GPUs are free"
        counts.append(len(queries))
    assert counts[0] == counts[1]
