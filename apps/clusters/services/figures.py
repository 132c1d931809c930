"""What clusters have of a resource, in the words quotas counts in."""

from __future__ import annotations

from collections.abc import Iterable

from apps.clusters.domain.capacity import Capacity, capacity_of
from apps.clusters.models import Cluster
from apps.clusters.services.seen import nodes
from apps.quotas.services import Pool, PoolFigures


def pool_figures(pools: Iterable[Pool]) -> dict[Pool, PoolFigures]:
    """The figures of these pools, as last seen; those of unknown clusters and of resources no node has are left out."""
    wanted = sorted(pools)
    found: dict[Pool, PoolFigures] = {}
    for cluster in Cluster.objects.filter(slug__in={pool.cluster for pool in wanted}):
        seen = nodes(cluster)
        for pool in wanted:
            having = [node for node in seen if node.resource == pool.resource]
            if pool.cluster == cluster.slug and having:
                free = sum(node.free for node in having)
                found[pool] = _figures(cluster, capacity_of(having), free)
    return found


def _figures(cluster: Cluster, capacity: Capacity, free: int) -> PoolFigures:
    return PoolFigures(
        cluster_name=cluster.name,
        product=" / ".join(product.product for product in capacity.products),
        total=capacity.total,
        free=free,
        nodes=capacity.nodes,
        whole_free=capacity.whole_free,
        seen_at=cluster.seen_at,
        silent_since=cluster.unreachable_since,
    )
