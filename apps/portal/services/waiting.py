"""What waits for auditors, operators and owners of tokens: things no other app asks anybody to look at."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Permission, Role
from apps.audit import services as audit
from apps.clusters import services as clusters
from apps.notices.services import Waiting, first

LOOKED_BACK = timedelta(days=1)
COUNTED = 100
SOON = timedelta(days=3)
SHOWN = 5


def waiting_for(actor: Actor) -> list[Waiting]:
    """What waits for this person that belongs to no one app."""
    return [*_refusals(actor), *_silent_clusters(actor), *_ending_tokens(actor)] if actor.user_pk else []


def _refusals(actor: Actor) -> list[Waiting]:
    """For auditors: that people were refused something since yesterday."""
    if Role.AUDITOR not in actor.platform:
        return []
    since = timezone.now() - LOOKED_BACK
    found = audit.found(actor, audit.Search(result="refused", since=since))
    times = list(found.order_by("-at", "-pk").values_list("at", flat=True)[:COUNTED])
    if not times:
        return []
    if len(times) < COUNTED:
        text = ngettext(
            "{n} attempt was refused since yesterday", "{n} attempts were refused since yesterday", len(times)
        )
    else:
        text = _("More than {n} attempts were refused since yesterday")
    query = urlencode({"result": "refused", "since": timezone.localtime(since).isoformat(timespec="minutes")})
    return [
        Waiting(
            text.format(n=min(len(times), COUNTED - 1)), f"{reverse('audit:list')}?{query}", times[-1],
            act=_("Look at them"), icon="ban", tone="red",
        )
    ]  # fmt: skip


def _silent_clusters(actor: Actor) -> list[Waiting]:
    """For operators: clusters that do not answer."""
    if not actor.may(Permission.CLUSTER_REGISTER):
        return []
    silent = clusters.visible_to(actor).filter(unreachable_since__isnull=False).order_by("unreachable_since")
    return first(silent, SHOWN, _silent_cluster)


def _silent_cluster(cluster: clusters.Cluster) -> Waiting:
    return Waiting(
        _("The cluster {name} does not answer").format(name=cluster.name),
        reverse("clusters:detail", args=[cluster.slug]),
        cluster.unreachable_since, act=_("Look at it"), icon="plug-connected-x",
        tone="red",
    )  # fmt: skip


def _ending_tokens(actor: Actor) -> list[Waiting]:
    """Tokens that scripts may still need tomorrow."""
    ending = accounts.ending_tokens(actor, timezone.now() + SOON)
    return [
        Waiting(
            _("The API token “{name}” ends soon").format(name=token.name), reverse("accounts:settings"),
            None, note=_("on {day}").format(day=formats.date_format(timezone.localtime(token.expires_at))),
            act=_("Make another"), icon="key", tone="amber",
        )
        for token in ending[:SHOWN]
    ]  # fmt: skip
