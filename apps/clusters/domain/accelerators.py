"""What is known of accelerators: which resource counts them, which label names them, what they have and are joined by.

The entries are data: `accelerators.yaml` ships some, operators add others. Nothing here knows a vendor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

LONGEST = 120
MOST_PATTERNS = 40
MOST_BYTES = 1 << 50
_UNITS = {"GB": 10**9, "GiB": 1 << 30, "MiB": 1 << 20}
_MEMORY = re.compile(r"(\d{1,6}) ?(GB|GiB|MiB)")
_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_PATTERN = re.compile(r"[A-Za-z0-9*._-]{1,253}/[A-Za-z0-9*._-]{1,63}")
_DOMAIN = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9._-]+")
_KUBERNETES = ("kubernetes.io/", "attachable-volumes-", "hugepages-", "requests.", "limits.")


class Counts(StrEnum):
    """What one unit of a resource is. Only the first three are accelerators that a pod can hold."""

    DEVICE = "device"
    SLICE = "slice"
    SHARE = "share"
    MEBIBYTES = "mebibytes"
    PERCENT = "percent"

    @property
    def is_accelerator(self) -> bool:
        return self in _ACCELERATORS


_ACCELERATORS = (Counts.DEVICE, Counts.SLICE, Counts.SHARE)


@dataclass(frozen=True)
class Link:
    """How the accelerators of a node reach each other, as their maker prints it.

    `unit` is GB/s or Gb/s; `direction` "one", or "both" where the two directions were added up; `peers` says over how
    many others the rate is divided: 1 behind a switch, 7 in a full mesh of eight.
    """

    name: str
    rate: float
    unit: str
    direction: str
    peers: int = 1
    source: str = ""

    @property
    def one_way(self) -> float:
        """GB/s out of one accelerator in one direction, to all of its peers together."""
        gigabytes = self.rate / 8 if self.unit == "Gb/s" else self.rate
        return gigabytes / 2 if self.direction == "both" else gigabytes

    @property
    def pair(self) -> float:
        """GB/s in one direction between two accelerators."""
        return self.one_way / self.peers


@dataclass(frozen=True)
class Accelerator:
    """One entry. `memory` is in bytes of one unit, None where it is not known."""

    slug: str
    name: str
    vendor: str
    counts: Counts
    resources: tuple[str, ...]
    label: str = ""
    products: tuple[str, ...] = ()
    memory: int | None = None
    memory_label: str = ""
    count_label: str = ""
    link: Link | None = None
    slices: bool = False
    """Whether it can be cut into slices."""
    driver_label: str = ""
    driver_floor: str = ""

    def product(self, labels: Mapping[str, str]) -> str:
        return labels.get(self.label, "") if self.label else ""

    def memory_on(self, labels: Mapping[str, str]) -> int | None:
        """Bytes of one on a node: what the node tells, else what is known of the product."""
        told = labels.get(self.memory_label, "") if self.memory_label else ""
        return (
            int(told) << 20 if told.isascii() and told.isdigit() and 0 < int(told) < MOST_BYTES >> 20 else self.memory
        )


class Wrong(ValueError):
    """An entry that cannot be: `field` names where, `why` is one of FAULTS."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


FAULTS = ("slug", "text", "pattern", "counts", "memory", "link", "unknown")


def read(slug: str, body: Mapping[str, Any]) -> Accelerator:
    """An entry from its data. Raises Wrong."""
    if not _SLUG.fullmatch(slug):
        raise Wrong("slug", "slug")
    if unknown := set(body) - _FIELDS:
        raise Wrong(sorted(map(str, unknown))[0][:LONGEST], "unknown")
    texts = {name: _text(body, name) for name in _TEXTS}
    if not texts["name"]:
        raise Wrong("name", "text")
    if body.get("counts") not in list(Counts):
        raise Wrong("counts", "counts")
    resources = _patterns(body, "resources")
    if not resources or not all(_PATTERN.fullmatch(one) for one in resources):
        raise Wrong("resources", "pattern")
    return Accelerator(
        slug=slug,
        counts=Counts(body["counts"]),
        resources=resources,
        products=_patterns(body, "products"),
        memory=memory(body.get("memory")),
        link=_link(body.get("link")),
        slices=bool(body.get("slices", False)),
        **texts,
    )


_TEXTS = ("name", "vendor", "label", "memory_label", "count_label", "driver_label", "driver_floor")
_FIELDS = {*_TEXTS, "counts", "resources", "products", "memory", "link", "slices"}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        raise Wrong(name, "text")
    return value.strip()


def _patterns(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = body.get(name) or []
    good = isinstance(found, list | tuple) and len(found) <= MOST_PATTERNS
    if not good or not all(isinstance(one, str) and 0 < len(one) <= LONGEST and one.isprintable() for one in found):
        raise Wrong(name, "pattern")
    return tuple(found)


def memory(value: object) -> int | None:
    """Bytes of `80 GiB`, `24 GB` or a number of bytes; None for nothing. Raises Wrong."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_BYTES:
        return value
    found = _MEMORY.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not int(found[1]):
        raise Wrong("memory", "memory")
    return int(found[1]) * _UNITS[found[2]]


def memory_text(value: int | None) -> str:
    """Bytes as memory() reads them."""
    for unit in ("GiB", "GB", "MiB"):
        if value and value % _UNITS[unit] == 0:
            return f"{value // _UNITS[unit]} {unit}"
    return ""


def _link(value: object) -> Link | None:
    if not value:
        return None
    if not isinstance(value, Mapping) or not {"name", "rate", "unit", "direction"} <= set(value):
        raise Wrong("link", "link")
    rate, peers = value["rate"], value.get("peers", 1)
    good = isinstance(rate, int | float) and 0 < rate < 10**6 and isinstance(peers, int) and 0 < peers < 1000
    if not good or value["unit"] not in ("GB/s", "Gb/s") or value["direction"] not in ("one", "both"):
        raise Wrong("link", "link")
    return Link(_text(value, "name"), float(rate), value["unit"], value["direction"], peers, _text(value, "source"))


@dataclass(frozen=True)
class Catalogue:
    """Entries in order: where several fit equally well, the first one counts."""

    entries: tuple[Accelerator, ...]
    default: str = ""
    """The resource that is meant where nobody says which."""
    _known: dict[str, list[Accelerator]] = field(default_factory=dict, compare=False, repr=False)
    """What was found, as thousands of nodes have the same few resources."""

    def known(self, resource: str) -> list[Accelerator]:
        """The entries whose pattern fits the resource best."""
        if resource not in self._known:
            fitting = [(_closeness(one, resource), one) for one in self.entries]
            best = max((closeness for closeness, _one in fitting), default=0)
            self._known[resource] = [one for closeness, one in fitting if closeness == best] if best else []
        return self._known[resource]

    def find(self, resource: str, labels: Mapping[str, str]) -> Accelerator | None:
        """What a resource counts on a node with these labels; None if nobody knows it."""
        known = self.known(resource)
        named = [one for one in known if one.products and _is_product(one, labels)]
        if named:
            return named[0]
        return next((one for one in known if not one.products), None) or next(iter(known), None)

    def label_names(self) -> frozenset[str]:
        """The labels that entries look at."""
        fields = ((one.label, one.memory_label, one.count_label, one.driver_label) for one in self.entries)
        return frozenset(name for names in fields for name in names if name)


def _closeness(entry: Accelerator, resource: str) -> int:
    """How closely an entry's patterns fit: an exact name above all, then the most letters; 0 for none."""
    best = 0
    for pattern in entry.resources:
        if pattern == resource:
            return 1000
        if "*" in pattern and fnmatchcase(resource, pattern):
            best = max(best, len(pattern.replace("*", "")))
    return best


def _is_product(entry: Accelerator, labels: Mapping[str, str]) -> bool:
    value = plain(entry.product(labels))
    return bool(value) and any(fnmatchcase(value, plain(pattern)) for pattern in entry.products)


def plain(product: str) -> str:
    """A product's name as it is compared: label values cannot hold spaces, so others write `-` or `_` for them."""
    return re.sub(r"[\s_]+", "-", product.strip()).lower()


def is_extended(resource: str) -> bool:
    """Whether a node's resource is of somebody else than Kubernetes."""
    return bool(_DOMAIN.fullmatch(resource)) and not any(mark in resource for mark in _KUBERNETES)


def merge(shipped: Iterable[Accelerator], added: Iterable[Accelerator], default: str) -> Catalogue:
    """Both together; an added entry stands before, and in the place of a shipped one with its slug."""
    own = {one.slug: one for one in added}
    return Catalogue((*own.values(), *(one for one in shipped if one.slug not in own)), default)
