"""Entering, replacing and removing secrets.

A value goes to the store between two transactions: the first notes the intent, the second says which version counts.
What breaks off in between is never delivered, and a worker destroys it.
"""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.adapters.errors import OutsideError, Unavailable
from apps.adapters.letterbox import Letterbox
from apps.audit import services as audit
from apps.secrets import domain
from apps.secrets.domain import Values
from apps.secrets.models import Secret
from apps.secrets.services.actions import ENTERED, REMOVED, REPLACED
from apps.streams.services import hint

BROKEN_OFF = timedelta(minutes=2)
"""Longer than all calls of one entry together."""


class NameTaken(Exception):
    """The tenant has a secret of this name, or somebody is entering one just now."""


class Stale(Exception):
    """The secret was replaced or removed meanwhile; nothing was changed."""


@dataclass(frozen=True)
class Entry:
    """What a person enters. `once` is the form's own id: a second press of its button is no second entry."""

    values: Values = field(repr=False)
    kind: str = domain.Kind.GENERIC.value
    note: str = ""
    once: uuid.UUID = field(default_factory=uuid.uuid4)


@sensitive_variables("entry")
def enter(actor: Actor, *, tenant_id: int, name: str, entry: Entry) -> Secret:
    """Store a new secret. Raises Bad, NameTaken, Unavailable or Refused (nothing was kept), Denied."""
    entry = _tidied(entry)
    secret, is_first = _begin(actor, tenant_id=tenant_id, name=name, entry=entry)
    return _store(actor, secret, entry) if is_first else secret


@sensitive_variables("entry")
def replace(actor: Actor, *, secret: Secret, entry: Entry) -> Secret:
    """Store a new version, which is given to work that goes in from now on. Raises as `enter`, and Stale unless
    `secret` is as the person saw it."""
    entry = _tidied(entry)
    return _store(actor, secret, entry) if _begin_again(actor, secret=secret, entry=entry) else secret


@audit.use_case(ENTERED)
def require_entering(actor: Actor, *, tenant_id: int) -> None:
    """Raise Denied, and record it, before anything else is said of what was sent."""
    actor.require(Permission.SECRET_MANAGE, tenant_id, target=f"tenant:{tenant_id}")


@audit.use_case(REMOVED)
def remove(actor: Actor, *, secret: Secret) -> None:
    """Nothing is given this secret any more; a worker destroys it in the store. A second removal changes nothing."""
    actor.require(Permission.SECRET_MANAGE, secret.tenant_id, target=f"secret:{secret.pk}")
    rows = Secret.objects.for_system().filter(pk=secret.pk, removed_at=None)
    if rows.update(removed_at=Now(), due_at=Now()):
        audit.record(REMOVED, actor, f"secret:{secret.pk}", tenant_id=secret.tenant_id, name=secret.name)
        hint(f"tenant.{secret.tenant_id}")
        wake("secrets.destroy", secret.pk)


def _tidied(entry: Entry) -> Entry:
    return Entry(domain.tidied(entry.kind, entry.values), entry.kind, entry.note.strip(), entry.once)


@audit.use_case(ENTERED)
def _begin(actor: Actor, *, tenant_id: int, name: str, entry: Entry) -> tuple[Secret, bool]:
    """The row of a secret to be, and whether this is the form's first press. Raises NameTaken."""
    actor.require(Permission.SECRET_MANAGE, tenant_id, target=f"tenant:{tenant_id}")
    domain.check_name(name)
    domain.check(entry.kind, entry.note, entry.values)
    known = Secret.objects.for_system().filter(tenant_id=tenant_id, name=name, removed_at=None).first()
    if known is None:
        row = Secret(
            tenant_id=tenant_id,
            name=name,
            kind=entry.kind,
            note=entry.note,
            keys=sorted(entry.values),
            entry=entry.once,
            created_by_id=actor.user_pk,
            changed_by_id=actor.user_pk,
            due_at=timezone.now() + BROKEN_OFF,
        )
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:  # somebody was faster by a moment
            known = Secret.objects.for_system().filter(tenant_id=tenant_id, name=name, removed_at=None).first()
        else:
            return row, True
    if known is not None and known.entry == entry.once:
        return known, False
    raise NameTaken


@audit.use_case(REPLACED)
def _begin_again(actor: Actor, *, secret: Secret, entry: Entry) -> bool:
    """Note that a version is being written; False for a second press. Raises Stale."""
    actor.require(Permission.SECRET_MANAGE, secret.tenant_id, target=f"secret:{secret.pk}")
    domain.check(entry.kind, entry.note, entry.values)
    row = Secret.objects.for_system().select_for_update().filter(pk=secret.pk).first()
    if row is None or row.removed_at is not None:
        raise Stale
    if row.entry == entry.once:
        return False
    if row.version != secret.version:
        raise Stale
    row.entry = entry.once
    row.save(update_fields=["entry"])
    return True


@sensitive_variables("entry")
def _store(actor: Actor, secret: Secret, entry: Entry) -> Secret:
    try:
        version = letterbox().put(domain.path_of(secret.tenant_id, secret.pk), entry.values)
    except OutsideError:
        _give_up(secret)
        raise
    with transaction.atomic():
        rows = Secret.objects.for_system().filter(pk=secret.pk, removed_at=None)
        # The store numbers the versions: of two who write at once, the later one counts whoever is told first.
        changed = rows.filter(version__lt=version).update(
            version=version,
            kind=entry.kind,
            note=entry.note,
            keys=sorted(entry.values),
            changed_by_id=actor.user_pk,
            changed_at=Now(),
            due_at=None,
        )
        if not changed and not rows.exists():
            raise Stale
        audit.record(
            REPLACED if secret.version else ENTERED,
            actor,
            f"secret:{secret.pk}",
            tenant_id=secret.tenant_id,
            name=secret.name,
            version=version,
            keys=", ".join(sorted(entry.values)),
        )
        hint(f"tenant.{secret.tenant_id}")
    secret.refresh_from_db()
    return secret


@transaction.atomic
def _give_up(secret: Secret) -> None:
    """A first version that may or may not have arrived: the name is free again, and a worker destroys what came."""
    rows = Secret.objects.for_system().filter(pk=secret.pk, version=0)
    if rows.update(removed_at=Now(), due_at=Now()):
        wake("secrets.destroy", secret.pk)


@functools.cache
def letterbox() -> Letterbox:
    """The slot into the portal's own mount of the secrets server."""
    if not settings.VAULT_ADDR:
        raise Unavailable("No secrets server is configured.", system="secrets")
    return Letterbox(
        settings.VAULT_ADDR,
        settings.VAULT_ENTRY_ROLE_ID_FILE,
        settings.VAULT_ENTRY_SECRET_ID_FILE,
        settings.VAULT_MOUNT,
    )
