"""What each kind of refusal means. The answers were recorded on a real API server 1.36.1."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from apps.adapters.errors import NotFound, Refused, Unavailable
from apps.adapters.kubernetes import answers, objects

RECORDED = json.loads((Path(__file__).parents[1] / "cases/kubernetes/answers.json").read_text())


def failure_of(case: dict[str, Any]) -> Any:
    return answers.failure(answers.read(case["status"], case["headers"], case["body"].encode(), case["path"]))


@pytest.mark.parametrize("case", RECORDED, ids=[case["id"] for case in RECORDED])
def test_a_recorded_answer_means(case: dict[str, Any]) -> None:
    error = failure_of(case)
    assert type(error).__name__ == case["means"], case["title"]
    assert isinstance(error, Unavailable | Refused)
    assert error.code == case["status"]
    assert 0 < len(error.text) <= 1000


def test_a_secret_is_never_quoted() -> None:
    """05-secret-patch-error: the server's own message holds the whole stored Secret."""
    case = next(case for case in RECORDED if case["id"] == "05-secret-patch-error")
    assert "aHVudGVyMg" in case["body"]
    assert "aHVudGVyMg" not in failure_of(case).text


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("0", 0), ("99999", 300), ("soon", None), ("", None), ("-5", None)],
)
def test_retry_after_is_honoured_within_reason(header: str, seconds: float | None) -> None:
    answer = answers.read(429, {"Retry-After": header}, b"Too many requests, please try again later.", "/api/v1/pods")
    error = answers.failure(answer)
    assert isinstance(error, Unavailable)
    assert error.retry_after == (1 if seconds is None else seconds)


def test_retry_after_may_be_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    wait = answers.read(503, {"Retry-After": date}, b"", "/api/v1/pods").retry_after
    assert wait is not None
    assert 55 < wait <= 60


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b'{"kind":"Pod"}', b"\xff\x00\x1b[31m", b'{"kind":"Status","details":7}']
)
@pytest.mark.parametrize("code", [301, 400, 403, 404, 409, 410, 418, 422, 429, 500, 502, 503])
def test_no_body_breaks_the_reader(code: int, body: bytes) -> None:
    error = answers.failure(answers.read(code, {}, body, "/api/v1/namespaces/a/pods/b/log"))
    assert isinstance(error, Unavailable | Refused)
    assert "\x1b" not in error.text
    assert "\x00" not in error.text


def test_a_kubelet_that_does_not_know_the_pod_yet_does_not_say_that_it_is_gone() -> None:
    path, message = "/api/v1/namespaces/a/pods/p/log", "the server could not find the requested resource ( pods/log p)"
    status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": message}

    def failure(kind: str) -> Exception:
        body = json.dumps(status | {"details": {"name": "p", "kind": kind}}).encode()
        return answers.failure(answers.read(404, {}, body, path))

    assert isinstance(failure("pods/log"), answers.NodeGone)
    assert isinstance(failure("pods"), NotFound)


# --- paths and parameters -------------------------------------------------------------------------------------------


def test_paths() -> None:
    assert objects.path(objects.POD, "team-a", "p", "log") == "/api/v1/namespaces/team-a/pods/p/log"
    assert objects.path(objects.VOLCANO_JOB, "a") == "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs"
    assert objects.path(objects.QUEUE, name="q") == "/apis/scheduling.volcano.sh/v1beta1/queues/q"
    assert objects.path(objects.NAMESPACE, name="a") == "/api/v1/namespaces/a"
    assert objects.everywhere(objects.POD_GROUP) == "/apis/scheduling.volcano.sh/v1beta1/podgroups"


@pytest.mark.parametrize(
    "arguments",
    [
        (objects.POD,),  # 01-double-slash: an empty namespace lists every namespace
        (objects.POD, "", "p"),
        (objects.QUEUE, "a", "q"),
        (objects.POD, "a/b", "p"),
        (objects.POD, "a", "../../secrets"),
        (objects.POD, "a", "p?x=1"),
        (objects.POD, "a", "p\n"),
        (objects.POD, "a", "P"),
        (objects.POD, "a", "作业"),
        (objects.POD, "a", "p", "exec"),
        (objects.POD, "a", "", "log"),
    ],
)
def test_an_odd_path_is_refused(arguments: Any) -> None:
    with pytest.raises(ValueError):
        objects.path(*arguments)


@pytest.mark.parametrize(
    "raw",
    ["/api/v1/namespaces//pods", "/api/v1/pods?x=1", "/api/v1/../x", "/metrics", "//host/api/v1", "/api/v1/pods\n"],
)
def test_only_written_paths_reach_the_wire(raw: str) -> None:
    with pytest.raises(ValueError):
        objects.checked(raw)


def test_an_unknown_parameter_is_refused() -> None:
    """03-unknown-parameter: the server would ignore it, and a misspelt selector selects everything."""
    with pytest.raises(KeyError):
        objects.query(label_selektor="a=b")
    assert objects.query(label_selector="a=b", force=False, limit=500, dry_run=True, container="") == [
        ("labelSelector", "a=b"), ("limit", "500"), ("dryRun", "All"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "is_object"),
    [
        ("/api/v1/namespaces/a", True),
        ("/api/v1/namespaces", False),
        ("/api/v1/namespaces/a/pods", False),
        ("/api/v1/namespaces/a/pods/p", True),
        ("/api/v1/namespaces/a/pods/p/log", False),
        ("/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs/j", True),
        ("/apis/scheduling.volcano.sh/v1beta1/queues", False),
        ("/apis/scheduling.volcano.sh/v1beta1/queues/q", True),
    ],
)
def test_a_delete_must_name_an_object(path: str, is_object: bool) -> None:
    assert objects.names_object(path) is is_object
