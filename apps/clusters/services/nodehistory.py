"""What befell nodes: what the portal saw change in them, and what the cluster said of them. Kept for a week."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.clusters.domain.nodes import Problem
from apps.clusters.models import NodeEvent
from apps.clusters.services.nodewords import EVENTS

SEEN = "portal/"
"""Begins the reason of what the portal saw itself; behind it stands the problem, or one of these."""
WELL, GONE = "well", "gone"
_WORDS: Mapping[str, tuple[str, Promise]] = {
    WELL: ("green", _("It is well again")),
    GONE: ("red", _("It is gone from the cluster")),
    Problem.SILENT: ("red", _("Its kubelet fell silent")),
    Problem.NOT_READY: ("red", _("It stopped being ready")),
    Problem.CONDITION: ("red", _("It reports a condition that hurts what runs on it")),
    Problem.DEVICES: ("red", _("It offers fewer accelerators than the machine has")),
    Problem.CORDONED: ("amber", _("It was cordoned")),
    Problem.TAINTED: ("amber", _("A taint keeps work away from it")),
    Problem.OLD_DRIVER: ("grey", _("Its driver is older than its accelerators' images need")),
}
_TWINS: Mapping[str, tuple[str, ...]] = {
    "NodeReady": (WELL,),
    "NodeSchedulable": (WELL,),
    "NodeNotReady": (Problem.NOT_READY, Problem.SILENT),
    "NodeNotSchedulable": (Problem.CORDONED,),
    "RemovingNode": (GONE,),
}
_TWIN_SPAN = timedelta(minutes=3)


@dataclass(frozen=True)
class NodeMoment:
    """`text` says it in words; never in those of the cluster, which may name the work of others."""

    at: datetime
    node: str
    tone: str
    text: str


def note_turns(cluster_id: int, turns: Mapping[str, str]) -> None:
    """Nodes were seen to change: each with its problem now, "" for none, or GONE."""
    now = timezone.now()
    NodeEvent.objects.bulk_create(
        NodeEvent(
            cluster_id=cluster_id,
            node=node,
            key=zlib.crc32(f"{what}\0{now.isoformat()}".encode()),
            reason=f"{SEEN}{what or WELL}",
            is_warning=_WORDS.get(what or WELL, ("grey", ""))[0] == "red",
            at=now,
        )
        for node, what in turns.items()
    )


def history_of(cluster_id: int, nodes: Collection[str], since: datetime, until: datetime) -> list[NodeMoment]:
    """What befell some nodes in between, oldest first. What both the cluster and the portal tell is told once."""
    told = NodeEvent.objects.filter(cluster_id=cluster_id, node__in=nodes, at__range=(since, until))
    rows = list(told.order_by("at", "pk"))
    seen = {(row.node, row.reason.removeprefix(SEEN)): row.at for row in rows if row.reason.startswith(SEEN)}

    def is_told(row: NodeEvent) -> bool:
        twins = (seen.get((row.node, twin)) for twin in _TWINS.get(row.reason, ()))
        return any(at is not None and abs(row.at - at) < _TWIN_SPAN for at in twins)

    found = []
    for row in rows:
        if row.reason.startswith(SEEN):
            tone, text = _WORDS.get(row.reason.removeprefix(SEEN), ("grey", row.reason))
        elif is_told(row) or not (row.is_warning or row.reason in EVENTS):
            continue
        else:
            tone, text = "amber" if row.is_warning else "grey", EVENTS.get(row.reason, row.reason)
        found.append(NodeMoment(row.at, row.node, tone, str(text)))
    return found
