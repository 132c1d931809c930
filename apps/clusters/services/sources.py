"""Other systems that tell of a cluster: entered by an operator, checked by a worker, read in the background.

As with a cluster's own credential, the web process puts a token where only a worker reads, and asks nobody itself.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from apps.accounts.types import Actor
from apps.adapters.broker import wake
from apps.adapters.errors import OutsideError
from apps.adapters.loki import ORG_HEADER
from apps.adapters.source import Address, TokenSource
from apps.audit import services as audit
from apps.clusters.models import Cluster, ClusterSource
from apps.clusters.services.actions import SOURCE_ACCEPTED, SOURCE_ENTERED, SOURCE_REFUSED, SOURCE_REMOVED
from apps.clusters.services.entering import BROKEN_OFF, letterbox
from apps.clusters.services.registration import LOOPBACK, require_authority, require_operator
from apps.streams.services import hint

Kind, State = ClusterSource.Kind, ClusterSource.State
CHECK = "clusters.check_source"
KEPT = timedelta(days=1)
"""How long one that failed is kept, so that it can be checked again once what was wrong is mended."""
SYSTEM = Actor.system("clusters")
LONGEST_TOKEN, LONGEST_ORG = 8192, 150

NAMES: Mapping[str, str] = {Kind.PROMETHEUS: "Prometheus", Kind.LOKI: "Loki"}
WITH_ORG = frozenset({Kind.LOKI})
"""Kinds that may keep the data of several tenants apart."""

_ORG = re.compile(r"[A-Za-z0-9!_.*'()-]{1,150}(\|[A-Za-z0-9!_.*'()-]{1,150})*")
"""What Loki lets a tenant be called; several with bars between them are asked together."""


@dataclass(frozen=True)
class SourceAccess:
    """How to reach one. `token` is "" where none is sent, `org` where it does not keep tenants apart; `once` is the
    form's own id."""

    url: str
    ca_pem: str = ""
    token: str = field(default="", repr=False)
    org: str = ""
    once: uuid.UUID = field(default_factory=uuid.uuid4)

    @property
    def address(self) -> str:
        """The URL without a slash at its end."""
        return self.url.strip().rstrip("/")

    def check(self) -> None:
        """Raise ValidationError, with a sentence for the operator."""
        if problem := _url_problem(self.address):
            raise ValidationError({"url": problem})
        require_authority(self.ca_pem.strip())
        org = self.org.strip()
        if len(org) > LONGEST_ORG or (org and not _ORG.fullmatch(org)):
            raise ValidationError({"org": _("A tenant's name has letters, digits and ! - _ . * ' ( ) only.")})
        token = self.token.strip()
        if len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            raise ValidationError({"token": _("A token is one word of letters, digits and dots. Copy all of it.")})


def _url_problem(url: str) -> object:
    try:
        parts = urlsplit(url)
        _port = parts.port
    except ValueError:
        return _("Give the address as https://host:port/path.")
    odd = len(url) > 255 or not url.isascii() or not url.isprintable() or " " in url
    if odd or parts.scheme not in ("http", "https") or not parts.hostname:
        return _("Give the address as https://host:port/path.")
    if parts.username is not None or parts.query or parts.fragment:
        return _("Give the address alone: no user, no question mark; a token has a field of its own.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return _("Use https: a token must not travel unencrypted to another machine.")
    return None


@sensitive_variables("access")
def enter_source(actor: Actor, *, cluster: Cluster, kind: str, access: SourceAccess) -> ClusterSource:
    """Enter one; it takes the place of what is in use once a worker has checked it. Raises ValidationError by field,
    Denied, Unavailable or Refused (nothing was kept)."""
    row, is_first = _begin(actor, cluster=cluster, kind=kind, access=access)
    if not is_first:
        return row
    if row.has_token:
        try:
            letterbox().put(row.path, {"token": access.token.strip()})
        except OutsideError:
            _drop(row)
            raise
    with transaction.atomic():
        _wake_check(row)
    return row


@audit.use_case(SOURCE_ENTERED)
def _begin(actor: Actor, *, cluster: Cluster, kind: str, access: SourceAccess) -> tuple[ClusterSource, bool]:
    require_operator(actor)
    access.check()
    if access.org.strip() and kind not in WITH_ORG:
        raise ValidationError({"org": _("Only a Loki is asked for a tenant.")})
    known = ClusterSource.objects.filter(once=access.once, cluster=cluster, kind=kind).first()
    if known is not None:
        return known, False
    Cluster.objects.for_system().standing().select_for_update().get(pk=cluster.pk)
    # What was entered before and is not in use gives way; a worker clears it away.
    before = ClusterSource.objects.filter(cluster=cluster, kind=kind)
    before.exclude(state__in=(State.READY, State.DROPPED)).update(state=State.DROPPED, due_at=Now())
    _record(SOURCE_ENTERED, actor, cluster, kind, access.address)
    hint(cluster.topic)
    row = ClusterSource.objects.create(
        cluster=cluster,
        kind=kind,
        once=access.once,
        url=access.address,
        ca_pem=access.ca_pem.strip(),
        has_token=bool(access.token.strip()),
        org=access.org.strip() if kind in WITH_ORG else "",
        entered_by_id=actor.user_pk or None,
        due_at=timezone.now() + BROKEN_OFF,
    )
    return row, True


def _record(what: audit.Action, actor: Actor, cluster: Cluster, kind: str, url: str) -> None:
    audit.record(what, actor, f"cluster:{cluster.pk}", name=cluster.name, kind=NAMES[kind], url=url)


def _wake_check(row: ClusterSource) -> None:
    standing = ClusterSource.objects.filter(pk=row.pk).exclude(state__in=(State.DROPPED, State.READY))
    if standing.update(state=State.CHECKING, error="", checked_at=None, due_at=Now()):
        hint(row.cluster.topic)
        wake(CHECK, row.pk)


@transaction.atomic
def _drop(row: ClusterSource) -> None:
    """A worker destroys what may have come of its token, and the row."""
    ClusterSource.objects.filter(pk=row.pk).update(state=State.DROPPED, due_at=Now())
    wake(CHECK, row.pk)


@transaction.atomic
def check_source_again(actor: Actor, *, cluster: Cluster, kind: str) -> bool:
    """Check once more what failed; False where there is nothing such."""
    require_operator(actor)
    row = ClusterSource.objects.filter(cluster=cluster, kind=kind, state=State.FAILED).first()
    if row is not None:
        _wake_check(row)
    return row is not None


@audit.use_case(SOURCE_REMOVED)
def remove_source(actor: Actor, *, cluster: Cluster, kind: str) -> bool:
    """Read it no more and destroy its token; what was read stays. False where there was none."""
    require_operator(actor)
    rows = ClusterSource.objects.filter(cluster=cluster, kind=kind).exclude(state=State.DROPPED)
    found = list(rows.select_for_update())
    for row in found:
        _drop(row)
    if found:
        _record(SOURCE_REMOVED, actor, cluster, kind, found[0].url)
        hint(cluster.topic)
    return bool(found)


@transaction.atomic
def accept_source(row: ClusterSource, version: str) -> bool:
    """Take what was entered into use; False if it gave way meanwhile."""
    Cluster.objects.for_system().select_for_update().get(pk=row.cluster_id)
    mine = ClusterSource.objects.filter(pk=row.pk, state=State.CHECKING)
    if not mine.exists():
        return False
    before = ClusterSource.objects.filter(cluster_id=row.cluster_id, kind=row.kind, state=State.READY)
    for old in before:
        _drop(old)
    mine.update(state=State.READY, version=version, error="", checked_at=Now(), due_at=None)
    _record(SOURCE_ACCEPTED, SYSTEM, row.cluster, row.kind, row.url)
    hint(row.cluster.topic)
    return True


@transaction.atomic
def refuse_source(row: ClusterSource, error: str) -> None:
    """Keep what was found; what was in use stays in use."""
    mine = ClusterSource.objects.filter(pk=row.pk, state=State.CHECKING)
    kept = {"state": State.FAILED, "error": error[:300], "checked_at": Now(), "due_at": timezone.now() + KEPT}
    if mine.update(**kept):
        _record(SOURCE_REFUSED, SYSTEM, row.cluster, row.kind, row.url)
        hint(row.cluster.topic)


@transaction.atomic
def note_source(source_id: int, error: str) -> None:
    """It was read, or could not be. Pages hear of it when that changes."""
    rows = ClusterSource.objects.filter(pk=source_id, state=State.READY)
    row = rows.select_related("cluster").first()
    if row is None:
        return
    rows.update(error=error[:300], **({} if error else {"read_at": Now()}))
    if bool(error) != bool(row.error) or row.read_at is None:
        hint(row.cluster.topic)


def address_of(row: ClusterSource, token: TokenSource | None) -> Address:
    """Where it is, and what goes along with each question."""
    return Address(row.url, row.ca_pem, token, {ORG_HEADER: row.org} if row.org else {})


def in_use(cluster_id: int, kind: str) -> ClusterSource | None:
    """The one that is read."""
    return ClusterSource.objects.filter(cluster_id=cluster_id, kind=kind, state=State.READY).first()


def sources_of(cluster: Cluster, kind: str) -> tuple[ClusterSource | None, ClusterSource | None]:
    """What is in use, and what was entered to come into use and is not yet."""
    rows = ClusterSource.objects.filter(cluster=cluster, kind=kind).exclude(state=State.DROPPED)
    found = {row.state == State.READY: row for row in rows.select_related("entered_by").order_by("pk")}
    return found.get(True), found.get(False)


def due_sources() -> list[int]:
    """Those to check or to clear away now."""
    rows = ClusterSource.objects.filter(due_at__lte=Now()).order_by("due_at")
    return list(rows.values_list("pk", flat=True)[:100])
