"""Pages of the fleet: every node of every cluster at once, the list of nodes, and one of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from apps.clusters.domain.nodes import Condition, Taint
from apps.clusters.domain.queues import Line
from apps.clusters.models import Cluster, ClusterNode
from apps.clusters.services import fleet as services
from apps.clusters.services import nodewords as words
from apps.clusters.services import queues as tree
from apps.clusters.services.fleet import Filter, Group, Stand
from apps.clusters.services.registry import owners
from apps.clusters.services.samples import Past, past

PAGE = 50
RICH, RICH_IN_ALL = 300, 600
"""Up to so many nodes of a cluster, and on a page, each is a link with its name; of more, one picture is drawn."""
ACROSS, STEP, SIDE = 100, 9, 8
TOPICS = 20
"""Clusters a page listens to; with more of them it asks again by itself."""


@dataclass(frozen=True)
class Picture:
    """Cells of a cluster as paths of one SVG: `paths` by class, `height` in its units."""

    paths: list[tuple[str, str]]
    width: int
    height: int


def picture(groups: list[Group]) -> Picture:
    """Every node as a square: some twenty bytes each, whatever their number."""
    found: dict[str, list[str]] = {}
    number = 0
    for group in groups:
        for cell in group.cells:
            x, y = number % ACROSS * STEP, number // ACROSS * STEP
            kind = f"heat-{cell.shade}" if cell.total else "heat-none"
            kind = f"{kind} heat-dim" if cell.dim else kind
            found.setdefault(kind, []).append(f"M{x} {y}h{SIDE}v{SIDE}h-{SIDE}z")
            if cell.problem:
                tone = "heat-ill" if words.PROBLEMS[cell.problem][0] == "red" else "heat-kept"
                found.setdefault(tone, []).append(f"M{x} {y}h{SIDE}v{SIDE}h-{SIDE}z")
            number += 1
    order = sorted(found, key=lambda kind: kind in ("heat-ill", "heat-kept"))
    rows = -(-number // ACROSS)
    return Picture([(kind, "".join(found[kind])) for kind in order], ACROSS * STEP, max(1, rows) * STEP)


@dataclass(frozen=True)
class Drawn:
    """A pool of a cluster that is too large for links, as a picture."""

    name: str
    free: int
    picture: Picture


def drawn_by_pool(groups: list[Group]) -> list[Drawn]:
    pools: dict[str, list[Group]] = {}
    for group in groups:
        pools.setdefault(group.pool, []).append(group)
    return [Drawn(name, sum(one.free for one in some), picture(some)) for name, some in pools.items()]


@dataclass(frozen=True)
class Shown:
    """A cluster as the page shows it; `pictures` is empty where each node is a link of its own."""

    stand: Stand
    pictures: list[Drawn]

    @classmethod
    def of(cls, stand: Stand, *, rich: bool) -> Shown:
        return cls(stand, [] if rich else drawn_by_pool(stand.groups))


@dataclass(frozen=True)
class Ill:
    """A node that needs a look; `why` is the condition that says so, "" where it is something else."""

    cluster: Cluster
    node: services.Troubled
    look: words.Look
    why: str
    since: str


def _ill(stands: list[Stand]) -> list[Ill]:
    """The worst of all clusters that answer, a few of each."""
    having = [stand for stand in stands if stand.ill and not stand.is_silent]
    each = max(2, services.MOST_ILL // max(1, len(having)))
    some = [(stand.cluster, node) for stand in having for node in stand.ill[:each]]
    why = services.reasons(node for _cluster, node in some)
    found = []
    for cluster, node in some:
        reason = why.get(node.pk)
        told = words.condition(reason) if reason else ""
        found.append(Ill(cluster, node, words.PROBLEMS[node.problem], told, reason.since if reason else ""))
    return found


CURVE_WIDTH, CURVE_HEIGHT = 288, 90


@dataclass(frozen=True)
class Curve:
    """A day of a cluster as paths of an SVG; `line` is what was in use, `area` the ground below it."""

    past: Past
    line: str
    area: str
    middle: datetime


def _curve(cluster: Cluster) -> Curve | None:
    told = past(cluster)
    if told is None:
        return None
    line, area = [], []
    for run in told.runs:
        points = [
            (CURVE_WIDTH * ((at - told.begin) / (told.end - told.begin)), CURVE_HEIGHT * (1 - used / told.most))
            for at, used in run
        ]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        line.append(f"M{path}")
        area.append(f"M{points[0][0]:.1f} {CURVE_HEIGHT}L{path}V{CURVE_HEIGHT}z")
    return Curve(told, "".join(line), "".join(area), told.begin + (told.end - told.begin) / 2)


@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """The fleet; `?part=live` is what of it changes by itself."""
    chosen, tenant = request.GET.get("cluster", "")[:40], request.GET.get("tenant", "")[:40]
    found = services.fleet(request.actor, cluster=chosen, tenant=tenant)
    shown, drawn = [], 0
    for stand in found.stands:
        rich = stand.nodes <= RICH and drawn + stand.nodes <= RICH_IN_ALL
        drawn += stand.nodes if rich else 0
        shown.append(Shown.of(stand, rich=rich))
    tenants = {owner.slug: owner for owner in owners(request.actor).values()}
    one = found.stands[0].cluster if chosen and found.stands else None
    context = {
        "fleet": found,
        "shown": shown,
        "one": one,
        "ill": _ill(found.stands),
        **({"curve": _curve(one), **_tree(request, one)} if one else {}),
        "clusters": list(Cluster.objects.visible_to(request.actor)),
        "chosen": chosen,
        "tenants": sorted(tenants.values(), key=lambda owner: owner.name),
        "tenant": tenants.get(tenant),
        "shades": range(services.SHADES + 1),
        "topics": [stand.cluster.topic for stand in found.stands[:TOPICS]],
    }
    part = request.GET.get("part") == "live"
    return render(request, "clusters/fleet/overview.html#live" if part else "clusters/fleet/overview.html", context)


@require_GET
def nodes(request: HttpRequest) -> HttpResponse:
    """Every node, by name; `?part=live` is the table alone."""
    get = request.GET
    wanted = Filter(
        get.get("cluster", "")[:40], get.get("pool", "")[:63], get.get("accelerator", "")[:40],
        get.get("state", "")[:20], get.get("q", "")[:80].strip(),
    )  # fmt: skip
    rows, page = _page(request, services.nodes_found(request.actor, wanted))
    clusters = list(Cluster.objects.visible_to(request.actor))
    context = {
        "rows": [(node, words.look_of(node)) for node in rows],
        "page": page,
        "wanted": wanted,
        "filtered": any((wanted.cluster, wanted.pool, wanted.accelerator, wanted.state, wanted.text)),
        "clusters": clusters,
        "choices": services.choices(request.actor),
        "states": words.STATES.items(),
        "topics": [cluster.topic for cluster in clusters[:TOPICS]],
    }
    part = get.get("part") == "live"
    return render(request, "clusters/fleet/nodes.html#live" if part else "clusters/fleet/nodes.html", context)


def _page(request: HttpRequest, found: Any) -> tuple[list[ClusterNode], dict[str, str]]:
    """Nodes by name and key, and the queries that lead on and back ("" for none)."""
    back, on = request.GET.get("before", "")[:280], request.GET.get("after", "")[:280]
    name, key = _key(back or on)
    if back:
        found = found.filter(Q(name__lt=name) | Q(name=name, pk__lt=key))
        rows = list(found.order_by("-name", "-pk")[: PAGE + 1])
        more_back, more_on = len(rows) > PAGE, True
        rows = rows[:PAGE][::-1]
    else:
        found = found.filter(Q(name__gt=name) | Q(name=name, pk__gt=key)) if on else found
        rows = list(found.order_by("name", "pk")[: PAGE + 1])
        more_back, more_on = bool(on), len(rows) > PAGE
        rows = rows[:PAGE]
    kept = {k: request.GET[k] for k in ("cluster", "pool", "accelerator", "state", "q") if request.GET.get(k)}
    first = urlencode({**kept, "before": f"{rows[0].name}~{rows[0].pk}"}) if rows and more_back else ""
    last = urlencode({**kept, "after": f"{rows[-1].name}~{rows[-1].pk}"}) if rows and more_on else ""
    return rows, {"back": first, "on": last}


def _key(text: str) -> tuple[str, int]:
    name, _tilde, key = text.rpartition("~")
    return name, int(key) if key.isascii() and key.isdigit() and len(key) < 19 else 0


@dataclass(frozen=True)
class Bar:
    """A queue's bar in percent of the longest one; `deserved` is where its mark stands."""

    own: float
    borrowed: float
    deserved: float | None


@require_GET
def queues(request: HttpRequest, slug: str) -> HttpResponse:
    """The tree of a cluster's queues; `?part=live` is what of it changes by itself."""
    cluster = get_object_or_404(Cluster.objects.visible_to(request.actor), slug=slug)
    part = request.GET.get("part") == "live"
    name = "clusters/fleet/queues.html#live" if part else "clusters/fleet/queues.html"
    return render(request, name, {"cluster": cluster, **_tree(request, cluster)})


def _tree(request: HttpRequest, cluster: Cluster) -> dict[str, Any]:
    found = tree.queues(request.actor, cluster, request.GET.get("resource", "")[:120])
    return {"found": found, "rows": [(line, _bar(line, found.scale)) for line in found.lines]}


def _bar(line: Line, scale: int) -> Bar:
    own = line.used - line.borrowed
    deserved = None if line.deserved is None else 99 * line.deserved / scale
    return Bar(100 * own / scale, 100 * line.borrowed / scale, deserved)


@require_GET
def node(request: HttpRequest, slug: str, name: str) -> HttpResponse:
    """One node; `?part=live` is what of it changes by itself."""
    clusters = Cluster.objects.visible_to(request.actor)
    visible = ClusterNode.objects.visible_to(request.actor).filter(cluster__in=clusters)
    found = get_object_or_404(visible.select_related("cluster"), cluster__slug=slug, name=name)
    facts = found.facts
    numa = facts.get("numa")
    conditions = [Condition(**one) for one in facts.get("conditions", [])]
    taints = [Taint(**one) for one in facts.get("taints", [])]
    context = {
        "node": found,
        "cluster": found.cluster,
        "look": words.look_of(found),
        "sentence": words.SENTENCES.get(found.problem, ""),
        "entry": services.accelerator_of(found),
        "held": services.holders(request.actor, found),
        "conditions": [(one, words.condition(one)) for one in conditions],
        "taints": [(one, words.taint(one)) for one in taints],
        "versions": facts.get("versions", {}),
        "lag": services.lag_of(found),
        "resources": facts.get("resources", {}).items(),
        "labels": sorted(facts.get("labels", {}).items()),
        "numa": numa and {**numa, "words": words.numa(numa["cpu_policy"], numa["placing_policy"])},
        "free": found.free_now,
        "events": tree.events_of(found),
    }
    part = request.GET.get("part") == "live"
    return render(request, "clusters/fleet/node.html#live" if part else "clusters/fleet/node.html", context)
