"""The catalogue of accelerators: what the release ships, and what operators add or change."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.audit.services import action, record, use_case
from apps.clusters.domain import accelerators
from apps.clusters.domain.accelerators import Accelerator, Catalogue, Wrong
from apps.clusters.models import AcceleratorEntry

SHIPPED = Path(__file__).parent.parent / "accelerators.yaml"

SAVED = action(
    "accelerator.saved", _("{actor} changed the accelerator {name} ({slug})"), name=_("Change the catalogue")
)
REMOVED = action(
    "accelerator.removed",
    _("{actor} removed the accelerator {slug} from the catalogue"),
    name=_("Remove from the catalogue"),
)

FAULTS: dict[str, Promise] = {
    "slug": _("Use lower-case letters, digits and hyphens, at most 40."),
    "text": _("Fill this in, in at most 120 characters."),
    "pattern": _("Give names as nodes offer them, domain/name, one a line; * stands for any text."),
    "counts": _("Choose what one of it is."),
    "memory": _("Give it as 80 GiB or 24 GB, or leave it empty."),
    "link": _("Give the link's name, its rate, GB/s or Gb/s, and whether that is one direction or both."),
    "unknown": _("The catalogue has no such field."),
}


@functools.cache
def _shipped() -> tuple[tuple[Accelerator, ...], str]:
    document = yaml.safe_load(SHIPPED.read_text())
    entries = (accelerators.read(slug, body) for slug, body in document["accelerators"].items())
    return tuple(entries), document["default"]


def added_slugs() -> frozenset[str]:
    """The entries that operators added or changed."""
    return frozenset(AcceleratorEntry.objects.values_list("slug", flat=True))


def default_resource() -> str:
    """The resource that is meant where nobody says which."""
    return _shipped()[1]


def catalogue() -> Catalogue:
    """Both together, in one query."""
    shipped, default = _shipped()
    return accelerators.merge(shipped, _added(AcceleratorEntry.objects.all()), default)


def _added(rows: Iterable[AcceleratorEntry]) -> list[Accelerator]:
    return [accelerators.read(row.slug, row.body) for row in rows]


@use_case(SAVED)
def save_accelerator(actor: Actor, slug: str, body: Mapping[str, Any]) -> Accelerator:
    """Add an entry or change one. Nodes are read anew by it within a minute. Raises Wrong."""
    actor.require(Permission.CLUSTER_REGISTER, target="accelerators")
    entry = accelerators.read(slug, body)
    values = {"body": dict(body), "changed_by_id": actor.user_pk or None}
    AcceleratorEntry.objects.update_or_create(slug=slug, defaults=values)
    record(SAVED, actor, f"accelerator:{slug}", name=entry.name, slug=slug)
    return entry


@use_case(REMOVED)
def remove_accelerator(actor: Actor, slug: str) -> bool:
    """Take an operator's entry away; a shipped one of that name counts again. False if there was none."""
    actor.require(Permission.CLUSTER_REGISTER, target="accelerators")
    found, _rows = AcceleratorEntry.objects.filter(slug=slug).delete()
    if found:
        record(REMOVED, actor, f"accelerator:{slug}", slug=slug)
    return bool(found)


def body_of(entry: Accelerator) -> dict[str, Any]:
    """An entry as data again."""
    link = entry.link
    body: dict[str, Any] = {
        "name": entry.name,
        "vendor": entry.vendor,
        "counts": entry.counts.value,
        "resources": list(entry.resources),
        "label": entry.label,
        "products": list(entry.products),
        "memory": entry.memory,
        "memory_label": entry.memory_label,
        "count_label": entry.count_label,
        "slices": entry.slices,
        "driver_label": entry.driver_label,
        "driver_floor": entry.driver_floor,
        "link": None,
    }
    if link is not None:
        body["link"] = {
            "name": link.name, "rate": link.rate, "unit": link.unit, "direction": link.direction, "peers": link.peers,
            "source": link.source,
        }  # fmt: skip
    return body


__all__ = [
    "FAULTS", "REMOVED", "SAVED", "Accelerator", "Catalogue", "Wrong", "added_slugs", "body_of", "catalogue",
    "default_resource", "remove_accelerator", "save_accelerator",
]  # fmt: skip
