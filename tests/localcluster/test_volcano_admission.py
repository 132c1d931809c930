"""Who is refused and with which words: as the real Volcano answered."""

from __future__ import annotations

from typing import Any

import pytest

from apps.localcluster.volcano import plugins
from apps.localcluster.volcano.admission import jobs, queues, schema
from tests.localcluster.volcano_cases import Object, admitted, case, cases, created, open_queue, patched

PREFIX = "denied the request: "
CHILD = {"job-parent-queue": {"child": open_queue("child", parent="dept"), "dept": open_queue("dept", parent="root")}}
CLOSED = {"qc": {"metadata": {"name": "qc"}, "spec": {}, "status": {"state": "Closed"}}}


def expected(found: Object, step: int) -> str | None:
    """The refusal of a step; the empty text if it was accepted; None if the server itself refused it."""
    answer = found["outcome"].get("answers", {}).get(f"step {step}", {"code": 201})
    words = str(answer.get("message", ""))
    if answer["code"] == 500 or "metadata.name" in words or (answer["code"] == 422 and not words):
        return None
    if answer["code"] == 422:
        return words
    return words.partition(PREFIX)[2] if answer["code"] == 400 else ""


def refusals() -> list[Any]:
    """Every create of topics 09 and 12 that is not the server's own affair."""
    out = []
    for found in cases("09", "12"):
        for number, step in enumerate(found["objects"], 1):
            item = step.get("create")
            if item and item["kind"] != "Command" and (words := expected(found, number)) is not None:
                out.append(pytest.param(item, words, id=f"{found['id']}:{number}"))
    return out


def verdict(item: Object, known: dict[str, Object]) -> str:
    try:
        if item["kind"] == "Job":
            full = patched(item, jobs.defaults(item))
            return schema.refusal(full) or jobs.refuse_create(full, known)
        if item["kind"] == "Queue":
            full = patched(item, queues.defaults(item))
            return schema.refusal(full) or queues.refuse_create(full, known)
        if words := schema.refusal(item):
            return words
    except ValueError as error:
        return str(error)
    if item["kind"] == "PodGroup":
        return queues.refuse_group(item, known)
    return queues.refuse_hypernode(item)


@pytest.mark.parametrize(("item", "words"), refusals())
def test_a_new_object_is_answered_as_recorded(item: Object, words: str) -> None:
    # "dept" is a parent in one case only, where a job is sent to it.
    family = {"dept": open_queue("dept", parent="root"), "child": open_queue("child", parent="dept")}
    known = {"default": open_queue(), "root": open_queue("root"), **CLOSED, **(family if item["kind"] == "Job" else {})}
    if item["kind"] == "Queue" and item["spec"].get("parent") == "dept":
        known["dept"] = family["dept"]
    assert verdict(item, known).strip() == words.strip()


@pytest.mark.parametrize("found", [c for c in cases("10") if "delete" not in c["id"]], ids=lambda c: c["id"])
def test_a_change_of_a_job_is_answered_as_recorded(found: Object) -> None:
    old = admitted(created(found)[0])
    for number, step in enumerate(found["objects"], 1):
        words = expected(found, number)
        if "patch" in step and isinstance(step["body"], list) and words is not None:
            new = patched(old, step["body"])
            assert (schema.refusal(new) or jobs.refuse_update(old, new)) == words
        elif "server_side_apply" in step and number > 1:
            # Tasks are one value to server-side apply: what the webhook wrote into them goes, the job's fields stay.
            new = {**old, "spec": {**old["spec"], **step["server_side_apply"]["spec"]}}
            assert jobs.refuse_update(old, new) == words


def test_defaults_are_those_recorded() -> None:
    job = admitted(created(case("09-task-name-missing"))[0])
    assert job["spec"]["tasks"][0] | {"template": 0} == {
        "name": "default0",
        "replicas": 1,
        "template": 0,
        "minAvailable": 1,
        "maxRetry": 3,
    }
    assert {k: v for k, v in job["spec"].items() if k != "tasks"} == {
        "maxRetry": 3,
        "minAvailable": 1,
        "queue": "default",
        "schedulerName": "volcano",
    }


def test_queue_sums_and_deletes_are_refused_with_volcanos_figures() -> None:
    dept = open_queue("dept", parent="root", capability={"nvidia.com/gpu": "16"}, deserved={"nvidia.com/gpu": "16"})
    c1 = open_queue("c1", parent="dept", deserved={"nvidia.com/gpu": "12"})
    known = {"dept": dept, "c1": c1}
    c2 = open_queue("c2", parent="dept", deserved={"nvidia.com/gpu": "12"})
    assert queues.refuse_create(c2, known) == (
        "parent queue dept validation failed: sum of children's deserved (cpu 0.00, memory 0.00, nvidia.com/gpu "
        "24000.00) exceeds parent's deserved limit (cpu 0.00, memory 0.00, nvidia.com/gpu 16000.00)"
    )
    c3 = open_queue("c3", parent="dept", capability={"nvidia.com/gpu": "24"})
    assert queues.refuse_create(c3, known) == (
        "queue c3 capability[nvidia.com/gpu]=24000.00 exceeds its ancestor's capability=16000.00"
    )
    assert queues.refuse_delete("dept", known) == "queue dept can not be deleted because it has 1 child queues: c1"
    assert queues.refuse_delete("default", known) == "`default` queue can not be deleted"
    assert queues.refuse_delete("c1", known) == ""


def test_the_implied_plugins_are_added() -> None:
    assert plugins.implied({"pytorch": None}) == {"pytorch": [], "svc": []}
    assert plugins.implied({"mpi": ["--master=m"]}) == {"mpi": ["--master=m"], "svc": [], "ssh": []}
