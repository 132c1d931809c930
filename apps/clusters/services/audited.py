"""What the audit log and Home know of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from apps.accounts.types import Actor, Permission
from apps.clusters.models import Cluster
from apps.clusters.services import words
from apps.notices import services as notices

SHOWN = 10


def cluster_page(key: str) -> str:
    """The address of a cluster's page, "" for one that is gone."""
    pk = int(key) if key.isascii() and key.isdigit() and len(key) < 19 else 0
    slug = Cluster.objects.for_system().standing().filter(pk=pk).values_list("slug", flat=True).first()
    return reverse("clusters:detail", args=[slug]) if slug else ""


def checks_text(value: Any) -> str:
    """The names of checks, from their keys."""
    return _named(value, words.TITLES)


def fields_text(value: Any) -> str:
    """The names of a profile's fields, from their keys."""
    return _named(value, words.FIELDS)


def _named(value: Any, names: Mapping[str, Promise]) -> str:
    return ", ".join(str(names.get(key, key)) for key in str(value).split(", "))


def waiting(actor: Actor) -> list[notices.Waiting]:
    """Clusters whose credential an operator must renew, and those that were entered and are not ready."""
    if not actor.may(Permission.CLUSTER_REGISTER):
        return []
    wanted = Q(state=Cluster.State.NEW) | Q(state=Cluster.State.READY, warned_days__isnull=False)
    return notices.first(Cluster.objects.visible_to(actor).filter(wanted), SHOWN, _thing)


def _thing(row: Cluster) -> notices.Waiting:
    over = row.is_expired
    link = reverse("clusters:detail", args=[row.slug])
    if not row.is_ready:
        text = _("{cluster} is not ready yet").format(cluster=row.name)
        return notices.Waiting(text, link, row.created_at, act=_("Look at it"), icon="server-2", tone="amber")
    if row.is_rejected:
        text = _("{cluster} rejects the portal's credential")
    else:
        text = _("The credential of {cluster} is over") if over else _("The credential of {cluster} is nearly over")
    return notices.Waiting(
        text.format(cluster=row.name),
        link,
        row.checked_at,
        note=formats.date_format(timezone.localtime(row.expires_at), "DATE_FORMAT") if row.expires_at else "",
        act=_("Enter a new one"),
        icon="key",
        tone="red" if over or row.is_rejected else "amber",
    )
