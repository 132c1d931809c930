"""Calls against a server that behaves badly in all known ways."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from apps.adapters.errors import Conflict, InsideTransaction, NotFound, Refused, Unavailable
from apps.adapters.kubernetes import AnotherObject, Endpoint, KubeApi, NotInstalled, calls, objects
from tests.adapters.scripted import Exchange, scripted

POD = objects.path(objects.POD, "a", "p")
BODY: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}


class Token:
    """Gives `old` until asked for a newer one."""

    def __init__(self, new: str = "new") -> None:
        self.new, self.value = new, "old"

    def __call__(self, *, fresh: bool = False) -> str:
        self.value = self.new if fresh else self.value
        return self.value


def api(url: str, token: Callable[..., str] | None = None) -> KubeApi:
    return KubeApi(Endpoint(url, None, token or Token()))


def status(code: int, message: str = "no", reason: str = "", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details}


def test_a_rotated_token_is_read_again_once() -> None:
    """kubernetes-client/python#2582: the header must be there, and must be the new one."""

    def script(call: Exchange) -> None:
        good = call.headers["Authorization"] == "Bearer new"
        call.answer(200, BODY) if good else call.answer(401, status(401, "Unauthorized", "Unauthorized"))

    with scripted(script) as server:
        assert api(server.url).get(POD) == BODY
        assert [call.headers["Authorization"] for call in server.requests] == ["Bearer old", "Bearer new"]
        with pytest.raises(Unavailable) as caught:
            api(server.url, Token(new="worse")).get(POD)
        assert caught.value.code == 401
        assert len(server.requests) == 4


def test_no_call_inside_a_transaction(db: None) -> None:
    with scripted(lambda call: call.answer(200, BODY)) as server, transaction.atomic():
        with pytest.raises(InsideTransaction):
            api(server.url).get(POD)
        assert server.requests == []


@pytest.mark.parametrize("what", ["hang", "trickle", "cut", "half", "garbage", "list"])
def test_a_server_that_gives_no_answer_is_unavailable(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "READ_SECONDS", 0.3)
    monkeypatch.setattr(calls, "BODY_SECONDS", 0.5)

    def script(call: Exchange) -> None:
        if what == "hang":
            time.sleep(2)
        elif what == "trickle":
            call.begin()
            for _ in range(40):
                call.chunk(b" ")
                time.sleep(0.05)
        elif what == "cut":
            call.cut()
        elif what == "half":
            call.begin()
            call.chunk(b'{"kind":')
            call.cut()
        else:
            call.answer(200, b"<html>" if what == "garbage" else [])

    with scripted(script) as server:
        began = time.monotonic()
        with pytest.raises(Unavailable):
            api(server.url).get(POD)
        assert time.monotonic() - began < 1.5
        assert len(server.requests) == 1


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unavailable):
        api(f"http://127.0.0.1:{port}").version()


def test_a_redirect_is_not_followed() -> None:
    """The token must not travel to wherever an answer points."""
    with scripted(lambda call: call.answer(302, b"", Location="http://127.0.0.1:1/")) as server, pytest.raises(Refused):
        api(server.url).get(POD)


def test_an_apply_says_who_and_what() -> None:
    def script(call: Exchange) -> None:
        call.answer(200, BODY, Warning='299 - "unknown field \\"spec.x\\""')

    with scripted(script) as server:
        applied = api(server.url).apply(POD, BODY, dry_run=True)
        assert applied.warnings == ['unknown field "spec.x"']
        call = server.requests[0]
        assert call.path == f"{POD}?fieldManager=maas-portal&fieldValidation=Strict&dryRun=All"
        assert call.headers["Content-Type"] == "application/apply-patch+yaml"
        assert json.loads(call.body) == BODY
    with pytest.raises(ValueError):
        api("http://127.0.0.1:1").apply(objects.path(objects.POD, "a", "other"), BODY)
    with pytest.raises(ValueError):
        api("http://127.0.0.1:1").apply("/api/v1/namespaces//pods/p", BODY)


def test_a_secret_comes_back_without_its_data() -> None:
    """08-patch-reads: to write is to read."""
    path = objects.path(objects.SECRET, "a", "s")
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "a"},
        "data": {"k": "aHVudGVy"},
    }
    with scripted(lambda call: call.answer(200, body)) as server:
        assert "data" not in api(server.url).apply(path, body).object
        with pytest.raises(ValueError):
            api(server.url).merge_patch(path, {"data": {}})
    with scripted(lambda call: call.answer(422, status(422, "is invalid: aHVudGVy", "Invalid", name="s"))) as server:
        with pytest.raises(Refused) as caught:
            api(server.url).apply(path, body)
        assert "aHVudGVy" not in str(caught.value)


def test_a_list_is_read_in_pages_and_anew_after_it_expired() -> None:
    """03-continue-expired-made: the token that comes with a 410 goes on inconsistently."""
    expired = []

    def script(call: Exchange) -> None:
        if "continue" not in call.path:
            items = [{"metadata": {"name": "a"}}]
            call.answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": "t"}, "items": items})
        elif not expired:
            expired.append(True)
            call.answer(410, status(410, "expired", "Expired") | {"metadata": {"continue": "worse"}})
        else:
            call.answer(
                200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "b"}}]}
            )

    with scripted(script) as server:
        found = api(server.url).list(objects.path(objects.POD, "a"), label_selector="x=y")
        assert [item["metadata"]["name"] for item in found] == ["a", "b"]
        assert found[0]["kind"] == "Pod"
        assert all("labelSelector=x%3Dy" in call.path for call in server.requests)
        assert not any("worse" in call.path for call in server.requests)


def test_a_delete_is_done_when_the_object_is_gone() -> None:
    answers = iter(
        [
            (200, BODY),
            (404, status(404, 'pods "p" not found', "NotFound", name="p", kind="pods")),
            (409, status(409, "the UID in the precondition (1) does not match the UID in record (2).", "Conflict")),
            (404, b"404 page not found\n"),
        ]
    )
    with scripted(lambda call: call.answer(*next(answers))) as server:
        one = api(server.url)
        assert one.delete(POD, uid="1", grace=0) is True
        sent = json.loads(server.requests[0].body)
        assert (sent["propagationPolicy"], sent["preconditions"], sent["gracePeriodSeconds"]) == (
            "Background",
            {"uid": "1"},
            0,
        )
        assert one.delete(POD) is False
        assert one.delete(POD, uid="1") is False
        with pytest.raises(NotInstalled):
            one.delete(POD)
        with pytest.raises(ValueError):
            one.delete(objects.path(objects.POD, "a"))


def test_conflicts_are_told_apart() -> None:
    texts = {
        "the object has been modified": Conflict,
        "uid mismatch: the provided object specified uid 1, and no existing object was found": AnotherObject,
    }
    for text, kind in texts.items():
        answer = status(409, text, "Conflict", name="p")
        with scripted(lambda call, a=answer: call.answer(409, a)) as server, pytest.raises(kind) as caught:
            api(server.url).apply(POD, BODY)
        assert type(caught.value) is kind


def test_a_log_that_is_not_there_yet_is_not_empty() -> None:
    def script(call: Exchange) -> None:
        call.send_response(204)
        call.end_headers()

    with scripted(script) as server:
        assert api(server.url).pod_log(POD, "main") is None
    with scripted(lambda call: call.answer(200, b"")) as server:
        assert api(server.url).pod_log(POD, "main", tail_lines=5, timestamps=True) == b""
        assert server.requests[0].path == f"{POD}/log?container=main&tailLines=5&timestamps=true"


def test_a_connection_is_used_again() -> None:
    peers = []

    def script(call: Exchange) -> None:
        peers.append(call.client_address)
        call.answer(404, status(404, "", "NotFound", name="p")) if len(peers) == 2 else call.answer(200, BODY)

    with scripted(script) as server:
        one = api(server.url)
        one.get(POD)
        with pytest.raises(NotFound):
            one.get(POD)
        one.get(POD)
    assert len(set(peers)) == 1
