"""The program that brings checkpoints: what it takes for good, what it never reads, how it bears a portal that is away."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.workloads.carry.__main__ import main
from deploy.workloads.carry.find import NoCheckpoint, newest


def charlm(directory: Path, number: int, data: dict[str, bytes], **changes: Any) -> Path:
    """A checkpoint as charlm writes it."""
    folder = directory / f"step-{number:08d}"
    folder.mkdir(parents=True)
    entries = []
    for name, content in data.items():
        (folder / name).write_bytes(content)
        entries.append({"file": name, "sha256": hashlib.sha256(content).hexdigest()})
    manifest = {"format": "charlm-checkpoint/1", "step": number, "saved_at": "now", "shards": entries} | changes
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


SHARDS = {"shard-0-of-2.npy": b"first", "shard-1-of-2.npy": b"second"}


def test_the_newest_good_one_is_taken_and_torn_ones_are_passed_over(tmp_path: Path) -> None:
    charlm(tmp_path, 20, SHARDS)
    good = charlm(tmp_path, 40, SHARDS)
    (charlm(tmp_path, 60, SHARDS) / "shard-1-of-2.npy").write_bytes(b"Second")
    (charlm(tmp_path, 80, SHARDS) / "manifest.json").unlink()
    (charlm(tmp_path, 100, SHARDS) / "shard-0-of-2.npy").unlink()
    charlm(tmp_path, 120, SHARDS, format="another/1")
    charlm(tmp_path, 140, SHARDS, step=139)
    found = newest(tmp_path)
    assert (found.folder, found.step, found.saved_at) == (good, 40, "now")
    assert [(file.path, file.size) for file in found.files][1:] == [(name, len(data)) for name, data in SHARDS.items()]


def test_a_trainers_checkpoint_counts_once_its_last_file_is_there(tmp_path: Path) -> None:
    for step in (500, 1000):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        for name in ("model.safetensors", "config.json", "optimizer.pt", "rng_state_0.pth"):
            (folder / name).write_text(name)
    (tmp_path / "checkpoint-500/trainer_state.json").write_text("{}")
    found = newest(tmp_path)
    assert found.step == 500
    assert [file.path for file in found.files] == ["config.json", "model.safetensors", "trainer_state.json"]


def test_nothing_is_read_through_a_link_or_a_name_that_leads_elsewhere(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("the pod's own secret")
    digest = hashlib.sha256(token.read_bytes()).hexdigest()
    volume = tmp_path / "volume"
    linked = charlm(volume, 20, {"shard.npy": token.read_bytes()})
    (linked / "shard.npy").unlink()
    (linked / "shard.npy").symlink_to(token)
    charlm(volume, 40, {}, shards=[{"file": "../../token", "sha256": digest}])
    trainer = volume / "checkpoint-60"
    trainer.mkdir()
    (trainer / "trainer_state.json").write_text("{}")
    (trainer / "model.safetensors").symlink_to(token)
    (trainer / "more").symlink_to(tmp_path)
    (volume / "step-00000080").symlink_to(linked)
    assert [file.path for file in newest(volume).files] == ["trainer_state.json"]
    (trainer / "trainer_state.json").unlink()
    with pytest.raises(NoCheckpoint) as none:
        newest(volume)
    assert none.value.code == "checkpoint-torn"


@pytest.mark.parametrize("there", [True, False])
def test_an_empty_or_missing_volume_holds_no_checkpoint(tmp_path: Path, there: bool) -> None:
    with pytest.raises(NoCheckpoint) as none:
        newest(tmp_path if there else tmp_path / "nowhere")
    assert none.value.code == "no-checkpoint"


class Portal:
    """Answers as the portal does; `script` holds answers that come before the right ones."""

    def __init__(self) -> None:
        self.came: dict[str, bytes] = {}
        self.told: list[dict[str, Any]] = []
        self.script: list[tuple[int, dict[str, str]]] = []
        self.tokens: set[str] = set()
        self.on_plan = lambda: None
        portal = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                portal.tokens.add(self.headers["Authorization"])
                status, document = portal.script.pop(0) if portal.script else portal.answer(self, body)
                raw = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        file = request.path.partition("/artifacts/uploads/T1")[2].lstrip("/")
        if request.command == "POST":
            self.told.append(json.loads(body))
            return 200, {}
        if file:
            self.came[file] = body
            return 200, {}
        self.on_plan()
        return 200, {"needed": [entry["path"] for entry in json.loads(body)["files"]]}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def portal() -> Iterator[Portal]:
    one = Portal()
    yield one
    one.server.shutdown()
    one.server.server_close()


def carry(portal: Portal, directory: Path, *more: str) -> int:
    token = directory.parent / "token"
    token.write_text("mt_x\n")
    return main(
        [f"--portal={portal.url}", "--transfer=T1", f"--token-file={token}", f"--checkpoints={directory}", *more]
    )


def test_every_file_comes_with_the_token_and_then_the_word_that_it_is_all(portal: Portal, tmp_path: Path) -> None:
    folder = charlm(tmp_path / "volume", 40, SHARDS)
    portal.script = [(503, {}), (502, {})]  # a portal that is just starting
    assert carry(portal, tmp_path / "volume") == 0
    assert portal.came == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert (portal.told, portal.tokens) == ([{"outcome": "done"}], {"Bearer mt_x"})


def test_a_checkpoint_that_is_pruned_meanwhile_is_followed_by_the_next(portal: Portal, tmp_path: Path) -> None:
    folder = charlm(tmp_path / "volume", 40, SHARDS)

    def prune() -> None:
        portal.on_plan = lambda: None
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        charlm(tmp_path / "volume", 60, SHARDS)

    portal.on_plan = prune
    assert carry(portal, tmp_path / "volume") == 0
    assert json.loads(portal.came["manifest.json"])["step"] == 60


def test_a_refusal_is_believed_and_told(portal: Portal, tmp_path: Path) -> None:
    charlm(tmp_path / "volume", 40, SHARDS)
    portal.script = [(507, {"code": "storage-full", "text": "The portal's storage is full."})]
    assert carry(portal, tmp_path / "volume") == 1
    assert portal.told[0]["code"] == "storage-full"
    assert portal.came == {}


def test_a_portal_that_stays_away_ends_it(portal: Portal, tmp_path: Path, capsys: Any) -> None:
    charlm(tmp_path / "volume", 40, SHARDS)
    portal.server.server_close()
    portal.server.shutdown()
    assert carry(portal, tmp_path / "volume", "--patience=0") == 1
    assert "could not be told" in capsys.readouterr().out
