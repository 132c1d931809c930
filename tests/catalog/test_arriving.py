"""The doors for pods: what they bring is what they said, goes nowhere else, and lies in storage once."""

from __future__ import annotations

import errno
import json
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.catalog import services
from apps.catalog.domain.moving import Moving
from apps.catalog.domain.naming import PlannedFile
from apps.catalog.models import Blob, ModelVersion, StoredFile, Transfer
from apps.catalog.reconcile.blob import remove_blob
from apps.catalog.services.arriving import _reserve
from tests.catalog import made
from tests.factories import World

FILES = {"manifest.json": b"{}", "weights/part-0.npy": b"\x93NUMPY and more"}


class Pod:
    """What a transfer's pod does, over HTTP."""

    def __init__(self, version: ModelVersion) -> None:
        self.transfer, self.token = made.carrying(version)
        self.base = f"/artifacts/uploads/{self.transfer.pk}"

    def ask(self, method: str, path: str = "", body: bytes = b"", token: str | None = None) -> Any:
        bearer = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return Client(headers=bearer).generic(method, self.base + path, body, "application/octet-stream")

    def plan(self, files: dict[str, bytes]) -> Any:
        return self.ask("PUT", body=json.dumps(made.plan(files)).encode())

    def put(self, path: str, data: bytes) -> Any:
        return self.ask("PUT", f"/{path}", data)

    def bring(self, files: dict[str, bytes]) -> list[str]:
        """Everything; which files were asked for."""
        needed = self.plan(files).json()["needed"]
        for path in needed:
            assert self.put(path, files[path]).status_code == 204
        assert self.ask("POST", body=b'{"outcome": "done"}').status_code == 204
        return list(needed)

    @property
    def phase(self) -> str:
        return Transfer.objects.get(pk=self.transfer.pk).phase


@pytest.fixture
def pod(world: World) -> Pod:
    return Pod(made.version(world.scientist, world.place))


def stored(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_checkpoint_comes_file_by_file_and_lies_under_its_digests(pod: Pod, storage_folder: Path) -> None:
    assert pod.bring(FILES) == list(FILES)
    assert pod.phase == Moving.READING
    assert stored(storage_folder) == sorted(sha256(data).hexdigest() for data in FILES.values())
    version = ModelVersion.objects.get(pk=pod.transfer.version_id)
    assert (version.lineage["checkpoint"]["step"], version.bytes) == (40, sum(map(len, FILES.values())))
    assert pod.put("manifest.json", b"{}").status_code == 401, "its token ended with its work"


def test_a_pod_whose_worker_died_before_it_said_so_brings_its_files(pod: Pod) -> None:
    Transfer.objects.filter(pk=pod.transfer.pk).update(phase=Moving.ASKED, started_at=None)
    pod.bring({"a.npy": b"abc"})
    assert pod.phase == Moving.READING


def test_bytes_with_another_digest_or_length_are_refused_and_leave_nothing(pod: Pod, storage_folder: Path) -> None:
    pod.plan(FILES)
    for wrong in (b"[]", b"{", b"{}}"):
        answer = pod.put("manifest.json", wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, "mismatch")
    assert stored(storage_folder) == []
    assert not StoredFile.objects.exists()
    done = pod.ask("POST", body=b'{"outcome": "done"}')
    assert (done.status_code, done.json()["missing"]) == (409, list(FILES))


def test_a_wrong_or_expired_token_is_nobody(pod: Pod, world: World) -> None:
    other = Pod(made.version(world.scientist, world.place, name="another"))
    for token in ("", "mt_x", "mp_" + "a" * 40, other.token):
        assert pod.ask("PUT", body=b"{}", token=token).status_code == 401
    Transfer.objects.filter(pk=pod.transfer.pk).update(token_until=timezone.now() - timedelta(seconds=1))
    answer = pod.plan(FILES)
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="artifacts"')


@pytest.mark.parametrize(
    "path", ["../a", "a/../../b", "/etc/passwd", "a//b", "./a", "a/.", "a\\b", "a\nb", "", "x" * 256, None, 7]
)
def test_a_path_that_leads_elsewhere_is_refused(pod: Pod, path: Any) -> None:
    entry = {"path": path, "size": 1, "sha256": "0" * 64}
    answer = pod.ask("PUT", body=json.dumps({"files": [entry]}).encode())
    assert answer.status_code == 422
    assert answer.json()["code"].startswith("path-")


@pytest.mark.parametrize("entry", [{"size": -1}, {"size": True}, {"size": 1.5}, {"sha256": "Z" * 64}, {"sha256": None}])
def test_a_plan_with_odd_figures_is_refused(pod: Pod, entry: dict[str, Any]) -> None:
    body = {"files": [{"path": "a", "size": 1, "sha256": "0" * 64} | entry]}
    assert pod.ask("PUT", body=json.dumps(body).encode()).status_code == 422


def test_only_files_of_the_plan_are_taken(pod: Pod) -> None:
    pod.plan(FILES)
    assert pod.put("another.bin", b"x").status_code == 404


def test_a_version_has_a_limit(pod: Pod, settings: Any) -> None:
    settings.UPLOAD_LIMIT = 10
    assert pod.plan({"a": b"x" * 11}).json()["code"] == "too-large"


def test_uploaded_twice_is_stored_once_and_asked_for_once(pod: Pod, world: World, storage_folder: Path) -> None:
    pod.plan(FILES)
    for _again in range(2):
        assert pod.put("manifest.json", b"{}").status_code == 204
    pod.bring(FILES)
    assert Pod(made.version(world.scientist, world.place, name="twin")).bring(FILES) == []
    assert len(stored(storage_folder)) == Blob.objects.count() == len(FILES)


def test_nobody_gets_bytes_of_another_tenant_by_knowing_their_digest(pod: Pod, world: World) -> None:
    pod.bring(FILES)
    thief = Pod(made.version(world.stranger(), world.other_place))
    assert thief.plan(FILES).json()["needed"] == list(FILES)
    assert not StoredFile.objects.filter(version_id=thief.transfer.version_id).exists()


def test_what_came_before_a_failure_is_not_asked_for_again(pod: Pod, world: World) -> None:
    pod.plan(FILES)
    pod.put("manifest.json", b"{}")
    pod.ask("POST", body=b'{"outcome": "failed", "code": "storage-full", "text": "no room"}')
    version = ModelVersion.objects.get(pk=pod.transfer.version_id)
    assert (pod.phase, version.files) == (Moving.FAILED, "failed")
    again = services.bring_again(world.scientist.actor(), version=version)
    assert services.bring_again(world.scientist.actor(), version=version) == again, "pressed twice"
    made_again = Pod.__new__(Pod)
    made_again.transfer, made_again.token = _carrying(again)
    made_again.base = f"/artifacts/uploads/{again.pk}"
    assert made_again.plan(FILES).json()["needed"] == ["weights/part-0.npy"]


def _carrying(transfer: Transfer) -> tuple[Transfer, str]:
    assert transfer.version is not None
    Transfer.objects.filter(version=transfer.version).exclude(pk=transfer.pk).delete()
    return made.carrying(transfer.version)


def test_a_full_storage_says_so_and_keeps_nothing(pod: Pod, storage_folder: Path, monkeypatch: Any) -> None:
    pod.plan(FILES)

    def no_room(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", no_room)
    answer = pod.put("manifest.json", b"{}")
    assert (answer.status_code, answer.json()["code"]) == (507, "storage-full")
    assert stored(storage_folder) == []


def test_a_storage_that_is_away_asks_to_come_back(pod: Pod, storage_folder: Path) -> None:
    pod.plan(FILES)
    storage_folder.parent.mkdir(exist_ok=True)
    storage_folder.write_text("not a folder")
    answer = pod.put("manifest.json", b"{}")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage-away")
    assert answer["Retry-After"]


def test_a_stopped_transfer_takes_nothing_more(pod: Pod) -> None:
    pod.plan(FILES)
    Transfer.objects.filter(pk=pod.transfer.pk).update(phase=Moving.STOPPED)
    assert pod.put("manifest.json", b"{}").status_code == 409


def test_a_pod_fetches_the_files_of_its_own_version_only(pod: Pod, world: World) -> None:
    pod.bring(FILES)
    version = ModelVersion.objects.get(pk=pod.transfer.version_id)
    with pytest.raises(services.NotReady):
        services.open_transfer(version.pk, subject="deployment:1")
    ModelVersion.objects.filter(pk=version.pk).update(files="ready")
    fetching = Client(headers={"Authorization": f"Bearer {services.open_transfer(version.pk, subject='deployment:1')}"})
    index = fetching.get("/artifacts/files").json()["files"]
    assert [file["path"] for file in index] == list(FILES)
    whole = fetching.get(f"/artifacts/files/{index[1]['sha256']}")
    assert (b"".join(whole.streaming_content), whole["Content-Length"]) == (b"\x93NUMPY and more", "15")
    rest = fetching.get(f"/artifacts/files/{index[1]['sha256']}", headers={"Range": "bytes=6-"})
    assert (rest.status_code, b"".join(rest.streaming_content)) == (206, b" and more")
    assert fetching.get(f"/artifacts/files/{index[1]['sha256']}", headers={"Range": "bytes=99-"}).status_code == 416
    assert fetching.get(f"/artifacts/files/{'0' * 64}").status_code == 404
    services.close_transfers("deployment:1")
    assert fetching.get("/artifacts/files").status_code == 401


def test_bytes_that_nobody_has_are_removed_and_those_in_use_stay(pod: Pod, storage_folder: Path) -> None:
    pod.bring(FILES)
    pod_files = [sha256(data).hexdigest() for data in FILES.values()]
    for digest in pod_files:
        Blob.objects.filter(pk=digest).update(due_at=timezone.now())
        remove_blob(digest)
    assert stored(storage_folder) == sorted(pod_files)
    StoredFile.objects.all().delete()
    _reserve(PlannedFile("x", 2, pod_files[0]))  # somebody is just sending the same bytes
    Blob.objects.filter(pk=pod_files[1]).update(due_at=timezone.now())
    remove_blob(pod_files[1])
    assert stored(storage_folder) == [pod_files[0]]
    assert set(Blob.objects.values_list("pk", flat=True)) == {pod_files[0]}
