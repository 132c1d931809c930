"""Entering a cluster, and a new credential for one.

The token goes to the secrets server between two transactions: the first notes the intent, the second asks a worker to
check it. The web process puts it where only a worker reads, and where it replaces nothing.
"""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from apps.accounts.types import Actor
from apps.adapters.broker import wake
from apps.adapters.errors import OutsideError, Unavailable
from apps.adapters.letterbox import Letterbox
from apps.audit import services as audit
from apps.clusters.domain.token import is_token
from apps.clusters.models import Cluster, ClusterEntry
from apps.clusters.services.actions import CHECK_ASKED, CREDENTIAL_ENTERED, ENTERED
from apps.clusters.services.registration import ALL, TEND, Registration, require_operator
from apps.streams.services import hint

CHECK = "clusters.check_entry"
BROKEN_OFF = timedelta(minutes=2)
"""Longer than all calls of one entry together."""


class NameTaken(ValueError):
    """There is a cluster of this short name, or was one whose history is kept."""


class NotKept(Exception):
    """The token is not kept any more: it has to be entered again."""


@dataclass(frozen=True)
class Access:
    """How to reach a cluster. `once` is the form's own id: a second press of its button is no second entry."""

    server: str
    ca_pem: str
    token: str = field(repr=False)
    once: uuid.UUID = field(default_factory=uuid.uuid4)

    def check(self) -> None:
        """Raise ValidationError unless the token can be one."""
        if not is_token(self.token.strip()):
            raise ValidationError({"token": _("A token is one word of letters, digits and dots. Copy all of it.")})


@sensitive_variables("access")
def enter(actor: Actor, *, slug: str, name: str, access: Access) -> Cluster:
    """Add a cluster; it is ready once a worker has checked it. Raises ValidationError by field, NameTaken, Denied,
    Unavailable or Refused (nothing was kept)."""
    entry, is_first = _begin(actor, slug=slug, name=name, access=access)
    if is_first:
        _store(entry, access)
    return entry.cluster


@sensitive_variables("access")
def renew(actor: Actor, *, cluster: Cluster, access: Access) -> ClusterEntry:
    """Enter a credential (and perhaps another address) that takes the place of the one in use once it was checked.
    Raises as `enter`."""
    entry, is_first = _begin_again(actor, cluster=cluster, access=access)
    if is_first:
        _store(entry, access)
    return entry


@audit.use_case(CHECK_ASKED)
def check_again(actor: Actor, *, cluster: Cluster) -> None:
    """Look again: at what was entered last if it failed and is still kept, else at the credential in use. Raises
    NotKept."""
    require_operator(actor)
    entry = cluster.entries.first()
    if entry is not None and entry.may_check_again:
        _wake_check(ClusterEntry.objects.filter(pk=entry.pk, state=ClusterEntry.State.FAILED).get())
    elif cluster.is_ready:
        Cluster.objects.for_system().filter(pk=cluster.pk).update(due_at=Now())
        wake(TEND, cluster.pk)
    else:
        raise NotKept
    audit.record(CHECK_ASKED, actor, f"cluster:{cluster.pk}", name=cluster.name)


@audit.use_case(ENTERED)
def _begin(actor: Actor, *, slug: str, name: str, access: Access) -> tuple[ClusterEntry, bool]:
    """The entry of a new cluster, and whether this is the form's first press. Raises NameTaken."""
    require_operator(actor)
    registration = Registration(slug, name, access.server, access.ca_pem)
    registration.check()
    if not name.isprintable():
        raise ValidationError({"name": _("Remove line breaks and other characters that cannot be shown.")})
    access.check()
    known = ClusterEntry.objects.select_related("cluster").filter(once=access.once).first()
    if known is not None:
        return known, False
    try:
        with transaction.atomic():
            cluster = Cluster.objects.create(
                slug=slug,
                name=name,
                server=registration.address,
                ca_pem=access.ca_pem,
                credential_path=registration.credential_path,
                state=Cluster.State.NEW,
            )
    except IntegrityError:
        raise NameTaken from None
    audit.record(ENTERED, actor, f"cluster:{cluster.pk}", name=name, server=cluster.server)
    hint(cluster.topic)
    hint(ALL)
    return _entry(actor, cluster, registration.address, access), True


@audit.use_case(CREDENTIAL_ENTERED)
def _begin_again(actor: Actor, *, cluster: Cluster, access: Access) -> tuple[ClusterEntry, bool]:
    require_operator(actor)
    registration = Registration(cluster.slug, cluster.name, access.server, access.ca_pem)
    registration.check()
    access.check()
    known = ClusterEntry.objects.filter(once=access.once, cluster=cluster).first()
    if known is not None:
        return known, False
    Cluster.objects.for_system().standing().select_for_update().get(pk=cluster.pk)
    # What was entered before and is not in use gives way; a worker destroys it.
    before = cluster.entries.exclude(state__in=(ClusterEntry.State.PASSED, ClusterEntry.State.DROPPED))
    before.update(state=ClusterEntry.State.DROPPED, due_at=Now())
    audit.record(CREDENTIAL_ENTERED, actor, f"cluster:{cluster.pk}", name=cluster.name, server=registration.address)
    hint(cluster.topic)
    return _entry(actor, cluster, registration.address, access), True


def _entry(actor: Actor, cluster: Cluster, server: str, access: Access) -> ClusterEntry:
    return ClusterEntry.objects.create(
        cluster=cluster,
        once=access.once,
        server=server,
        ca_pem=access.ca_pem,
        entered_by_id=actor.user_pk or None,
        due_at=timezone.now() + BROKEN_OFF,
    )


@sensitive_variables("access")
def _store(entry: ClusterEntry, access: Access) -> None:
    try:
        letterbox().put(entry.path, {"token": access.token.strip()})
    except OutsideError:
        _give_up(entry)
        raise
    with transaction.atomic():
        _wake_check(entry)


def _wake_check(entry: ClusterEntry) -> None:
    standing = ClusterEntry.objects.filter(pk=entry.pk).exclude(state=ClusterEntry.State.DROPPED)
    if standing.update(state=ClusterEntry.State.CHECKING, checks=[], checked_at=None, due_at=Now()):
        hint(entry.cluster.topic)
        wake(CHECK, entry.pk)


@transaction.atomic
def _give_up(entry: ClusterEntry) -> None:
    """The token may or may not have arrived: a worker destroys what came, and with it a cluster that never was."""
    mine = ClusterEntry.objects.filter(pk=entry.pk, state=ClusterEntry.State.STORING)
    if mine.update(state=ClusterEntry.State.DROPPED, due_at=Now()):
        new = Cluster.objects.for_system().filter(pk=entry.cluster_id, state=Cluster.State.NEW)
        if not ClusterEntry.objects.filter(cluster_id=entry.cluster_id).exclude(pk=entry.pk).exists():
            # Its short name is free again at once, however long the secrets server is away.
            new.update(slug=f"never-{entry.once.hex[:12]}", state=Cluster.State.LEAVING, due_at=Now())
            wake(TEND, entry.cluster_id)
        wake(CHECK, entry.pk)


def due_entries() -> list[int]:
    """Entries to check or to clear away now."""
    rows = ClusterEntry.objects.filter(due_at__lte=Now()).order_by("due_at")
    return list(rows.values_list("pk", flat=True)[:100])


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
