"""What pages and REST read of pools and requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import Sum
from django.utils import timezone

from apps.accounts.types import Actor, Permission
from apps.quotas.domain.bars import Part, bar
from apps.quotas.domain.impact import Grant, peak
from apps.quotas.domain.pool import Pool
from apps.quotas.domain.states import State
from apps.quotas.models import Allowance, QuotaRequest, RequestItem
from apps.quotas.services.holds import Use, uses_of
from apps.quotas.services.ledger import booked_since
from apps.quotas.services.registry import PoolFigures, figures_of

MOST_TENANTS = 50


def may_follow_request(actor: Actor, request_id: str) -> bool:
    """Whether an open page of this person may hear that a request changed."""
    known = request_id.isascii() and request_id.isdigit() and len(request_id) < 19
    return known and QuotaRequest.objects.visible_to(actor).filter(pk=int(request_id)).exists()


@dataclass(frozen=True)
class PoolView:
    """A tenant's pool as people see it. `seconds` is what pods that ended this month have used."""

    use: Use
    name: PoolName
    seconds: int

    @property
    def hours(self) -> int:
        return round(self.seconds / 3600)


@dataclass(frozen=True)
class TenantPools:
    tenant_id: int
    slug: str
    name: str
    pools: list[PoolView]
    may_ask: bool
    """Whether the reader may ask for more."""


def pools_seen(actor: Actor, slug: str = "") -> list[TenantPools]:
    """The pools of the first MOST_TENANTS tenants an actor may see, or of the one named, by tenant."""
    seen = Allowance.objects.visible_to(actor).select_related("tenant").order_by("tenant__slug", "cluster", "resource")
    if slug:
        seen = seen.filter(tenant__slug=slug)
    first = seen.order_by("tenant__slug").values_list("tenant", flat=True).distinct()[:MOST_TENANTS]
    rows = list(seen.filter(tenant__in=list(first)))
    tenants = {row.tenant_id: row.tenant for row in rows}.values()
    views = _views(rows)
    return [
        TenantPools(
            tenant.pk, tenant.slug, tenant.name, [view for view in views if view.use.tenant_id == tenant.pk],
            actor.may(Permission.QUOTA_ASK, tenant.pk),
        )
        for tenant in tenants
    ]  # fmt: skip


def _views(rows: list[Allowance]) -> list[PoolView]:
    figures = figures_of({row.pool for row in rows})
    month = timezone.localtime().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    booked = booked_since({row.tenant_id for row in rows}, month)
    return [
        PoolView(use, name_of(use.pool, figures), booked.get((use.tenant_id, use.pool), 0)) for use in uses_of(rows)
    ]


@dataclass(frozen=True)
class PoolName:
    """What people call a pool's accelerators, and its cluster."""

    product: str
    cluster: str


def name_of(pool: Pool, figures: Mapping[Pool, PoolFigures]) -> PoolName:
    """As the cluster calls them; the pool's own words while nobody has seen it."""
    known = figures.get(pool)
    return (
        PoolName(known.product or pool.resource, known.cluster_name) if known else PoolName(pool.resource, pool.cluster)
    )


def named(allowances: Iterable[Allowance]) -> list[tuple[Allowance, PoolName]]:
    """Some allowances with the names of their pools."""
    rows = list(allowances)
    figures = figures_of({row.pool for row in rows})
    return [(row, name_of(row.pool, figures)) for row in rows]


@dataclass(frozen=True)
class Impact:
    """What one item of a request would change. Limits count what other granted requests add at the fullest moment of
    its time; `others` is what all other tenants may use of the pool now."""

    item: RequestItem
    name: PoolName
    use: Use
    before: int
    others: int
    figures: PoolFigures | None

    @property
    def after(self) -> int:
        return self.before + self.item.amount

    @property
    def offered(self) -> int | None:
        return None if self.item.offered is None else self.before + self.item.offered

    @property
    def promised(self) -> int:
        """All tenants' limits together, with this request."""
        return self.others + self.after

    @property
    def beyond(self) -> int:
        """How much more would be promised than the cluster has."""
        return max(0, self.promised - self.figures.total) if self.figures else 0

    @property
    def in_use_after(self) -> int:
        """What the tenant would hold with all of the request beside what it holds now."""
        return self.use.held + self.item.amount

    @property
    def promised_now(self) -> int:
        """All tenants' limits together, without this request."""
        return self.others + self.before

    @property
    def lacking(self) -> int:
        """How many of those asked for are not free now: others must end first."""
        return max(0, self.item.amount - self.figures.free) if self.figures else 0

    @property
    def free_after(self) -> int:
        """Free accelerators if all of it were used at once, as far as there are any."""
        return max(0, self.figures.free - self.item.amount) if self.figures else 0

    @property
    def smaller(self) -> list[tuple[int, str]]:
        """Less that could be offered instead, each with what speaks for it: "free" now, or not "promised" to others."""
        if self.figures is None:
            return []
        found = [(self.figures.free, "free"), (self.item.amount - self.beyond, "promised")]
        return [(amount, why) for amount, why in found if 0 < amount < self.item.amount]

    @property
    def tenant_bar(self) -> list[Part]:
        """The tenant's new limit: what is used and held of it, and all that this request adds."""
        parts = [("used", self.use.used), ("held", self.use.waiting), ("asked", self.item.amount)]
        return bar(max(self.after, self.in_use_after, 1), parts)

    @property
    def promised_bar(self) -> list[Part]:
        """All limits together, against what the cluster has."""
        scale = max(self.promised, self.figures.total if self.figures else 0, 1)
        return bar(scale, [("others", self.others), ("used", self.before), ("asked", self.item.amount)])

    @property
    def cluster_bar(self) -> list[Part]:
        """What is not free in the cluster now, and what this request would take of the rest."""
        if self.figures is None:
            return []
        taken = self.figures.total - self.figures.free
        return bar(max(self.figures.total, 1), [("others", taken), ("asked", min(self.item.amount, self.figures.free))])


def impact_of(request: QuotaRequest) -> list[Impact]:
    """What a request changes, pool by pool, in a fixed number of queries."""
    items = list(request.items.select_related("allowance"))
    rows = [item.allowance for item in items]
    figures = figures_of({row.pool for row in rows})
    uses = {use.pool: use for use in uses_of(rows)}
    others = _granted_beside(request)
    found = []
    for item in items:
        pool = item.allowance.pool
        known = [grant for allowance_id, grant in others if allowance_id == item.allowance_id]
        before = item.allowance.base + peak(known, request.starts_at, request.ends_at)
        others_have = _limits_of_others(item.allowance)
        found.append(Impact(item, name_of(pool, figures), uses[pool], before, others_have, figures.get(pool)))
    return found


def _granted_beside(request: QuotaRequest) -> list[tuple[int, Grant]]:
    """Other granted requests of the tenant that overlap with this one in time."""
    rows = RequestItem.objects.filter(
        request__tenant_id=request.tenant_id,
        request__state__in=(State.APPROVED, State.ACTIVE),
        request__starts_at__lt=request.ends_at,
        request__ends_at__gt=request.starts_at,
    )
    return [
        (item.allowance_id, Grant(item.amount, item.request.starts_at, item.request.ends_at))
        for item in rows.exclude(request=request).select_related("request")
    ]


def _limits_of_others(allowance: Allowance) -> int:
    same = Allowance.objects.for_system().filter(cluster=allowance.cluster, resource=allowance.resource)
    sums = same.exclude(pk=allowance.pk).aggregate(base=Sum("base"), granted=Sum("granted"))
    return (sums["base"] or 0) + (sums["granted"] or 0)


def titles_of(requests: Iterable[QuotaRequest]) -> dict[int, str]:
    """ "+32 A800 80G", by request, in a fixed number of queries."""
    items = list(RequestItem.objects.filter(request__in=list(requests)).select_related("allowance"))
    figures = figures_of({item.allowance.pool for item in items})
    found: dict[int, list[str]] = {}
    for item in items:
        product = name_of(item.allowance.pool, figures).product
        found.setdefault(item.request_id, []).append(f"+{item.amount:,} {product}")
    return {pk: ", ".join(parts) for pk, parts in found.items()}
