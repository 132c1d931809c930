"""What was seen of clusters: written by the watch process, read by pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.types import Actor, Permission
from apps.clusters.domain.capacity import Capacity, NodeSpace, capacity_of
from apps.clusters.domain.nodes import SeenNode
from apps.clusters.models import Cluster, ClusterNode, ClusterQuerySet
from apps.clusters.services.nodehistory import GONE, note_turns
from apps.clusters.services.registration import ALL
from apps.streams.services import hint

REASON_LIMIT = 500


def visible_to(actor: Actor) -> ClusterQuerySet:
    """The clusters this actor may see."""
    return Cluster.objects.visible_to(actor)


def for_system() -> ClusterQuerySet:
    return Cluster.objects.for_system()


def may_follow_cluster(actor: Actor, cluster_id: str) -> bool:
    return actor.may(Permission.CLUSTER_VIEW) and cluster_id.isdigit()


def capacity(cluster: Cluster) -> Capacity:
    """Accelerators as last seen."""
    return capacity_of(nodes(cluster))


def nodes(cluster: Cluster) -> list[NodeSpace]:
    """Nodes as last seen, by name."""
    rows = ClusterNode.objects.for_system().filter(cluster=cluster)
    return [NodeSpace(*values) for values in rows.values_list(*_SPACE)]


def is_silent(cluster_id: int) -> bool:
    """Whether the watch has seen that the cluster does not answer: now, not when its row was read.

    Whoever lets a row wait for that writes it first and asks this then. The watch writes that there is an answer before
    it lists what waits (`lookout.waiting`): either it finds the row, or this says that the cluster is back.
    """
    return Cluster.objects.for_system().filter(pk=cluster_id, unreachable_since__isnull=False).exists()


@transaction.atomic
def note_answer(cluster_id: int, version: str) -> None:
    """The cluster answered. Pages hear of it if it was away, or has another version."""
    rows = Cluster.objects.for_system().filter(pk=cluster_id)
    news = rows.filter(Q(unreachable_since__isnull=False) | ~Q(version=version[:40]))
    changed = news.update(version=version[:40], unreachable_since=None, unreachable_reason="", seen_at=Now())
    if changed:
        hint(f"cluster.{cluster_id}")
        hint(ALL)
    else:
        rows.update(seen_at=Now())


@transaction.atomic
def note_silence(cluster_id: int, reason: str) -> None:
    """The cluster does not answer. The first moment of a silence is kept; pages hear of it once, and a worker looks at
    it at once: perhaps it answers, but does not take the credential any more."""
    rows = Cluster.objects.for_system().filter(pk=cluster_id, unreachable_since=None)
    if rows.update(unreachable_since=Now(), unreachable_reason=reason[:REASON_LIMIT], due_at=Now()):
        hint(f"cluster.{cluster_id}")
        hint(ALL)


@transaction.atomic
def note_comparison(cluster_id: int, objects: int, differed: int) -> None:
    """Everything was listed beside the watches: how many objects there are, and how many were other than told."""
    Cluster.objects.for_system().filter(pk=cluster_id).update(
        compared_at=Now(), compared=objects, differed=differed, diverged=F("diverged") + differed
    )
    hint(f"cluster.{cluster_id}")


@dataclass(frozen=True)
class Unlike:
    """Nodes that are other than they are kept, and the names of those that are gone."""

    changed: Sequence[SeenNode] = ()
    gone: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)

    def parts(self) -> Iterator[Unlike]:
        """The same in parts, each small enough to be written at once."""
        for names in _sliced(self.gone):
            yield Unlike(gone=names)
        for nodes in _sliced(self.changed):
            yield Unlike(changed=nodes)


PART = 500
T = TypeVar("T")


def _sliced(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[first : first + PART] for first in range(0, len(items), PART))


def nodes_unlike(cluster_id: int, seen: Iterable[SeenNode]) -> Unlike:
    """What the snapshot has to learn; it is compared by digests, which take their time for thousands of nodes."""
    known = dict(ClusterNode.objects.for_system().filter(cluster_id=cluster_id).values_list("name", "digest"))
    fresh = {node.name: node for node in seen}
    changed = [node for node in fresh.values() if known.get(node.name) != node.digest]
    return Unlike(changed, sorted(known.keys() - fresh.keys()))


@transaction.atomic
def keep_nodes(cluster_id: int, found: Unlike) -> None:
    """Make so much of the snapshot equal to what is there now. Pages hear of it; what turned ill or well is kept."""
    nodes = ClusterNode.objects.for_system().filter(cluster_id=cluster_id)
    known = dict(nodes.filter(name__in=[node.name for node in found.changed]).values_list("name", "problem"))
    turned = [node for node in found.changed if known.get(node.name, node.problem) != node.problem]
    turns = {node.name: str(node.problem) for node in turned}
    if turns or found.gone:
        note_turns(cluster_id, turns | dict.fromkeys(found.gone, GONE))
    rows = [_node(cluster_id, node) for node in found.changed]
    ClusterNode.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["cluster", "name"], update_fields=_WRITTEN, batch_size=PART
    )
    if found.gone:
        nodes.filter(name__in=found.gone).delete()
    hint(f"cluster.{cluster_id}")


def note_nodes(cluster_id: int, seen: Iterable[SeenNode]) -> bool:
    """Make the snapshot equal to what is there now; True (and a hint) if anything changed."""
    found = nodes_unlike(cluster_id, seen)
    if found:
        keep_nodes(cluster_id, found)
    return bool(found)


_SPACE = [field.name for field in fields(NodeSpace)]
_WRITTEN = [*_SPACE[1:], "problem", "facts", "held", "digest", "changed_at"]


def space_of(node: ClusterNode) -> NodeSpace:
    return NodeSpace(*(getattr(node, name) for name in _SPACE))


def _node(cluster_id: int, seen: SeenNode) -> ClusterNode:
    columns = {name: getattr(seen.space, name) for name in _SPACE}
    return ClusterNode(
        cluster_id=cluster_id,
        problem=seen.problem,
        facts=seen.facts,
        held=seen.held,
        digest=seen.digest,
        changed_at=timezone.now(),
        **columns,
    )
