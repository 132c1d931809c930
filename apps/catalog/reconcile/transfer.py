"""Wanted against seen: one look at the pod that brings a checkpoint, one step, one move."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.utils import timezone

from apps.adapters.errors import NotFound, Refused, Unavailable
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import AccountMissing, RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.adapters.kubernetes.owned import ForeignObject, find
from apps.adapters.retrying import pause
from apps.adapters.storage import storage
from apps.catalog import moves
from apps.catalog.domain import formats, manifests
from apps.catalog.domain.manifests import TRANSFER_LABEL, Carry, object_name
from apps.catalog.domain.moving import ENDED, Moving
from apps.catalog.domain.seen import read_pod
from apps.catalog.models import ModelVersion, StoredFile, Transfer
from apps.catalog.moves import Why
from apps.catalog.services.arriving import TOKEN
from apps.catalog.services.grants import new_token
from apps.clusters.services.connect import connect, connect_for
from apps.tenants import services as tenants

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(seconds=20)
SOON = timedelta(seconds=1)
LONGEST = timedelta(seconds=5)
"""While a cluster is away, tries come at most this far apart."""
PENDING = timedelta(minutes=15)
"""A pod that has not begun by then is given up; a person may try again."""


def reconcile_transfer(transfer: Transfer) -> timedelta | None:
    """Take one repeatable step; any worker may take it twice. Returns when to look again, None for never."""
    try:
        again = _step(transfer)
        if transfer.failures:
            Transfer.objects.filter(pk=transfer.pk).update(failures=0)
        return again
    except moves.Stale:
        return timedelta(0)
    except Unavailable as error:
        return _wait(transfer, error, f"waits-{error.system}")
    except RightMissing as error:
        if isinstance(error, AccountMissing) and transfer.state in ENDED and not transfer.placement.is_standing:
            return None  # the tenant is leaving, and what was left here goes with its namespace
        return _wait(transfer, error, _lacking(transfer, error))
    except ForeignObject:
        return _fail(transfer, Why("name-taken"))
    except Refused as error:
        log.warning("transfer_refused", transfer=transfer.pk, error=error.text)
        return _fail(transfer, Why("cluster-refused", {"text": error.text[:300]}))


def _step(transfer: Transfer) -> timedelta | None:
    if transfer.version is None and transfer.state not in ENDED:
        moves.move(transfer, Moving.STOPPED)
    if transfer.state is Moving.READING:
        _read(transfer)
        return SOON
    # What is there is seen with the portal's own account; what is done is done with that of the version's tenant.
    eye, hand = connect(transfer.placement.cluster), connect_for(transfer.placement.cluster, _account(transfer))
    if transfer.state in ENDED:
        _clear(hand, transfer)
        return None
    pod = _pod(eye, transfer)
    if transfer.state is Moving.ASKED and pod is None:
        return _send(hand, transfer)
    if transfer.state is Moving.ASKED:
        # The answer to an earlier apply was lost: what is there under our label is ours, with the token last noted.
        moves.move(transfer, Moving.CARRYING)
        return LOOK_AGAIN
    return _look(transfer, pod)


def _account(transfer: Transfer) -> tuple[str, str]:
    tenant = transfer.version.tenant if transfer.version else transfer.placement.tenant
    return tenants.account_of(tenant.slug)


def _lacking(transfer: Transfer, error: RightMissing) -> str:
    """Which right is missing: the portal's own, or the tenant's account's, which its place can be given anew."""
    if error.account != _account(transfer):
        return "waits-right"
    if not transfer.failures:
        tenants.doubt(transfer.placement)
    return "waits-account"


def _look(transfer: Transfer, pod: objects.Object | None) -> timedelta | None:
    """Judge a pod that is to bring files. It tells the portal itself how it goes; this catches what it cannot tell."""
    if pod is None:
        return _fail(transfer, Why("pod-gone"))
    seen = read_pod(pod)
    if seen.has_ended:
        return _fail(transfer, Why("pod-ended", {"code": seen.exit_code}))
    if seen.phase == "Pending":
        if transfer.started_at and timezone.now() - transfer.started_at > PENDING:
            return _fail(transfer, Why("pod-pending", {"text": seen.waiting}))
        moves.move(transfer, Moving.CARRYING, Why("pod-waits", {"text": seen.waiting}) if seen.waiting else None)
    elif transfer.reason:
        moves.move(transfer, Moving.CARRYING)
    return LOOK_AGAIN


def _send(api: KubeApi, transfer: Transfer) -> timedelta | None:
    """Note the hash of a new token, then send the Secret with it, then the pod that reads it."""
    carry = _carry(transfer)
    try:
        api.get(objects.path(objects.VOLUME_CLAIM, carry.namespace, carry.claim))
    except NotFound:
        return _fail(transfer, Why("no-volume", {"claim": carry.claim}))
    clear, digest = new_token()
    Transfer.objects.filter(pk=transfer.pk).update(token_digest=digest, token_until=timezone.now() + TOKEN)
    for manifest in (manifests.secret(carry, clear), manifests.pod(carry)):
        api.apply(objects.object_path(manifest), manifest)
    moves.move(transfer, Moving.CARRYING)
    return LOOK_AGAIN


def _pod(api: KubeApi, transfer: Transfer) -> objects.Object | None:
    path = objects.path(objects.POD, transfer.placement.namespace, object_name(transfer.pk))
    return find(api, path, (TRANSFER_LABEL, transfer.pk))


def _clear(api: KubeApi, transfer: Transfer) -> None:
    """Take the pod and its token away."""
    namespace, name = transfer.placement.namespace, object_name(transfer.pk)
    try:
        pod = _pod(api, transfer)
    except ForeignObject:
        pod = None
    if pod is not None:
        api.delete(objects.path(objects.POD, namespace, name), uid=pod["metadata"]["uid"])
    api.delete(objects.path(objects.SECRET, namespace, name))


def _read(transfer: Transfer) -> None:
    """Read what the headers of the files say, and say that all is there."""
    version = transfer.version
    assert version is not None
    files = list(StoredFile.objects.filter(version=version))
    facts = formats.facts_of({file.path: _window(file) for file in files})
    ModelVersion.objects.for_system().filter(pk=version.pk).update(facts=facts, bytes=facts["bytes"])
    moves.move(transfer, Moving.DONE)


def _window(file: StoredFile) -> formats.Window:
    store = storage()
    return formats.Window(file.size, lambda start, length: b"".join(store.read(file.digest, start, length)))


def _carry(transfer: Transfer) -> Carry:
    place = transfer.placement
    return Carry(
        transfer.pk, place.tenant.slug, place.namespace, transfer.source["claim"], settings.CARRY_IMAGE,
        settings.PODS_URL, transfer.source.get("until_step"),
    )  # fmt: skip


def _fail(transfer: Transfer, why: Why) -> timedelta | None:
    """End it with a reason; its objects are taken away by the next step."""
    if transfer.state in ENDED:
        log.warning("transfer_not_cleared", transfer=transfer.pk, reason=why.code)
        return None
    moves.move(transfer, Moving.FAILED, why)
    return timedelta(0)


def _wait(transfer: Transfer, error: Unavailable | RightMissing, code: str) -> timedelta:
    """Keep the transfer, say what it waits for, and try again: soon at first, at most LONGEST apart."""
    failures = transfer.failures + 1
    Transfer.objects.filter(pk=transfer.pk).update(failures=failures)
    log.warning("transfer_waits", transfer=transfer.pk, error=error.text, failures=failures)
    if transfer.state not in ENDED:
        moves.move(transfer, transfer.state, Why(code))
    return pause(error, failures, LONGEST)
