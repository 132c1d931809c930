"""Requests as the asynchronous server takes them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator


async def ask(path: str) -> tuple[int, dict[bytes, bytes], bytes]:
    from maasportal.asgi import application

    scope: dict[str, Any] = {
        "type": "http", "http_version": "1.1", "method": "GET", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [(b"host", b"127.0.0.1")], "server": ("127.0.0.1", 80),
    }  # fmt: skip
    asking = ApplicationCommunicator(application, scope)
    await asking.send_input({"type": "http.request", "body": b"", "more_body": False})
    start = await asking.receive_output(10)
    body = await asking.receive_output(10)
    await asking.wait(10)
    return start["status"], dict(start["headers"]), body["body"]


@pytest.mark.django_db(transaction=True)
async def test_a_request_is_handed_to_its_thread_and_not_to_and_fro(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once to begin, once to be answered, once to end. Each time more costs as much as a query."""
    handed: list[str] = []
    submit = ThreadPoolExecutor.submit

    def counted(self: ThreadPoolExecutor, *args: Any, **kwargs: Any) -> Any:
        handed.append(repr(args[0]))
        return submit(self, *args, **kwargs)

    await ask("/healthz")
    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    status, headers, body = await ask("/healthz")
    assert (status, body) == (200, b"ok\n")
    assert b"Content-Security-Policy" in headers, "all middleware was passed"
    assert len(handed) <= 3, handed


@pytest.mark.django_db(transaction=True)
async def test_what_is_refused_is_told_as_everywhere() -> None:
    status, headers, body = await ask("/api/v1/jobs")
    assert (status, headers[b"Content-Type"]) == (401, b"application/problem+json")
    assert json.loads(body)["status"] == 401
    assert (await ask("/api/v1/none"))[0] == 404
