"""Object storage by digest: a folder of this machine, or an S3 bucket. What lies under a digest has that digest.

Nothing can be read under a digest before all of it has come and its SHA-256 was right: on disk it is written under
another name and renamed, in S3 a multipart upload is completed only then.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from django.conf import settings

from apps.adapters.errors import NotFound, Refused, Unavailable, outside_transaction

CHUNK = 1 << 20
PART = 16 << 20
"""Bytes of one part of a multipart upload: with at most 10,000 parts, a file may have 160 GB."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Mismatch(Refused):
    """What came is not what was announced: another digest, or more or fewer bytes."""


class Full(Unavailable):
    """There is no room left; trying again helps only after somebody has made some."""


class Storage(Protocol):
    """Every method raises Unavailable; `put` Mismatch and Full too, `read` NotFound."""

    def put(self, digest: str, size: int, chunks: Iterable[bytes], told: Callable[[int], None]) -> None:
        """Store bytes under their digest (again: nothing changes). `told` hears how many have come so far."""

    def read(self, digest: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `start`, `length` of them or all that follow."""

    def remove(self, digest: str) -> None:
        """Take them away; what was not there is no error."""


def storage() -> Storage:
    """The storage this portal is configured with."""
    if settings.S3_BUCKET:
        return _bucket(settings.S3_ENDPOINT, settings.S3_REGION, settings.S3_BUCKET, settings.S3_PREFIX)
    return Folder(Path(settings.STORAGE_DIR))


def checked(digest: str) -> str:
    """A SHA-256 digest in hex, or ValueError: nothing else may become part of a path."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError("Not a SHA-256 digest.")
    return digest


class _Counted:
    """Passes chunks on and knows, after the last, whether they were what was announced."""

    def __init__(self, digest: str, size: int, chunks: Iterable[bytes], told: Callable[[int], None]) -> None:
        self._digest, self._size, self._chunks, self._told = checked(digest), size, chunks, told
        self._sum, self._count = hashlib.sha256(), 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._count += len(chunk)
            if self._count > self._size:
                raise Mismatch(f"More came than the {self._size} bytes that were announced.", code=422)
            self._sum.update(chunk)
            yield chunk
            self._told(self._count)
        if self._count != self._size:
            raise Mismatch(f"{self._count} of {self._size} bytes came.", code=422)
        if self._sum.hexdigest() != self._digest:
            raise Mismatch("The bytes that came have another SHA-256 digest.", code=422)


@dataclass(frozen=True)
class Folder:
    """A folder that every process of the portal can write to."""

    root: Path

    def put(self, digest: str, size: int, chunks: Iterable[bytes], told: Callable[[int], None]) -> None:
        outside_transaction()
        counted, final = _Counted(digest, size, chunks, told), self._path(digest)
        unfinished = self.root / "incoming" / uuid4().hex
        try:
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("xb") as file:
                for chunk in counted:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            final.parent.mkdir(parents=True, exist_ok=True)
            unfinished.replace(final)
        except OSError as error:
            raise _of_disk(error) from error
        finally:
            with suppress(OSError):
                unfinished.unlink()

    def read(self, digest: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        outside_transaction()
        try:
            file = self._path(digest).open("rb")
        except FileNotFoundError as error:
            raise NotFound("Nothing is stored under this digest.", code=404) from error
        except OSError as error:
            raise _of_disk(error) from error

        def chunks() -> Iterator[bytes]:
            left = length
            with file:
                file.seek(start)
                while chunk := file.read(CHUNK if left is None else min(CHUNK, left)):
                    left = None if left is None else left - len(chunk)
                    yield chunk

        return chunks()

    def remove(self, digest: str) -> None:
        outside_transaction()
        try:
            self._path(digest).unlink(missing_ok=True)
        except OSError as error:
            raise _of_disk(error) from error

    def _path(self, digest: str) -> Path:
        return self.root / "sha256" / checked(digest)[:2] / digest


def _of_disk(error: OSError) -> Unavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Full("The portal's storage is full.", system="storage")
    return Unavailable(f"The portal's storage cannot be used: {error.strerror}", system="storage")


class Bucket:
    """A bucket of S3 or of what speaks like it."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix
        self._errors = import_module("botocore.exceptions")

    def put(self, digest: str, size: int, chunks: Iterable[bytes], told: Callable[[int], None]) -> None:
        outside_transaction()
        parts = _parts(_Counted(digest, size, chunks, told))
        with self._translated():
            if size <= PART:
                self._client.put_object(**self._at(digest), Body=b"".join(parts))  # all of it is judged before
            else:
                self._put_parts(digest, parts)

    def _put_parts(self, digest: str, parts: Iterable[bytes]) -> None:
        at = self._at(digest)
        at["UploadId"] = self._client.create_multipart_upload(**at)["UploadId"]
        try:
            done = []
            for number, part in enumerate(parts, 1):
                tag = self._client.upload_part(**at, PartNumber=number, Body=part)["ETag"]
                done.append({"ETag": tag, "PartNumber": number})
            self._client.complete_multipart_upload(**at, MultipartUpload={"Parts": done})
        except BaseException:
            self._client.abort_multipart_upload(**at)
            raise

    def read(self, digest: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        outside_transaction()
        if length == 0:
            return iter(())
        end = "" if length is None else str(start + length - 1)
        with self._translated():
            extra = {} if start == 0 and length is None else {"Range": f"bytes={start}-{end}"}
            body = self._client.get_object(**self._at(digest), **extra)["Body"]
        return iter(body.iter_chunks(CHUNK))

    def remove(self, digest: str) -> None:
        outside_transaction()
        with self._translated():
            self._client.delete_object(**self._at(digest))

    def _at(self, digest: str) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Key": f"{self._prefix}sha256/{checked(digest)[:2]}/{digest}"}

    def _translated(self) -> _Translated:
        return _Translated(self._errors)


class _Translated:
    """Turns the SDK's errors into ours; none of their texts is shown, some quote addresses with signatures."""

    def __init__(self, errors: Any) -> None:
        self._errors = errors

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._errors.ClientError):
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in ("NoSuchKey", "404"):
                raise NotFound("Nothing is stored under this digest.", code=404) from error
            if code in ("QuotaExceeded", "XMinioStorageFull", "InsufficientStorage"):
                raise Full("The portal's storage is full.", system="storage") from error
            raise Unavailable(f"The object storage answered {code[:60]}.", system="storage") from error
        if isinstance(error, self._errors.BotoCoreError):
            raise Unavailable(
                f"The object storage did not answer ({type(error).__name__}).", system="storage"
            ) from error


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Chunks put together to parts of a multipart upload."""
    held: list[bytes] = []
    for chunk in chunks:
        held.append(chunk)
        if sum(map(len, held)) >= PART:
            yield b"".join(held)
            held = []
    if held:
        yield b"".join(held)


@functools.cache
def _bucket(endpoint: str, region: str, bucket: str, prefix: str) -> Bucket:
    """One client a process. Credentials are those of the settings, else what the SDK finds (a role, a profile)."""
    # The SDK is loaded when it is first needed: web processes without S3 never carry it.
    boto3, config = import_module("boto3"), import_module("botocore.config")
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=endpoint or None,
        region_name=region or None,
        aws_access_key_id=settings.S3_ACCESS_KEY or None,
        aws_secret_access_key=settings.S3_SECRET_KEY or None,
        config=config.Config(connect_timeout=3, read_timeout=60, retries={"max_attempts": 2, "mode": "standard"}),
    )
    return Bucket(client, bucket, prefix)
