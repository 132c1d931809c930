"""Bad input and broken surroundings: each gets a clear answer, one job or none, and nothing is lost."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg
import pytest
from playwright.sync_api import Browser, expect

from deploy.local.stack import TREE
from tests.prove import stack as kit
from tests.prove.browser import await_phase, desk
from tests.prove.stack import Stack, charlm, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]

DOWN_SECONDS = float(os.environ.get("MAAS_PROVE_DOWN_SECONDS", "20"))
"""How long the cluster stays away; 60 by hand."""


def command(name: str, words: str, **changes: Any) -> dict[str, Any]:
    """A document of one rank that runs this and is not tried again."""
    own = {"template": "command", "name": name, "image": "maas/shell:1", "command": words, "ranks": 1, "attempts": 1}
    return own | changes


# --- what a document may not say ------------------------------------------------------------------------------------


def jobs_called(stack: Stack, name: str) -> int:
    return int(stack.rows("SELECT count(*) FROM jobs_job WHERE name = %s", name)[0][0])


@pytest.mark.parametrize("name", ["Capitals", "dots.and.more", "under_score", "分词器 对照实验", "6" * 63, "-._ "])
def test_a_name_is_for_people_and_the_cluster_never_sees_it(stack: Stack, name: str) -> None:
    rest = stack.rest()
    job_id = rest.submit(charlm(name, steps=100_000))
    assert rest.act(job_id, "stop").status_code == 202
    assert rest.job(job_id)["name"] == name.strip()
    names = {item["metadata"]["name"] for item in rest.get(f"jobs/{job_id}/manifests")["manifests"]}
    assert names == {f"j-{job_id.lower()}"}
    rest.await_phase(job_id, "stopped")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x" * 64, "64 characters; at most 63"),
        ("../../etc/passwd", "may not contain"),
        ("trailing newline\n", "line breaks"),
        ("nul\0", "cannot be shown"),
        ("‮reversed", "cannot be shown"),
        ("", "Fill this in"),
        (" \t", "Fill this in"),
        (7, "Fill this in"),
    ],
)
def test_a_name_that_will_not_do_says_why_and_makes_no_job(stack: Stack, name: Any, why: str) -> None:
    answer = stack.rest().post(charlm(name))
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    (text,) = answer.json()["errors"]["name"]
    assert why in text
    assert "\0" in str(name) or jobs_called(stack, str(name)) == 0


@pytest.mark.parametrize("field", ["gpus_per_rank", "ranks"])
@pytest.mark.parametrize(
    "number", ["0", "-1", "1.5", '"1.5"', "1e400", '"1e400"', "1e3", "true", "null", "[]", "9" * 30]
)
def test_gpus_are_whole_and_in_range_or_there_is_no_job(stack: Stack, field: str, number: str) -> None:
    before = stack.rows("SELECT count(*) FROM jobs_job")
    # By hand: JSON libraries do not write all of these.
    content = json.dumps({"tenant": "nlp", "document": charlm("odd size", **{field: 0})})
    content = content.replace(f'"{field}": 0', f'"{field}": {number}')
    answer = stack.rest().http.post("jobs", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    (text,) = answer.json()["errors"][field]
    assert re.search("is not a whole number|is out of range: choose from 1 to", text)
    assert stack.rows("SELECT count(*) FROM jobs_job") == before


def test_more_than_the_queue_ever_gives_is_refused_at_once(stack: Stack) -> None:
    answer = stack.rest().post(charlm("too large", ranks=4, gpus_per_rank=8))
    assert answer.status_code == 400
    (text,) = answer.json()["errors"]["ranks"]
    assert text.startswith("32 GPUs are more than the tenant's limit of 16. Take fewer, or ask for more")


def test_what_is_no_document_is_refused(stack: Stack) -> None:
    http = stack.rest().http
    headers = {"Content-Type": "application/json"}
    for content in ("", "{", "[]", '{"tenant": "nlp", "document": []}', '{"tenant": "../x", "document": {}}'):
        answer = http.post("jobs", content=content, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), content
    for document in ({"template": "nothing"}, charlm("x", unknown=1), charlm("x", template=["charlm"])):
        assert stack.rest().post(document).status_code == 400, document
    assert http.post("jobs", content="x=1").status_code == 415


def test_the_reason_comes_in_the_readers_language(stack: Stack) -> None:
    if not (TREE / "locale/zh_Hans/LC_MESSAGES/django.mo").exists():
        pytest.skip("the Chinese catalogue is not compiled: make setup")
    rest = stack.rest()
    body = {"tenant": "nlp", "document": charlm("odd size", gpus_per_rank="1.5")}
    answer = rest.http.post("jobs", json=body, headers={"Accept-Language": "zh-CN"})
    (text,) = answer.json()["errors"]["gpus_per_rank"]
    assert re.search(r"1\.5.*[\u4e00-\u9fff]", text), text


def test_the_wizard_keeps_what_was_typed_wrong_and_says_what_is_right(chrome: Browser, stack: Stack) -> None:
    with desk(chrome, stack, kit.SCIENTIST) as one:
        page = one.page
        page.goto("/jobs/new")
        page.get_by_role("button", name="Begin with Character language model").click()
        page.get_by_label("Name", exact=True).fill("x" * 64)
        page.get_by_role("button", name="Size and queue").click()
        expect(page.locator(".error-summary")).to_contain_text("64 characters; at most 63")
        expect(page.get_by_label("Name", exact=True)).to_have_value("x" * 64)
        page.get_by_label("Name", exact=True).fill("odd size")
        page.get_by_role("button", name="Size and queue").click()
        for wrong in ("0", "-1", "1.5", "1e400"):
            page.get_by_label("GPUs per rank").fill(wrong)
            page.get_by_role("button", name="Review job").click()
            expect(page.locator(".error-summary")).to_contain_text(f"GPUs per rank: “{wrong}” is")
            expect(page.get_by_label("GPUs per rank")).to_have_value(wrong)
        page.goto(page.url.replace("/size", "/review"))
        expect(page.locator(".error-summary")).to_contain_text("GPUs per rank")
        expect(page.get_by_role("button", name="Submit to")).to_have_count(0)


# --- what only the cluster can tell ---------------------------------------------------------------------------------


def test_an_image_that_does_not_exist_says_what_to_do_and_can_be_stopped(chrome: Browser, stack: Stack) -> None:
    rest = stack.rest()
    document = {
        "template": "torchrun",
        "name": "no such image",
        "image": "nope/none:1",
        "script": "train.py",
        "ranks": 2,
    }
    job_id = rest.submit(document)
    sentence = "cannot be pulled. Check its name, then stop this job and clone it with the right one."
    until(lambda: sentence in rest.job(job_id)["reason"], 60, what="the reason names the image")
    assert rest.job(job_id)["phase"] == "starting"
    with desk(chrome, stack, kit.SCIENTIST) as one:
        page = one.page
        page.goto("/")
        expect(page.locator("#live")).to_contain_text("no such image cannot pull its image")
        page.goto(f"/jobs/{job_id}/")
        expect(page.locator("#state .notice")).to_contain_text(sentence)
        page.locator("#state details.raw summary").click()
        expect(page.locator("#state details.raw")).to_contain_text("nope/none:1")
        expect(page.locator("#tabs")).to_contain_text(re.compile("ErrImagePull|ImagePullBackOff"))
        page.get_by_role("link", name="Stop job").click()
        page.locator("#dialog").get_by_role("button", name="Stop job").click()
        await_phase(page, "stopped")
    until(lambda: stack.cluster.pods(job_id) == [], 30, what="no pod is left")


def test_a_command_that_exits_3_has_failed_with_3(chrome: Browser, stack: Stack) -> None:
    rest = stack.rest()
    job_id = rest.submit(command("exits 3", "sh -c 'echo the end; exit 3'"))
    ended = rest.await_phase(job_id, "failed")
    assert (ended["reason"], ended["attempt"]) == ("Rank 0 ended with exit code 3. Its last log lines say why.", 1)
    assert [rank["exit_code"] for rank in rest.get(f"jobs/{job_id}/ranks")] == [3]
    until(lambda: [line[3] for line in rest.lines(job_id)] == ["the end"], 20, what="its log is kept")
    with desk(chrome, stack, kit.SCIENTIST) as one:
        one.page.goto(f"/jobs/{job_id}/")
        expect(one.page.locator("#state .notice")).to_contain_text("Rank 0 ended with exit code 3.")
        expect(one.page.locator("#log")).to_contain_text("the end")
        expect(one.page.locator("#tabs")).to_contain_text("exit code 3")


def test_each_attempt_is_told_until_there_are_no_more(stack: Stack) -> None:
    rest = stack.rest()
    job_id = rest.submit(command("exits 3 twice", "sh -c 'exit 3'", attempts=2))
    ended = rest.await_phase(job_id, "failed")
    assert "exit code 3" in ended["reason"]
    assert [(rank["attempt"], rank["exit_code"]) for rank in rest.get(f"jobs/{job_id}/ranks")] == [(1, 3), (2, 3)]


def test_a_program_that_the_image_lacks_fails_the_job(stack: Stack) -> None:
    rest = stack.rest()
    job_id = rest.submit(command("no such program", "trian --steps 3"))
    ended = rest.await_phase(job_id, "failed")
    assert re.search(r"Rank 0 ended with exit code 12[78]\.", ended["reason"])


def test_nothing_of_a_command_reaches_a_shell(stack: Stack) -> None:
    rest = stack.rest()
    job_id = rest.submit(command("quoted", "echo '$(id)' ; '&&' $$HOME"))
    rest.await_phase(job_id, "succeeded")
    until(lambda: [line[3] for line in rest.lines(job_id)] == ["$(id) ; && $HOME"], 20, what="its log is kept")


# --- asked twice ----------------------------------------------------------------------------------------------------


def test_the_same_request_at_the_same_time_is_one_job(stack: Stack) -> None:
    rest, document, key = stack.rest(), charlm("pressed often", steps=1), f"often-{time.time_ns()}"
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: rest.post(document, key), range(6)))
    assert {answer.status_code for answer in answers} == {202}
    (job_id,) = {answer.json()["id"] for answer in answers}
    assert stack.audited(job_id, "job.submitted") == 1
    rest.await_phase(job_id, "succeeded")


def test_a_draft_that_is_sent_twice_at_once_is_one_job(stack: Stack) -> None:
    with stack.browser(kit.SCIENTIST) as client:
        begin = {"csrfmiddlewaretoken": kit.csrf(client.get("/jobs/new").text), "tenant": "nlp", "template": "charlm"}
        headers = {"Referer": stack.url}
        draft = client.post("/jobs/new", data=begin, headers=headers).headers["location"].removesuffix("/data")
        page = client.get(f"{draft}/data").text
        typed = {
            "csrfmiddlewaretoken": kit.csrf(page),
            "version": "1",
            "go": "next",
            "name": "sent twice",
            "steps": "1",
        }
        assert client.post(f"{draft}/data", data=typed, headers=headers).status_code == 302
        send = {"csrfmiddlewaretoken": kit.csrf(client.get(f"{draft}/review").text)}
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: client.post(f"{draft}/submit", data=send, headers=headers), range(4)))
    (address,) = {answer.headers["location"] for answer in answers}
    job_id = address.strip("/").split("/")[1]
    assert stack.audited(job_id, "job.submitted") == 1
    stack.rest().await_phase(job_id, "succeeded")


# --- broken surroundings --------------------------------------------------------------------------------------------


@contextmanager
def stopped_at_the_uid(stack: Stack) -> Iterator[psycopg.Connection]:
    """Whoever is about to keep the uid of an applied object waits until the block ends."""
    with psycopg.connect(stack.demo.env()["MIGRATE_DATABASE_URL"], autocommit=True) as owner:
        owner.execute("CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS "
                      "'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END'")  # fmt: skip
        owner.execute(
            "CREATE TRIGGER pause BEFORE UPDATE OF object_uid ON jobs_job FOR EACH ROW EXECUTE FUNCTION pause()"
        )
        owner.execute("SELECT pg_advisory_lock(4711)")
        try:
            yield owner
        finally:
            owner.execute("SELECT pg_advisory_unlock(4711)")
            owner.execute("DROP FUNCTION pause CASCADE")


WAITING = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def test_a_worker_killed_between_apply_and_commit_leaves_one_job(stack: Stack) -> None:
    rest, version = stack.rest(), stack.cluster.version()
    with stopped_at_the_uid(stack) as owner:
        job_id = rest.submit(charlm("killed in between", steps=20))
        until(lambda: owner.execute(WAITING).fetchall(), 30, what="a worker has applied the job and keeps its uid")
        assert len(stack.cluster.uids_since(version, job_id)) == 1, "it is in the cluster"
        assert stack.demo.kill("worker")
        # Its database session would go on with the write by itself; a machine that dies takes it along.
        owner.execute(f"SELECT pg_terminate_backend(pid) FROM ({WAITING}) AS waiting")
    assert stack.rows("SELECT object_uid, phase FROM jobs_job WHERE id = %s", job_id) == [("", "submitted")]
    rest.await_phase(job_id, "succeeded", seconds=150)
    assert stack.cluster.uids_since(version, job_id) == {
        stack.rows("SELECT object_uid FROM jobs_job WHERE id = %s", job_id)[0][0]
    }
    assert rest.job(job_id)["attempt"] == 1


def test_a_cluster_that_is_away_loses_nothing_and_gets_what_was_asked_meanwhile(chrome: Browser, stack: Stack) -> None:
    rest, version = stack.rest(), stack.cluster.version()
    before = rest.submit(charlm("ran before", steps=int(DOWN_SECONDS * 20 + 200)))
    rest.await_phase(before, "running")
    until(lambda: rest.points(before), 30, what="its log is followed")
    with desk(chrome, stack, kit.SCIENTIST) as one, stack.held_down("apiserver") as start_again:
        gone = time.monotonic()
        meanwhile = [rest.submit(charlm(f"asked meanwhile {number}", steps=20)) for number in range(3)]
        one.page.goto(f"/jobs/{meanwhile[0]}/")
        kept = "The cluster does not answer. The job is kept and goes in as soon as it is back."
        expect(one.page.locator("#state")).to_contain_text(kept, timeout=20_000)
        one.page.goto(f"/jobs/{before}/")
        expect(one.page.locator("#state .notice.tone-red")).to_contain_text("does not answer", timeout=20_000)
        expect(one.page.locator("#log")).to_contain_text("Loss:")
        while time.monotonic() - gone < DOWN_SECONDS:
            assert rest.http.get("jobs").status_code == 200
            assert rest.http.get(f"jobs/{before}/log").status_code == 200
            one.page.wait_for_timeout(500)
        start_again()
        until(stack.cluster.answers, 30, what="the API server is back")
        applied = "SELECT count(*) FROM jobs_job WHERE object_uid <> '' AND id = ANY(%s)"
        until(lambda: stack.rows(applied, meanwhile) == [(3,)], 10, what="everything that was asked is in the cluster")
        expect(one.page.locator("#state .notice.tone-red")).to_have_count(0, timeout=30_000)
    for job_id in (before, *meanwhile):
        assert rest.await_phase(job_id, "succeeded")["attempt"] == 1
        assert len(stack.cluster.uids_since(version, job_id)) == 1


@contextmanager
def sealed(stack: Stack) -> Iterator[None]:
    home = stack.demo.home
    address = f"http://127.0.0.1:{home.ports()['openbao']}/v1/sys/seal"
    answer = httpx.put(address, headers={"X-Vault-Token": home.secret("openbao-root-token")}, trust_env=False)
    assert answer.status_code == 204, answer.text
    try:
        yield
    finally:
        stack.demo.kill("openbao")  # it unseals itself as it starts


def test_a_sealed_secrets_server_is_said_and_waited_for(chrome: Browser, stack: Stack) -> None:
    rest = stack.rest()
    sentence = "The secrets server does not answer, so the cluster cannot be asked."
    with desk(chrome, stack, kit.SCIENTIST) as one:
        with sealed(stack):
            stack.demo.kill("worker")  # one that has just started knows no credentials yet
            job_id = rest.submit(charlm("behind a seal", steps=20))
            until(lambda: sentence in rest.job(job_id)["reason"], 60, what="its reason is the seal")
            one.page.goto(f"/jobs/{job_id}/")
            expect(one.page.locator("#state .notice")).to_contain_text(sentence)
        await_phase(one.page, "succeeded")
    assert stack.audited(job_id, "job.submitted") == 1
