"""The side of the secrets server that reads: lending to work, taking back, destroying. Background work only; a
contract keeps it out of everything the web process runs."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from apps.accounts.types import Actor
from apps.adapters.errors import NotFound, OutsideError, Refused, Unavailable
from apps.adapters.vault import VaultKV
from apps.audit import services as audit
from apps.secrets import domain
from apps.secrets.domain import Values
from apps.secrets.models import Loan, Secret
from apps.secrets.services import lending
from apps.secrets.services.actions import LENT, RETURNED
from apps.secrets.services.registry import is_live

log = structlog.get_logger(__name__)

TOKEN_ROLE = "maas-job"  # noqa: S105 (the name of a role)
RETRY = timedelta(seconds=5)
LATE = timedelta(minutes=10)
"""How often a policy's no is tried again: an operator must act first."""
LEASE = timedelta(seconds=60)
"""Longer than all calls of one step; after it, a dead worker's row is due again."""
SYSTEM = Actor.system("secrets")


class Gone(Exception):
    """A secret was removed before it could be lent; `name` says which."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Lent:
    """Values by secret's name, as one piece of work is given them."""

    values: Mapping[str, Values] = field(repr=False)
    versions: Mapping[str, int]


@functools.cache
def vault() -> VaultKV:
    """The portal's own mount, with the rights of background work."""
    if not settings.VAULT_ADDR:
        raise Unavailable("No secrets server is configured.", system="secrets")
    return VaultKV(
        settings.VAULT_ADDR, settings.VAULT_ROLE_ID_FILE, settings.VAULT_SECRET_ID_FILE, settings.VAULT_MOUNT
    )


def lend(actor: Actor, subject: str, tenant_id: int, names: Iterable[str]) -> Lent:
    """Read a tenant's secrets for one piece of work, with a token that can read this tenant's alone; it lives until
    `lending.end`. Lent again, the earlier token ends. Raises Gone, Unavailable (the store, or a right it lacks)."""
    names = list(names)
    rows = {row.name: row for row in Secret.objects.for_system().live().filter(tenant_id=tenant_id, name__in=names)}
    if absent := [name for name in names if name not in rows]:
        raise Gone(absent[0])
    versions = {name: rows[name].version for name in names}
    loan = lending.begin(subject, tenant_id, versions)
    try:
        vault().put_policy(domain.policy_name(tenant_id), domain.policy_of(tenant_id, settings.VAULT_MOUNT))
        meta = {"subject": subject, "tenant": str(tenant_id)}
        token = vault().lend(TOKEN_ROLE, [domain.policy_name(tenant_id)], meta)
        expires = timezone.now() + timedelta(seconds=token.seconds)
        Loan.objects.filter(pk=loan.pk).update(accessor=token.accessor, expires_at=expires)
        values = {
            name: Values(vault().read_as(token, domain.path_of(tenant_id, rows[name].pk), versions[name]))
            for name in names
        }
    except NotFound as error:
        raise Unavailable("The secrets server does not have what was stored there.", system="secrets") from error
    except Refused as error:
        raise Unavailable(f"The secrets server refuses the portal: {error.text}", system="secrets") from error
    _record_once(actor, loan)
    return Lent(values, versions)


@transaction.atomic
def _record_once(actor: Actor, loan: Loan) -> None:
    if Loan.objects.filter(pk=loan.pk, told=False).update(told=True):
        names = ", ".join(f"{name} v{version}" for name, version in sorted(loan.versions.items()))
        audit.record(LENT, actor, loan.subject, tenant_id=loan.tenant_id, names=names)


def tend(loan_id: int) -> None:
    """Renew what is on loan, revoke what is over: one step, repeatable."""
    due = Loan.objects.filter(pk=loan_id, due_at__lte=Now())
    if not due.update(due_at=timezone.now() + LEASE):
        return
    loan = Loan.objects.get(pk=loan_id)
    try:
        if loan.ended_at is None and is_live(loan.subject):
            _renew(loan)
        else:
            _revoke(loan)
    except OutsideError as error:
        log.warning("loan_waits", loan=loan_id, error=error.text)
        Loan.objects.filter(pk=loan_id).update(due_at=timezone.now() + _pause(error))


def _renew(loan: Loan) -> None:
    fresh = {}
    if loan.accessor:
        try:
            fresh["expires_at"] = timezone.now() + timedelta(seconds=vault().renew(loan.accessor))
        except NotFound:  # it ran out while the store was away: the work has its files, and nothing is left to revoke
            fresh["expires_at"] = timezone.now()
    Loan.objects.filter(pk=loan.pk, ended_at=None).update(due_at=timezone.now() + lending.RENEW, **fresh)


def _revoke(loan: Loan) -> None:
    if loan.accessor:
        vault().revoke(loan.accessor)
    with transaction.atomic():
        mine = Loan.objects.filter(pk=loan.pk, due_at__isnull=False)
        if Loan.objects.filter(subject=loan.subject, pk__gt=loan.pk).exists():
            mine.delete()  # lent again meanwhile: the last loan's end is the one that counts
        elif mine.update(ended_at=Coalesce("ended_at", Now()), due_at=None):
            names = ", ".join(sorted(loan.versions))
            audit.record(RETURNED, SYSTEM, loan.subject, tenant_id=loan.tenant_id, names=names)


def destroy(secret_id: int) -> None:
    """Destroy what the store has of a secret that was removed, or whose entering broke off, and forget its row."""
    due = Secret.objects.for_system().filter(pk=secret_id, due_at__lte=Now())
    if not due.update(due_at=timezone.now() + LEASE):
        return
    row = Secret.objects.for_system().filter(pk=secret_id)
    try:
        vault().delete(domain.path_of(row.get().tenant_id, secret_id))
    except OutsideError as error:
        log.warning("destroying_waits", secret=secret_id, error=error.text)
        row.update(due_at=timezone.now() + _pause(error))
        return
    row.filter(due_at__isnull=False).delete()


def _pause(error: OutsideError) -> timedelta:
    return LATE if isinstance(error, Refused) else RETRY
