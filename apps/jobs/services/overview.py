"""What pages show beside the jobs themselves: GPUs in use, what needs a person, what a draft comes to."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from apps.accounts.types import Actor
from apps.clusters import services as clusters
from apps.jobs.domain.fields import Value
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.problems import Problem
from apps.jobs.domain.spec import LATER_FIELDS, fields_of, read_fields
from apps.jobs.domain.templates import TEMPLATES, Container
from apps.jobs.models import Draft, Job, JobPhase
from apps.jobs.services.drafts import problems_of
from apps.jobs.services.reading import Progress
from apps.quotas import services as quotas
from apps.streams import services as streams
from apps.tenants import services as tenants

MOST_TENANTS = 50


@dataclass(frozen=True)
class Use:
    """A tenant's GPUs in a cluster: what its quota says, and how many of its jobs run and wait."""

    place: tenants.Placement
    quota: quotas.Use
    running: int
    waiting: int

    @property
    def used(self) -> int:
        """GPUs that work of the tenant has now."""
        return self.quota.used

    @property
    def held(self) -> int:
        """The same with those kept for work that has none yet."""
        return self.quota.held

    @property
    def limit(self) -> int:
        return self.quota.limit

    @property
    def left(self) -> int:
        return self.quota.left


def use_of(tenant_ids: Iterable[int]) -> list[Use]:
    """The use of each of these tenants that has a place, by tenant, in a fixed number of queries."""
    return _use(tenants.placements_of(list(tenant_ids)))


def use_seen(actor: Actor, slug: str = "") -> list[Use]:
    """The same of the tenants an actor may see, or of the one named."""
    places = tenants.Placement.objects.visible_to(actor).standing()
    places = places.select_related("tenant", "cluster").order_by("tenant__slug", "pk")
    return _use(list(places.filter(tenant__slug=slug) if slug else places)[:MOST_TENANTS])


def _use(places: list[tenants.Placement]) -> list[Use]:
    unfinished = Job.objects.for_system().unfinished().filter(placement__in=places)
    rows = unfinished.values("placement_id").annotate(
        running=Count("id", filter=Q(phase=Phase.RUNNING)),
        waiting=Count("id", filter=Q(phase__in=(Phase.SUBMITTED, Phase.WAITING))),
    )
    counted = {row["placement_id"]: (row["running"], row["waiting"]) for row in rows}
    known = {(use.tenant_id, use.pool): use for use in quotas.uses({place.tenant_id for place in places})}
    return [
        Use(
            place,
            known.get((place.tenant_id, place.pool)) or quotas.use(place.tenant_id, place.pool),
            *counted.get(place.pk, (0, 0)),
        )
        for place in places
    ]


@dataclass(frozen=True)
class Room:
    """What is free in a cluster, counted in accelerators as last seen, whoever may have it."""

    cluster: clusters.Cluster
    nodes: list[clusters.NodeSpace]

    @property
    def capacity(self) -> clusters.Capacity:
        return clusters.capacity_of(self.nodes)

    @property
    def free(self) -> int:
        return sum(node.free for node in self.nodes)

    @property
    def product(self) -> str:
        """What its accelerators are called, where all are of one kind."""
        names = {product.product for product in self.capacity.products}
        return names.pop() if len(names) == 1 else ""

    def ranks(self, gpus_per_rank: int) -> int:
        """How many ranks of this size would find a place at once."""
        return sum(node.free // gpus_per_rank for node in self.nodes)


def rooms_of(uses: list[Use]) -> list[Room]:
    """The clusters of these places that answer and whose nodes were seen, in one query each."""
    seen = {use.place.cluster_id: use.place.cluster for use in uses if not use.place.cluster.unreachable_since}
    rooms = [Room(cluster, clusters.nodes(cluster)) for cluster in seen.values()]
    return [room for room in rooms if room.capacity.nodes]


@dataclass(frozen=True)
class Chance:
    """What could start at once in a cluster: it takes both, a quota and room. `use` is the one with the most left of
    those a person sees there."""

    use: Use
    room: Room

    @property
    def gpus(self) -> int:
        """The largest job that would start now, if its ranks fit into the pieces."""
        return min(self.use.left, self.room.free)

    @property
    def by_quota(self) -> bool:
        """Whether the quota is what limits it, not the cluster."""
        return self.use.left <= self.room.free


def chances_of(uses: list[Use]) -> list[Chance]:
    """What could start in each of the clusters that answer and in which somebody has a quota, the largest first."""
    best: dict[int, Use] = {}
    uses = [use for use in uses if use.limit]
    for use in sorted(uses, key=lambda use: -use.left):
        best.setdefault(use.place.cluster_id, use)
    found = [Chance(best[room.cluster.pk], room) for room in rooms_of(uses)]
    return sorted(found, key=lambda chance: -chance.gpus)


RECENT = timedelta(days=3)
STRANDED = timedelta(minutes=5)
"""Ranks of a gang get their nodes within moments of each other; what lasts longer needs somebody."""
NEVER = ("waiting.queue-never", "waiting.fleet-never", "waiting.node-never")


def stuck_jobs(actor: Actor) -> QuerySet[Job]:
    """A person's own jobs that need a hand: failed within three days and not cloned since, with an image that cannot be
    pulled, that cannot start as they are, or whose ranks have waited for each other for some minutes."""
    cloned = Job.objects.for_system().filter(cloned_from=OuterRef("pk"))
    failed = Q(phase=Phase.FAILED, ended_at__gt=timezone.now() - RECENT) & ~Exists(cloned)
    unpulled = Q(phase=Phase.STARTING, reason="starting.image")
    hopeless = Q(phase=Phase.WAITING, reason__in=NEVER)
    starting = JobPhase.objects.filter(job=OuterRef("pk"), phase=Phase.STARTING, attempt=OuterRef("attempt"))
    long = Q(Exists(starting.filter(at__lt=timezone.now() - STRANDED)))
    stranded = long & Q(phase=Phase.STARTING, reason="starting.stranded")
    stuck = failed | unpulled | hopeless | stranded
    own = Job.objects.visible_to(actor).filter(stuck, owner_id=uuid.UUID(actor.user_pk))
    return own.select_related("tenant", "placement__cluster").order_by("-id")


@dataclass(frozen=True)
class Going:
    """How a job comes along: its progress, its last losses, and when it will be ready at the pace of its last steps."""

    progress: Progress
    losses: list[float]
    ready: datetime | None


def going_of(jobs: list[Job]) -> dict[str, Going]:
    """How some jobs come along, by job id, in one query for all of them."""
    points = streams.recent([job.topic for job in jobs], "loss")
    found = {}
    for job in jobs:
        last, total = points.get(job.topic, []), job.spec.total_steps
        newest = last[-1] if last else None
        progress = Progress(
            newest.step if newest else None, total, newest.value if newest else None, newest.at if newest else None
        )
        found[job.pk] = Going(progress, [point.value for point in last], _ready(job, last, total))
    return found


def _ready(job: Job, points: list[streams.LastPoint], total: int | None) -> datetime | None:
    if job.phase != Phase.RUNNING or total is None or len(points) < 2 or points[-1].attempt != job.attempt:
        return None
    first, last = points[0], points[-1]
    seconds, steps = (last.at - first.at).total_seconds(), last.step - first.step
    if seconds <= 0 or steps <= 0:
        return None
    left = timedelta(seconds=min(seconds / steps * max(0, total - last.step), 10 * 365 * 86400))
    ready = last.at + left
    return ready if ready > timezone.now() else None  # it has fallen behind its pace: nobody knows


@dataclass(frozen=True)
class Plan:
    """What a draft comes to so far. `gpus` is None while its sizes cannot be read, `container` while its parameters
    cannot; `use` is None while the tenant has no place, `room` while nothing is known of the cluster's nodes.
    `problems` are those of each step."""

    ranks: int | None
    gpus_per_rank: int | None
    container: Container | None
    use: Use | None
    room: Room | None
    problems: dict[str, list[Problem]]

    @property
    def gpus(self) -> int | None:
        return None if self.ranks is None or self.gpus_per_rank is None else self.ranks * self.gpus_per_rank

    @property
    def placeable(self) -> int | None:
        """How many of its ranks would find room on nodes now."""
        return None if self.room is None or not self.gpus_per_rank else self.room.ranks(self.gpus_per_rank)

    @property
    def verdict(self) -> str:
        """Which of the panel's sentences holds."""
        if self.use is None:
            return "no-place"
        if self.gpus is None or self.ranks is None:
            return "unreadable"
        if self.gpus > self.use.limit:
            return "never"
        if self.gpus > self.use.left:
            return "no-room"
        if self.placeable is None:
            return "within-limit"
        return "fits" if self.placeable >= self.ranks else "nodes-full"

    @property
    def count(self) -> int:
        return sum(map(len, self.problems.values()))


def plan_of(draft: Draft) -> Plan:
    """Read as much of a draft as can be read."""
    template = TEMPLATES[draft.document["template"]]
    values, _problems = read_fields(fields_of(template), draft.document)
    container = template.build(values) if all(key in values for key in template.fields) else None
    problems: dict[str, list[Problem]] = {"data": [], "size": []}
    for problem in problems_of(draft):
        problems[step_of(problem.field)].append(problem)
    uses = use_of([draft.tenant_id])[:1]
    return Plan(
        _whole(values.get("ranks")),
        _whole(values.get("gpus_per_rank")),
        container,
        next(iter(uses), None),
        next(iter(rooms_of(uses)), None),
        problems,
    )


def step_of(field: str) -> str:
    """The wizard's step that asks for a field."""
    return "size" if field in LATER_FIELDS else "data"


def _whole(value: Value | None) -> int | None:
    return value if isinstance(value, int) else None
