"""The fleet as pages and REST show it: every node of every cluster, what is free, and who leaves pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from django.db.models import F, Q, QuerySet

from apps.accounts.types import Actor, Permission
from apps.clusters.domain.accelerators import Accelerator
from apps.clusters.domain.capacity import Capacity, Need, NodeSpace, Piece, by_pool, capacity_of, largest_gang, pieces
from apps.clusters.domain.nodes import ILL, Condition, Problem, kubelet_lag
from apps.clusters.models import Cluster, ClusterNode
from apps.clusters.services.catalogue import catalogue
from apps.clusters.services.registry import Link, Owner, Owners, owners, workloads

MOST_CELLS = 10_000
"""So many nodes of a cluster are drawn; a picture of more says nothing, and its page would not end."""
MOST_ILL, MOST_BLAMED = 6, 6
SHADES = 8
_SPACE = [field.name for field in fields(NodeSpace)]


@dataclass(frozen=True)
class Cell:
    """A node in the picture. `shade` is 0 for an idle one and SHADES for a full one; `dim` if it is not of the tenant
    that was chosen, `used` then counts that tenant's alone."""

    name: str
    used: int
    total: int
    shade: int
    problem: str
    dim: bool = False


@dataclass(frozen=True)
class Group:
    """Nodes that are near each other: of one HyperNode, or of one pool where there are none."""

    name: str
    cells: list[Cell]
    free: int
    pool: str = ""


@dataclass(frozen=True)
class Blame:
    """A namespace that leaves nodes in pieces; `owner` is None for people who may not know whose it is."""

    owner: Owner | None
    piece: Piece


@dataclass(frozen=True)
class Troubled:
    """A node that somebody should look at."""

    pk: int
    name: str
    problem: str
    used: int
    total: int


@dataclass(frozen=True)
class Pool:
    """A pool of nodes. `gang` is the most pods of `each` accelerators that are placed at once."""

    name: str
    capacity: Capacity
    gangs: dict[int, int]


@dataclass(frozen=True)
class Stand:
    """One cluster of the fleet."""

    cluster: Cluster
    capacity: Capacity
    nodes: int
    pools: list[Pool]
    groups: list[Group]
    blamed: list[Blame]
    ill: list[Troubled]
    troubled: int
    hidden: int

    @property
    def cells(self) -> int:
        return sum(len(group.cells) for group in self.groups)

    @property
    def is_silent(self) -> bool:
        return self.cluster.unreachable_since is not None


@dataclass(frozen=True)
class Fleet:
    stands: list[Stand]

    @property
    def nodes(self) -> int:
        return sum(stand.nodes for stand in self.stands)

    @property
    def total(self) -> int:
        return sum(stand.capacity.total for stand in self.stands)

    @property
    def used(self) -> int:
        return sum(stand.capacity.used for stand in self.stands)

    @property
    def free(self) -> int:
        return sum(stand.capacity.free for stand in self._answering)

    @property
    def whole_free(self) -> int:
        return sum(stand.capacity.whole_free for stand in self._answering)

    @property
    def free_whole(self) -> int:
        return sum(stand.capacity.free_whole for stand in self._answering)

    @property
    def in_pieces(self) -> int:
        return self.free - self.free_whole

    @property
    def fragmentation(self) -> int:
        """Percent of what is free that lies in pieces."""
        return round(100 * self.in_pieces / self.free) if self.free else 0

    @property
    def unusable(self) -> int:
        return sum(stand.capacity.unusable for stand in self.stands)

    @property
    def troubled(self) -> int:
        return sum(stand.troubled for stand in self.stands)

    @property
    def pools(self) -> list[tuple[Stand, Pool]]:
        return [(stand, pool) for stand in self.stands for pool in stand.pools]

    @property
    def blamed(self) -> list[tuple[Stand, Blame]]:
        """Who leaves the most pieces, of every cluster that answers."""
        found = [(stand, blame) for stand in self._answering for blame in stand.blamed]
        return sorted(found, key=lambda one: -one[1].piece.free)[:MOST_BLAMED]

    @property
    def best(self) -> Stand | None:
        """The cluster with the largest gang of whole nodes."""
        return max(self._answering, key=lambda stand: stand.capacity.largest_gang, default=None)

    @property
    def _answering(self) -> list[Stand]:
        """What a silent cluster has free is nobody's to promise."""
        return [stand for stand in self.stands if stand.cluster.unreachable_since is None]


def fleet(actor: Actor, *, cluster: str = "", tenant: str = "") -> Fleet:
    """The clusters this person may see, in a fixed number of queries."""
    actor.require(Permission.CLUSTER_VIEW, target="fleet")
    found = Cluster.objects.visible_to(actor)
    clusters = list(found.filter(slug=cluster) if cluster else found)
    known = owners(actor)
    columns = ["pk", "cluster_id", "problem", *_SPACE, *(["held"] if tenant else [])]
    rows: dict[int, list[dict[str, Any]]] = {one.pk: [] for one in clusters}
    visible = ClusterNode.objects.visible_to(actor).filter(cluster__in=clusters)
    for row in visible.order_by("pool", "fabric", "name").values(*columns):
        rows[row["cluster_id"]].append(row)
    held = _partly_held(visible)
    wanted = {place for place, owner in known.items() if owner.slug == tenant} if tenant else None
    return Fleet([_stand(one, rows[one.pk], held.get(one.pk, {}), known, wanted) for one in clusters])


def _partly_held(visible: QuerySet[ClusterNode]) -> dict[int, dict[str, list[dict[str, Any]]]]:
    """What holds nodes that are neither idle nor full, by cluster and node."""
    partly = visible.filter(used__gt=0, used__lt=F("total"))
    found: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for cluster_id, name, held in partly.values_list("cluster_id", "name", "held"):
        found.setdefault(cluster_id, {})[name] = held
    return found


def _troubled(rows: Iterable[Mapping[str, Any]]) -> list[Troubled]:
    """The nodes with a problem, the worst first."""
    order = list(Problem)
    found = [
        Troubled(*(row[name] for name in ("pk", "name", "problem", "used", "total"))) for row in rows if row["problem"]
    ]
    return sorted(found, key=lambda one: (order.index(Problem(one.problem)), one.name))


def reasons(nodes: Iterable[Troubled]) -> dict[int, Condition]:
    """The condition that says why a node is ill, by the node's key; those of nodes whose conditions are well are left
    out."""
    wanted = [node.pk for node in nodes]
    found = {}
    for pk, conditions in ClusterNode.objects.filter(pk__in=wanted).values_list("pk", "facts__conditions"):
        bad = [one for one in (Condition(**told) for told in conditions or []) if one.is_bad]
        if bad:
            found[pk] = bad[0]
    return found


def _stand(
    cluster: Cluster,
    rows: list[dict[str, Any]],
    held: Mapping[str, list[dict[str, Any]]],
    known: Owners,
    wanted: set[tuple[int, str]] | None,
) -> Stand:
    spaces = [NodeSpace(*(row[name] for name in _SPACE)) for row in rows]
    shares = ((space, _by_namespace(held[space.name])) for space in spaces if space.name in held)
    blamed = [Blame(known.get((cluster.pk, piece.namespace)), piece) for piece in pieces(shares)]
    ill = _troubled(rows)
    return Stand(
        cluster=cluster,
        capacity=capacity_of(spaces),
        nodes=len(rows),
        pools=pools_of(spaces),
        groups=_groups(cluster.pk, rows[:MOST_CELLS], spaces, wanted),
        blamed=blamed[:MOST_BLAMED],
        ill=ill[:MOST_ILL],
        troubled=len(ill),
        hidden=max(0, len(rows) - MOST_CELLS),
    )


def pools_of(spaces: list[NodeSpace]) -> list[Pool]:
    """Each pool with its gangs of whole nodes' pods, of half ones and of single accelerators."""
    found = []
    for name, capacity in by_pool(spaces).items():
        mine = [space for space in spaces if space.pool == name]
        most = max(space.total for space in mine)
        sizes = sorted({most, max(1, most // 2), 1}, reverse=True)
        found.append(Pool(name, capacity, {each: largest_gang(mine, Need(each)) for each in sizes}))
    return found


def _by_namespace(held: Iterable[Mapping[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in held:
        found[one["namespace"]] += one["amount"]
    return found


def _groups(
    cluster_id: int, rows: list[dict[str, Any]], spaces: list[NodeSpace], wanted: set[tuple[int, str]] | None
) -> list[Group]:
    groups: dict[tuple[str, str], Group] = {}
    free: Counter[tuple[str, str]] = Counter()
    for row, space in zip(rows, spaces, strict=False):
        key = space.pool, space.fabric
        group = groups.setdefault(key, Group(space.fabric or space.pool, [], 0, space.pool))
        group.cells.append(_cell(cluster_id, row, wanted))
        free[key] += space.free
    return [replace(group, free=free[key]) for key, group in groups.items()]


def _cell(cluster_id: int, row: Mapping[str, Any], wanted: set[tuple[int, str]] | None) -> Cell:
    used, total = row["used"], row["total"]
    dim = False
    if wanted is not None:
        held = _by_namespace(row["held"])
        used = sum(amount for namespace, amount in held.items() if (cluster_id, namespace) in wanted)
        dim = not used
    shade = min(SHADES, -(-SHADES * used // total)) if total else 0
    return Cell(row["name"], used, total, shade, row["problem"], dim)


# --- nodes ----------------------------------------------------------------------------------------------------------

STATES: dict[str, Q] = {
    "idle": Q(total__gt=0, used=0),
    "pieces": Q(used__gt=0, used__lt=F("total")),
    "full": Q(total__gt=0, used__gte=F("total")),
    "ill": Q(problem__in=ILL),
    "kept-back": Q(problem__in=(Problem.CORDONED, Problem.TAINTED)),
}


@dataclass(frozen=True)
class Filter:
    """What is looked for among nodes; "" for anything."""

    cluster: str = ""
    pool: str = ""
    accelerator: str = ""
    state: str = ""
    text: str = ""


def nodes_found(actor: Actor, wanted: Filter) -> QuerySet[ClusterNode]:
    """The nodes this person may see and looks for."""
    actor.require(Permission.CLUSTER_VIEW, target="fleet")
    clusters = Cluster.objects.visible_to(actor)
    found = ClusterNode.objects.visible_to(actor).filter(cluster__in=clusters).select_related("cluster")
    for column in ("pool", "accelerator"):
        if value := getattr(wanted, column):
            found = found.filter(**{column: value})
    if wanted.cluster:
        found = found.filter(cluster__slug=wanted.cluster)
    if wanted.state in STATES:
        found = found.filter(STATES[wanted.state])
    return found.filter(name__icontains=wanted.text) if wanted.text else found


def choices(actor: Actor) -> dict[str, list[str]]:
    """The pools and accelerators there are."""
    nodes = ClusterNode.objects.visible_to(actor)
    return {
        column: [*nodes.exclude(**{column: ""}).order_by(column).values_list(column, flat=True).distinct()[:50]]
        for column in ("pool", "accelerator")
    }


@dataclass(frozen=True)
class Held:
    """One pod with accelerators. `link` is None where this person may not see its row, or it is not of the portal."""

    pod: str
    namespace: str
    amount: int
    link: Link | None
    owner: Owner | None


def holders(actor: Actor, node: ClusterNode) -> list[Held]:
    """What holds a node's accelerators, as this person may know it."""
    known = owners(actor)
    links: dict[tuple[str, str], Link] = {}
    for kind in workloads():
        rows = {one["row"] for one in node.held if one["label"] == kind.label}
        if rows and kind.links:
            links |= {(kind.label, row): link for row, link in kind.links(actor, rows).items()}
    found = []
    for one in node.held:
        link, owner = links.get((one["label"], one["row"])), known.get((node.cluster_id, one["namespace"]))
        told = bool(link or owner or actor.may(Permission.CLUSTER_REGISTER))
        found.append(Held(one["pod"] if told else "", one["namespace"] if told else "", one["amount"], link, owner))
    return found


def accelerator_of(node: ClusterNode) -> Accelerator | None:
    """What the catalogue says of a node's accelerators."""
    return catalogue().find(node.resource, node.facts.get("labels", {})) if node.resource else None


def lag_of(node: ClusterNode) -> str:
    """ "old", "ahead" or "": the kubelet against its API server."""
    return kubelet_lag(node.facts.get("versions", {}).get("kubelet", ""), node.cluster.version)
