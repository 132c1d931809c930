"""The list of clusters and the page of one. Both read what was seen; a cluster that is down slows neither."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.functional import Promise
from django.views.decorators.http import require_GET

from apps.accounts.types import Permission
from apps.clusters.domain.checks import NEEDED, Check
from apps.clusters.domain.profile import Profile
from apps.clusters.models import Cluster, ClusterEntry, ClusterSource
from apps.clusters.services import sources, words
from apps.clusters.services.rooms import Room, rooms_of

PAGE = 50


@dataclass(frozen=True)
class Line:
    """A cluster as a row of the list."""

    cluster: Cluster
    look: words.Look
    room: Room


@dataclass(frozen=True)
class Finding:
    """A check as a line of the page."""

    check: Check
    title: Promise
    look: words.Look
    text: str


@require_GET
def clusters(request: HttpRequest) -> HttpResponse:
    """Every cluster this person may see, by short name; `?part=rows` is what changes by itself."""
    actor = request.actor
    actor.require(Permission.CLUSTER_VIEW, target="clusters")
    after = request.GET.get("after", "")[:40]
    found = list(Cluster.objects.visible_to(actor).filter(slug__gt=after).order_by("slug")[: PAGE + 1])
    rooms = rooms_of(one.pk for one in found[:PAGE])
    context = {
        "lines": [Line(one, words.look_of(one), rooms.get(one.pk, Room())) for one in found[:PAGE]],
        "more": found[PAGE - 1].slug if len(found) > PAGE else "",
        "after": after,
        "may_manage": actor.may(Permission.CLUSTER_REGISTER),
    }
    part = request.GET.get("part") == "rows"
    return render(request, "clusters/list.html#rows" if part else "clusters/list.html", context)


@require_GET
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    """One cluster; `?part=live` is what of it changes by itself."""
    request.actor.require(Permission.CLUSTER_VIEW, target="clusters")
    cluster = get_object_or_404(Cluster.objects.visible_to(request.actor), slug=slug)
    may_manage = request.actor.may(Permission.CLUSTER_REGISTER)
    entry = cluster.entries.select_related("entered_by").first() if may_manage else None
    if entry is not None and entry.state in (ClusterEntry.State.PASSED, ClusterEntry.State.DROPPED):
        entry = None
    context = {
        "cluster": cluster,
        "look": words.look_of(cluster),
        "room": rooms_of([cluster.pk]).get(cluster.pk, Room()),
        "entry": entry,
        "entered": _findings(entry.found) if entry else [],
        "open_checks": _pending(entry),
        "needed": _findings(one for one in cluster.found if words.is_needed(one.key)),
        "installed": _findings(one for one in cluster.found if not words.is_needed(one.key)),
        "profile": _profile(cluster.described),
        "may_manage": may_manage,
        "sources": _sources(cluster) if may_manage and cluster.is_ready else [],
    }
    part = request.GET.get("part") == "live"
    return render(request, "clusters/detail.html#live" if part else "clusters/detail.html", context)


def _sources(cluster: Cluster) -> list[tuple[str, str, ClusterSource | None, ClusterSource | None]]:
    """Kind, name, what is in use and what is not yet."""
    return [(kind, name, *sources.sources_of(cluster, kind)) for kind, name in sources.NAMES.items()]


def _findings(checks: object) -> list[Finding]:
    return [
        Finding(one, words.TITLES[one.key], words.STATES[one.state], words.check_text(one))
        for one in checks  # type: ignore[attr-defined]
    ]


def _pending(entry: ClusterEntry | None) -> list[Promise]:
    """The checks that are still to be made."""
    if entry is None or not entry.is_busy:
        return []
    made = {one.key for one in entry.found}
    return [words.TITLES[key] for key in NEEDED if key not in made]


def _profile(said: Profile) -> dict[str, object]:
    return {
        "said": said,
        "is_empty": said == Profile(),
        "fabric": words.FABRICS[said.fabric],
        "scheduler": words.SCHEDULERS[said.scheduler],
        "planes": [(plane, words.PURPOSES[plane.purpose]) for plane in said.planes],
        "pools": [(pool, words.ROLES[pool.role]) for pool in said.pools],
    }
