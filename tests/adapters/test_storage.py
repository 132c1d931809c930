"""One contract for both kinds of storage: a folder, and a bucket of a server that speaks S3 (moto's, by the real SDK)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from apps.adapters import storage as adapter
from apps.adapters.errors import NotFound, Unavailable
from apps.adapters.storage import PART, Folder, Mismatch, Storage, storage

BUCKET = "models"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, settings: Any) -> Storage:
    settings.S3_ENDPOINT, settings.S3_REGION, settings.S3_BUCKET = s3, "us-east-1", BUCKET
    settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY, settings.S3_PREFIX = "key", "secret", "portal/"
    made = storage()
    assert isinstance(made, adapter.Bucket)
    made._client.create_bucket(Bucket=BUCKET)
    return made


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return Folder(tmp_path) if request.param == "folder" else request.getfixturevalue("bucket")


def put(store: Storage, data: bytes, *, digest: str = "", size: int | None = None) -> list[int]:
    """Store bytes in pieces; how many had come each time it was told."""
    told: list[int] = []
    pieces = [data[start : start + 1_000_000] for start in range(0, len(data), 1_000_000)]
    store.put(digest or sha256(data).hexdigest(), len(data) if size is None else size, pieces, told.append)
    return told


def got(store: Storage, data: bytes, *where: Any) -> bytes:
    return b"".join(store.read(sha256(data).hexdigest(), *where))


@pytest.mark.parametrize("size", [0, 1, 5_000, PART, PART + 1, 2 * PART + 7])
def test_what_was_stored_comes_back(store: Storage, size: int) -> None:
    data = bytes(index % 251 for index in range(4_096)) * (size // 4_096 + 1)
    data = data[:size]
    told = put(store, data)
    assert (told[-1:] or [0]) == [size]
    assert got(store, data) == data
    put(store, data)
    assert got(store, data, size // 2) == data[size // 2 :] or size == 0
    assert got(store, data, size // 3, size // 3) == data[size // 3 : size // 3 + size // 3]


@pytest.mark.parametrize("size", [100, PART + 100])
def test_what_is_not_what_was_announced_is_never_there(store: Storage, size: int) -> None:
    data = b"x" * size
    other = sha256(b"another").hexdigest()
    for change in ({"digest": other}, {"size": size - 1}, {"size": size + 1}):
        with pytest.raises(Mismatch):
            put(store, data, **change)  # type: ignore[arg-type]
    for digest in (other, sha256(data).hexdigest()):
        with pytest.raises(NotFound):
            list(store.read(digest))


def test_an_upload_that_breaks_off_leaves_nothing(store: Storage) -> None:
    data = b"y" * (PART + 10)

    def breaking() -> Iterator[bytes]:
        yield data[:PART]
        raise ConnectionResetError

    with pytest.raises((ConnectionResetError, Unavailable)):
        store.put(sha256(data).hexdigest(), len(data), breaking(), lambda _count: None)
    with pytest.raises(NotFound):
        list(store.read(sha256(data).hexdigest()))
    if isinstance(store, Folder):
        assert [path for path in store.root.rglob("*") if path.is_file()] == []
    else:
        assert "Uploads" not in store._client.list_multipart_uploads(Bucket=BUCKET)  # type: ignore[attr-defined]


def test_what_was_removed_is_gone_and_may_be_removed_again(store: Storage) -> None:
    put(store, b"z")
    for _again in range(2):
        store.remove(sha256(b"z").hexdigest())
    with pytest.raises(NotFound):
        got(store, b"z")


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_only_a_digest_becomes_a_path(store: Storage, digest: str) -> None:
    with pytest.raises(ValueError, match="digest"):
        list(store.read(digest))


def test_a_bucket_that_is_away_is_unavailable(settings: Any) -> None:
    settings.S3_ENDPOINT, settings.S3_REGION, settings.S3_BUCKET = "http://127.0.0.1:1", "us-east-1", "away"
    settings.S3_ACCESS_KEY, settings.S3_SECRET_KEY = "key", "secret"
    with pytest.raises(Unavailable) as away:
        list(storage().read("0" * 64))
    assert away.value.system == "storage"
