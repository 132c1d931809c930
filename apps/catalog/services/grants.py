"""Tokens that let pods bring or fetch the files of a version. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from apps.catalog.models import Grant, ModelVersion, Transfer

FETCH = timedelta(hours=1)
MARK = "mt_"


class NotReady(Exception):
    """The version's files are not all in storage."""


def new_token() -> tuple[str, str]:
    """A token in clear and its hash. 256 random bits need no slow hash."""
    clear = MARK + secrets.token_urlsafe(32)
    return clear, hashed(clear)


def hashed(clear: str) -> str:
    return hashlib.sha256(clear.encode("utf-8", "replace")).hexdigest()


@transaction.atomic
def open_transfer(version_id: str, *, subject: str, lifetime: timedelta = FETCH) -> str:
    """A new token (in clear, for the only time) with which a workload's pods may fetch this version's files.

    `subject` names the workload, such as "deployment:7". With `Authorization: Bearer <token>` a pod asks
    `<settings.PODS_URL>/artifacts/files` for what there is (`{"files": [{"path", "sha256", "size"}], "facts"}`) and
    `<settings.PODS_URL>/artifacts/files/<sha256>` for the bytes (`Range: bytes=N-` goes on where it was broken off).
    Earlier tokens of the subject stay good until their own end, so that a Secret can be replaced under running pods:
    ask again before `lifetime` is over. Raises NotReady, ModelVersion.DoesNotExist.
    """
    version = ModelVersion.objects.for_system().get(pk=version_id)
    if not version.is_ready:
        raise NotReady(version_id)
    clear, digest = new_token()
    Grant.objects.filter(until__lt=timezone.now()).delete()
    Grant.objects.create(version=version, subject=subject, token_digest=digest, until=timezone.now() + lifetime)
    return clear


def close_transfers(subject: str) -> None:
    """End every token of a workload, now."""
    Grant.objects.filter(subject=subject).delete()


def granted(clear: str) -> Grant | None:
    """What a token lets its pod fetch; None when it is unknown or over."""
    found = Grant.objects.filter(token_digest=hashed(clear), until__gt=timezone.now())
    return found.select_related("version").first()


def transfer_of(transfer_id: str, clear: str) -> Transfer | None:
    """The transfer whose pod holds this token; None when it is another's, unknown or over."""
    found = Transfer.objects.filter(pk=transfer_id, token_digest=hashed(clear), token_until__gt=timezone.now())
    return found.exclude(version=None).select_related("version__model").first()
