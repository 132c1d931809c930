"""The marketplace: models by what people look for, with counts beside each filter, and where they fit now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from django.db.models import Count, Q

from apps.accounts.types import Actor
from apps.catalog.domain.fit import FreeNode, Places, places
from apps.catalog.domain.stages import Stage
from apps.catalog.models import ModelVersion, RegisteredModel, RegisteredModelQuerySet
from apps.catalog.services.uses import uses_of
from apps.clusters import services as clusters
from apps.clusters.services import Cluster

PAGE = 24
FACETS = {"stage": "stage", "licence": "licence", "format": "format", "tenant": "tenant__slug"}
MOST_CHOICES = 12


@dataclass(frozen=True)
class Wanted:
    """What somebody looks for; "" filters nothing. Withdrawn models are shown only to who asks for them."""

    q: str = ""
    stage: str = ""
    licence: str = ""
    format: str = ""
    tenant: str = ""

    @classmethod
    def read(cls, asked: Mapping[str, str]) -> Wanted:
        """From an address: anything may stand in it."""
        texts = {name: asked.get(name, "")[:80] for name in ("q", *FACETS)}
        return cls(**{name: "".join(c for c in text if c.isprintable()) for name, text in texts.items()})

    @property
    def filtered(self) -> bool:
        return any(vars(self).values())


@dataclass(frozen=True)
class Choice:
    """One value of a filter: how many models have it, given the other filters. `name` is a tenant's own."""

    value: str
    count: int
    name: str = ""


@dataclass(frozen=True)
class Offer:
    """A model as a card shows it; `uses` counts what is alive of it, whoever's it is."""

    model: RegisteredModel
    uses: int = 0
    places: list[Places] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        return any(one.places for one in self.places)

    @property
    def best(self) -> Places | None:
        return self.places[0] if self.places else None


def found_for(actor: Actor, wanted: Wanted) -> RegisteredModelQuerySet:
    """The models that an actor may see and that are as wanted."""
    found = RegisteredModel.objects.visible_to(actor)
    for name, column in FACETS.items():
        if value := getattr(wanted, name):
            found = found.filter(**{column: value})
    if not wanted.stage:
        found = found.exclude(stage=Stage.WITHDRAWN)
    for word in wanted.q.split()[:6]:
        # Substrings, so that Chinese is found too: it has no spaces between words.
        tags = Q(tags__icontains=word)
        found = found.filter(Q(name__icontains=word) | tags | Q(card__icontains=word) | Q(licence__icontains=word))
    return found


def facets(actor: Actor, wanted: Wanted) -> dict[str, list[Choice]]:
    """The choices of each filter, counted under the other filters."""
    found = {}
    for name, column in FACETS.items():
        rows = found_for(actor, replace(wanted, **{name: ""})).order_by().exclude(**{column: ""})
        word = "tenant__name" if name == "tenant" else column
        counted = rows.values_list(column, word).annotate(n=Count("pk")).order_by("-n", column)
        found[name] = [Choice(str(value), n, str(told)) for value, told, n in counted[:MOST_CHOICES]]
    return found


def free_nodes(actor: Actor) -> tuple[list[Cluster], list[FreeNode]]:
    """The clusters an actor may see, and what is free on the nodes of those that answer."""
    seen = list(clusters.visible_to(actor))
    answering = [cluster for cluster in seen if cluster.unreachable_since is None]
    return seen, [
        FreeNode(cluster.name, node.product, node.free, node.device_memory)
        for cluster in answering
        for node in clusters.nodes(cluster)
        if node.total
    ]


def offers(models: Iterable[RegisteredModel], nodes: list[FreeNode]) -> list[Offer]:
    """Models as cards show them, with two queries and one for each kind of use."""
    models = list(models)
    versions = ModelVersion.objects.for_system().filter(model__in=models).values_list("pk", "model_id")
    owner: dict[str, str] = dict(versions)
    counts: dict[str, int] = {}
    for use in uses_of(set(owner)) if owner else []:
        model_id = owner.get(use.version_id, "")
        counts[model_id] = counts.get(model_id, 0) + 1
    return [Offer(model, counts.get(model.pk, 0), places(model.weight_bytes, nodes)) for model in models]
