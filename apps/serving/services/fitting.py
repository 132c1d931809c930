"""What fits where: shapes for a version in a tenant's place, with the operands of the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from apps.clusters import services as clusters
from apps.quotas import services as quotas
from apps.serving.domain.engines import Engine, Facts, Operand
from apps.serving.domain.fit import Fit, fits, memory_of_product, smallest
from apps.serving.domain.problems import InvalidRequest, Problem
from apps.tenants import services as tenants


@dataclass(frozen=True)
class Accelerator:
    """What a place's cluster has most of. `bytes` of one is None where its product's name does not tell it; `free` is
    how many are free on nodes now, `largest` on one node."""

    product: str
    bytes: int | None
    free: int
    largest: int


@dataclass(frozen=True)
class Offer:
    """The panel beside the form: what one replica needs, which shapes hold it, and what the quota leaves."""

    engine: Engine
    operands: list[Operand]
    answers: list[Fit]
    accelerator: Accelerator
    use: quotas.Use
    placement: tenants.Placement

    @property
    def need(self) -> int:
        return sum(operand.bytes for operand in self.operands)

    @property
    def smallest(self) -> Fit | None:
        return smallest(self.answers)


def pool_of(placement: tenants.Placement) -> quotas.Pool:
    """The pool from which a place's accelerators are held."""
    return quotas.Pool(placement.cluster.slug, placement.accelerator)


def accelerator_of(placement: tenants.Placement) -> Accelerator:
    """The accelerators of a place's cluster, as last seen."""
    nodes = [node for node in clusters.nodes(placement.cluster) if node.resource == placement.accelerator]
    products = Counter(node.product for node in nodes)
    product = products.most_common(1)[0][0] if products else ""
    same = [node for node in nodes if node.product == product]
    free = [node.free for node in same]
    memory = min((node.device_memory for node in same if node.device_memory), default=None)
    return Accelerator(product, memory or memory_of_product(product), sum(free), max(free, default=0))


def offer_of(engine: Engine, facts: Facts, placement: tenants.Placement) -> Offer:
    """Everything the panel shows."""
    accelerator = accelerator_of(placement)
    return Offer(
        engine,
        engine.need(facts),
        fits(engine, facts, accelerator.bytes),
        accelerator,
        quotas.use(placement.tenant_id, pool_of(placement)),
        placement,
    )


def require_open(placement: tenants.Placement) -> None:
    """Raise InvalidRequest while nothing new may begin in the cluster."""
    cluster = placement.cluster
    if cluster.maintenance_since is not None:
        reason = cluster.maintenance_reason
        raise InvalidRequest([Problem("", "maintenance", {"cluster": cluster.name, "reason": reason})])
