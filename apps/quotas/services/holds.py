"""What a tenant may use, and what its work holds of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.audit import services as audit
from apps.quotas.domain.bars import Part, bar
from apps.quotas.domain.pool import Pool
from apps.quotas.models import Allowance, Hold
from apps.quotas.services.registry import limit_changed, live_kinds
from apps.streams.services import hint

BASE_SET = audit.action(
    "quota.base-set",
    _("{actor} set what the tenant has lastingly of {resource} in {cluster}: {before} → {after}"),
    name=_("Set a tenant's lasting quota"),
)


class NoRoom(Exception):
    """The limit does not leave that much: `left` of `limit` can still be had. A `limit` of 0: there is no such pool."""

    def __init__(self, left: int, limit: int) -> None:
        super().__init__(f"{left} of {limit} left")
        self.left, self.limit = left, limit


@dataclass(frozen=True)
class Use:
    """A tenant's pool in numbers. `held` is what live work keeps, `used` the part of it that has its accelerators."""

    tenant_id: int
    pool: Pool
    base: int
    granted: int
    held: int
    used: int

    @property
    def limit(self) -> int:
        return self.base + self.granted

    @property
    def left(self) -> int:
        return max(0, self.limit - self.held)

    @property
    def waiting(self) -> int:
        """Held by work that has no accelerators yet."""
        return self.held - self.used

    @property
    def over(self) -> int:
        """Held above the limit, since that became lower."""
        return max(0, self.held - self.limit)

    @property
    def bar(self) -> list[Part]:
        """Used, held and above the limit, side by side."""
        within = self.held - self.over
        used = min(self.used, within)
        scale = max(self.limit, self.held, 1)
        return bar(scale, [("used", used), ("held", within - used), ("over", self.over)])


@audit.use_case(BASE_SET)
def set_base(actor: Actor, tenant_id: int, pool: Pool, amount: int) -> None:
    """Say how much of a pool a tenant has lastingly; told the same again, it changes nothing. It may be less than what
    is held: work goes on, nothing more is let in."""
    actor.require(Permission.QUOTA_DECIDE_PLATFORM, tenant_id, target=f"tenant:{tenant_id}")
    Allowance.objects.bulk_create(
        [Allowance(tenant_id=tenant_id, cluster=pool.cluster, resource=pool.resource)], ignore_conflicts=True
    )
    row = Allowance.objects.for_system().of(tenant_id, pool).select_for_update().get()
    if row.base == amount:
        return
    before, row.base = row.base, amount
    row.save(update_fields=["base"])
    audit.record(
        BASE_SET, actor, f"tenant:{tenant_id}", tenant_id=tenant_id, cluster=pool.cluster, resource=pool.resource,
        before=before, after=amount,
    )  # fmt: skip
    limit_changed(tenant_id, pool)
    hint(f"tenant.{tenant_id}")


def use(tenant_id: int, pool: Pool) -> Use:
    """One pool of a tenant; all zeros where it has none."""
    found = uses_of(Allowance.objects.for_system().of(tenant_id, pool))
    return found[0] if found else Use(tenant_id, pool, 0, 0, 0, 0)


def uses(tenant_ids: Iterable[int]) -> list[Use]:
    """Every pool of some tenants, by tenant and pool, in a fixed number of queries."""
    return uses_of(Allowance.objects.for_system().filter(tenant_id__in=list(tenant_ids)))


def uses_of(allowances: Iterable[Allowance]) -> list[Use]:
    rows = sorted(allowances, key=lambda row: (row.tenant_id, row.pool))
    used: dict[int, int] = dict.fromkeys((row.pk for row in rows), 0)
    holds = list(Hold.objects.filter(allowance_id__in=used))
    on_nodes = _on_nodes({hold.subject for hold in holds})
    for hold in holds:
        used[hold.allowance_id] += hold.amount if hold.subject in on_nodes else 0
    return [Use(row.tenant_id, row.pool, row.base, row.granted, row.held, min(used[row.pk], row.held)) for row in rows]


def _on_nodes(subjects: set[str]) -> set[str]:
    """Those that have their accelerators; of kinds that nobody registered, all."""
    known, found = live_kinds(), set[str]()
    for kind in {subject.partition(":")[0] for subject in subjects}:
        of_kind = {subject for subject in subjects if subject.startswith(f"{kind}:")}
        found |= known[kind].on_nodes(of_kind) if kind in known else of_kind
    return found


def take(tenant_id: int, pool: Pool, amount: int, subject: str) -> None:
    """Let `subject` hold `amount` of the pool from now on, instead of what it held of it. Belongs into the transaction
    that makes the work. The limit is kept by one conditional UPDATE; raises NoRoom, and then holds what it held.

    The hold's row is locked before its allowance's, here and in `release`: two callers cannot wait for each other.
    """
    with transaction.atomic(savepoint=False):  # nothing is left of what did not fit, so there is nothing to undo
        none = _take(tenant_id, pool, amount, subject)
    if none:
        raise none
    hint(f"tenant.{tenant_id}")


def _take(tenant_id: int, pool: Pool, amount: int, subject: str) -> NoRoom | None:
    """Why it was not taken."""
    pools = Allowance.objects.for_system().of(tenant_id, pool)
    hold = _locked_hold(tenant_id, pool, subject)
    if hold is None:
        return NoRoom(0, 0) if amount else None
    more = amount - hold.amount
    none: NoRoom | None = None
    fits = Q(held__lte=F("base") + F("granted") - more) if more > 0 else Q()
    if more and not pools.filter(fits).update(held=F("held") + more):
        row = pools.get()
        amount, more, none = hold.amount, 0, NoRoom(max(0, row.limit - row.held), row.limit)
    if not amount:
        hold.delete()
    elif more:
        Hold.objects.filter(pk=hold.pk).update(amount=amount)
    return none


_LOCKED_HOLD = """
INSERT INTO quotas_hold (allowance_id, subject, amount)
SELECT id, %s, 0 FROM quotas_allowance WHERE tenant_id = %s AND cluster = %s AND resource = %s
ON CONFLICT (subject, allowance_id) DO UPDATE SET subject = excluded.subject
RETURNING id, allowance_id, subject, amount
"""


def _locked_hold(tenant_id: int, pool: Pool, subject: str) -> Hold | None:
    """The hold of a subject, made if there is none; None where there is no such pool. An upsert, since one that is just
    being given back would be seen as there and then be gone."""
    return next(iter(Hold.objects.raw(_LOCKED_HOLD, [subject, tenant_id, pool.cluster, pool.resource])), None)


@transaction.atomic
def release(subject: str) -> None:
    """Give back all that a subject holds; of one that holds nothing, nothing."""
    for hold in Hold.objects.filter(subject=subject).order_by("pk").select_for_update():
        Allowance.objects.for_system().filter(pk=hold.allowance_id).update(held=F("held") - hold.amount)
        hold.delete()
        row = Allowance.objects.for_system().get(pk=hold.allowance_id)
        hint(f"tenant.{row.tenant_id}")


@dataclass(frozen=True)
class Difference:
    """Where holds and live work do not agree: what kind of difference, about what, and by how much."""

    what: str
    about: str
    amount: int


def check() -> list[Difference]:
    """Every difference: live work without a hold, holds without live work, sums that are not the sum of their holds."""
    subjects = dict(Hold.objects.values_list("subject", "amount"))
    found = []
    for kind, registered in live_kinds().items():
        live, held = registered.live(), {subject for subject in subjects if subject.startswith(f"{kind}:")}
        found += [Difference("without-hold", subject, 0) for subject in sorted(live - held)]
        found += [Difference("without-work", subject, subjects[subject]) for subject in sorted(held - live)]
    known = live_kinds()
    strays = sorted(subject for subject in subjects if subject.partition(":")[0] not in known)
    found += [Difference("unknown-kind", subject, subjects[subject]) for subject in strays]
    sums: dict[int, int] = {}
    for allowance_id, amount in Hold.objects.values_list("allowance_id", "amount"):
        sums[allowance_id] = sums.get(allowance_id, 0) + amount
    for row in Allowance.objects.for_system():
        if row.held != sums.get(row.pk, 0):
            found.append(Difference("wrong-sum", f"tenant:{row.tenant_id} {row.pool}", row.held - sums.get(row.pk, 0)))
    return found
