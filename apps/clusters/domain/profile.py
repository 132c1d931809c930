"""What operators say of a cluster that no API tells: its networks, its scheduler, and what its nodes are for."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

LONGEST_NAME, LONGEST_NOTE = 40, 200
MOST_PLANES, MOST_POOLS = 6, 6
MOST_GBIT, MOST_MTU = 3200, 9600


class Fabric(StrEnum):
    """What carries collectives between nodes."""

    UNKNOWN = ""
    INFINIBAND = "infiniband"
    ROCE = "roce"
    ETHERNET = "ethernet"
    HCCS = "hccs"


class Scheduler(StrEnum):
    """One backend for each cluster; the portal's jobs go to Volcano."""

    VOLCANO = "volcano"


class Purpose(StrEnum):
    """What a network plane carries."""

    MANAGEMENT = "management"
    STORAGE = "storage"
    COMPUTE = "compute"
    SERVICE = "service"


class Role(StrEnum):
    """What a pool of nodes is for."""

    TRAINING = "training"
    INFERENCE = "inference"
    DATA = "data"
    STORAGE = "storage"
    MIXED = "mixed"


class Bad(ValueError):
    """What was said cannot be. `field` names a field, of rows as `planes.0.gbit`; `code` names a message."""

    def __init__(self, field: str, code: str, **params: str | int) -> None:
        super().__init__(f"{field}: {code}")
        self.field, self.code, self.params = field, code, params


@dataclass(frozen=True)
class Plane:
    """A network. `gbit` is the rate of one port in Gbit/s, 0 for not said; so is `mtu`, in bytes."""

    name: str
    purpose: Purpose
    gbit: int = 0
    mtu: int = 0
    cidr: str = ""


@dataclass(frozen=True)
class Pool:
    """Nodes for one purpose; `label` is `key=value`, which its nodes carry."""

    name: str
    role: Role
    label: str = ""


@dataclass(frozen=True)
class Profile:
    """`cni` names the pod network with its mode, `pod_mtu` is in bytes (0 for not said)."""

    fabric: Fabric = Fabric.UNKNOWN
    cni: str = ""
    pod_mtu: int = 0
    scheduler: Scheduler = Scheduler.VOLCANO
    note: str = ""
    planes: tuple[Plane, ...] = field(default=())
    pools: tuple[Pool, ...] = field(default=())

    def to_row(self) -> dict[str, Any]:
        row = asdict(self)
        return row | {"planes": list(row["planes"]), "pools": list(row["pools"])}


def read(document: object) -> Profile:
    """A profile from JSON. Raises Bad for the first thing that is wrong; what is not known is wrong too."""
    top = _table(document, "", {"fabric", "cni", "pod_mtu", "scheduler", "note", "planes", "pools"})
    planes = tuple(_plane(one, f"planes.{n}") for n, one in enumerate(_rows(top, "planes", MOST_PLANES)))
    pools = tuple(_pool(one, f"pools.{n}") for n, one in enumerate(_rows(top, "pools", MOST_POOLS)))
    for kind, names in (("planes", [one.name for one in planes]), ("pools", [one.name for one in pools])):
        for n, name in enumerate(names):
            if name in names[:n]:
                raise Bad(f"{kind}.{n}.name", "twice", name=name)
    return Profile(
        fabric=_choice(top, "fabric", Fabric, ""),
        cni=_line(top, "cni", "cni", LONGEST_NAME),
        pod_mtu=_number(top, "pod_mtu", "pod_mtu", MOST_MTU),
        scheduler=_choice(top, "scheduler", Scheduler, Scheduler.VOLCANO),
        note=_line(top, "note", "note", LONGEST_NOTE),
        planes=planes,
        pools=pools,
    )


def _plane(document: object, at: str) -> Plane:
    row = _table(document, at, {"name", "purpose", "gbit", "mtu", "cidr"})
    cidr = _line(row, "cidr", f"{at}.cidr", 50)
    try:
        cidr = str(ipaddress.ip_network(cidr)) if cidr else ""
    except ValueError:
        raise Bad(f"{at}.cidr", "cidr") from None
    return Plane(
        _name(row, at),
        _choice(row, "purpose", Purpose, "", f"{at}.purpose"),
        _number(row, "gbit", f"{at}.gbit", MOST_GBIT),
        _number(row, "mtu", f"{at}.mtu", MOST_MTU),
        cidr,
    )


def _pool(document: object, at: str) -> Pool:
    row = _table(document, at, {"name", "role", "label"})
    label = _line(row, "label", f"{at}.label", 130)
    key, equals, value = label.partition("=")
    if label and not (key and equals and value and " " not in label):
        raise Bad(f"{at}.label", "label")
    return Pool(_name(row, at), _choice(row, "role", Role, "", f"{at}.role"), label)


def _table(document: object, at: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise Bad(at, "table")
    if odd := sorted(str(key) for key in document if key not in known):
        raise Bad(f"{at}.{odd[0]}".lstrip("."), "unknown")
    return document


def _rows(table: Mapping[str, Any], name: str, most: int) -> list[Any]:
    rows = table.get(name, [])
    if not isinstance(rows, list) or len(rows) > most:
        raise Bad(name, "rows", maximum=most)
    return rows


def _name(row: Mapping[str, Any], at: str) -> str:
    name = _line(row, "name", f"{at}.name", LONGEST_NAME)
    if not name:
        raise Bad(f"{at}.name", "required")
    return name


def _line(table: Mapping[str, Any], name: str, at: str, longest: int) -> str:
    text = table.get(name, "")
    if not isinstance(text, str) or len(text.strip()) > longest or not text.isprintable():
        raise Bad(at, "line", maximum=longest)
    return text.strip()


def _number(table: Mapping[str, Any], name: str, at: str, most: int) -> int:
    number = table.get(name, 0)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        raise Bad(at, "number", maximum=most)
    return number


def _choice(table: Mapping[str, Any], name: str, kind: type[Any], default: str, at: str = "") -> Any:
    try:
        return kind(table.get(name, default))
    except ValueError:
        raise Bad(at or name, "choice") from None
