"""What a deployment's pod does first: bring the model's files from the portal."""

import hashlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.workloads.ranks import ROOT

CONTENT = {"step-7/manifest.json": b'{"step": 7}', "step-7/shard.npy": bytes(range(256)) * 4096, "empty": b""}


class Portal(ThreadingHTTPServer):
    """`/artifacts/files` of a portal that can be told to be bad."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.content = dict(CONTENT)
        self.named: list[dict[str, object]] | None = None
        self.breaks_off_after: list[int] = []
        self.statuses: list[int] = []
        self.sent_on_to = ""
        self.asked: list[tuple[str, str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def index(self) -> list[dict[str, object]]:
        return [
            {"path": path, "sha256": hashlib.sha256(CONTENT[path]).hexdigest(), "size": len(CONTENT[path])}
            for path in self.content
        ]


class Answers(BaseHTTPRequestHandler):
    server: Portal

    def do_GET(self) -> None:
        portal = self.server
        portal.asked.append((self.path, self.headers.get("Range", ""), self.headers.get("Authorization", "")))
        if portal.statuses:
            return self._answer(portal.statuses.pop(0), b"not now")
        if portal.sent_on_to and not self.path.endswith("/files"):
            self.send_response(302)
            self.send_header("Location", portal.sent_on_to + self.path)
            return self.end_headers()
        if self.path == "/artifacts/files":
            return self._answer(200, json.dumps({"files": portal.named or portal.index()}).encode())
        digest = self.path.removeprefix("/artifacts/files/")
        path = next(path for path, data in CONTENT.items() if hashlib.sha256(data).hexdigest() == digest)
        start = int(re.sub(r"\D", "", self.headers.get("Range", "0")))
        return self._answer(206 if start else 200, portal.content[path][start:])

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if len(data) > 1000 and self.server.breaks_off_after:
            data = data[: self.server.breaks_off_after.pop(0)]
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running() -> Iterator[Portal]:
    portal = Portal()
    threading.Thread(target=portal.serve_forever, args=(0.05,), daemon=True).start()
    yield portal
    portal.shutdown()
    portal.server_close()


@pytest.fixture
def portal():
    with running() as found:
        yield found


@pytest.fixture
def fetch(portal, tmp_path):
    ticket = tmp_path / "ticket"
    ticket.mkdir()
    (ticket / "url").write_text(portal.url + "\n")
    (ticket / "token").write_text("mt_right\n")

    def _fetch(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "deploy.workloads.charlm.fetch", "--ticket", str(ticket)]
        command += ["--into", str(tmp_path / "model"), "--patience", "5", *options]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)

    return _fetch


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_file_is_there_as_it_was_registered_and_is_not_fetched_twice(portal, fetch, tmp_path):
    done = fetch()
    assert (done.returncode, files(tmp_path / "model")) == (0, CONTENT), done.stdout
    total = sum(map(len, CONTENT.values()))
    assert f"fetched 0 of {total} bytes" in done.stdout
    assert f"fetched {total} of {total} bytes" in done.stdout
    portal.asked.clear()
    (tmp_path / "model/step-7/manifest.json").write_bytes(b"damaged")
    assert fetch().returncode == 0
    assert files(tmp_path / "model") == CONTENT
    # The damaged one is fetched anew; of the rest nothing but the list.
    again = {path for path, *_ in portal.asked}
    assert again == {"/artifacts/files", f"/artifacts/files/{portal.index()[0]['sha256']}"}


def test_what_is_broken_off_goes_on_where_it_was(portal, fetch, tmp_path):
    portal.statuses = [503, 429]
    portal.breaks_off_after = [1000, 5000]
    done = fetch()
    assert (done.returncode, files(tmp_path / "model")) == (0, CONTENT), done.stdout
    assert [ranges for _, ranges, _ in portal.asked if ranges] == ["bytes=1000-", "bytes=6000-"]


def test_what_is_not_what_was_registered_is_not_kept(portal, fetch, tmp_path):
    portal.content["step-7/shard.npy"] = bytes(len(CONTENT["step-7/shard.npy"]))
    failed = fetch()
    assert failed.returncode == 1
    assert "Failed: step-7/shard.npy is twice not what was registered." in failed.stdout
    assert files(tmp_path / "model").keys() == {"step-7/manifest.json"}


def test_a_refusal_is_believed_at_once_and_an_outage_is_not_waited_for_for_ever(portal, fetch):
    portal.statuses = [401]
    refused = fetch()
    assert (refused.returncode, len(portal.asked)) == (1, 1)
    assert "refuses with 401: not now" in refused.stdout
    portal.statuses = [503] * 100
    assert "was away for too long: the portal answers 503: not now" in fetch("--patience", "0.5").stdout


@pytest.mark.parametrize("path", ["../beside", "/etc/passwd", "a/../../beside", ""])
def test_nothing_is_written_beside_the_folder(portal, fetch, tmp_path, path):
    portal.named = [{**portal.index()[0], "path": path}]
    assert "outside of the folder" in fetch().stdout
    assert not list(tmp_path.rglob("beside*"))


def test_the_token_does_not_go_to_where_the_portal_sends_on_to(portal, fetch, tmp_path):
    with running() as store:
        portal.sent_on_to = store.url
        assert fetch().returncode == 0
        assert {token for *_, token in portal.asked} == {"Bearer mt_right"}
        assert {token for *_, token in store.asked} == {""}
    assert files(tmp_path / "model") == CONTENT
