"""Who may do what with the fleet: everybody in a tenant or on the platform looks, operators keep the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.clusters.models import AcceleratorEntry, ClusterNode
from tests.access import Objects
from tests.factories import World

#                                                 anon nobody view  sci  adm   aud  oper stranger
LOOK = "                                          302  403   200   200  200   200  200  200"
KEEP = "                                          302  403   403   403  403   403  200  403"
LINES: dict[tuple[str, str], str] = {
    ("fleet:overview", "GET"): LOOK,
    ("fleet:nodes", "GET"): LOOK,
    ("fleet:node", "GET"): "                      302  404   200   200  200   200  200  200",
    ("fleet:queues", "GET"): "                    302  404   200   200  200   200  200  200",
    ("fleet:accelerators", "GET"): LOOK,
    ("fleet:accelerator-new", "GET"): KEEP,
    ("fleet:accelerator-new", "POST"): "          302  403   403   403  403   403  302  403",
    ("fleet:accelerator", "GET"): KEEP,
    ("fleet:accelerator", "POST"): "              302  403   403   403  403   403  302  403",
    ("fleet:accelerator-remove", "POST"): "       302  403   403   403  403   403  302  403",
    ("api:fleet", "GET"): "                       401  403   200   200  200   200  200  200",
    ("api:cluster-queues", "GET"): "              401  404   200   200  200   200  200  200",
    ("api:nodes", "GET"): "                       401  403   200   200  200   200  200  200",
    ("api:accelerators", "GET"): "                401  403   200   200  200   200  200  200",
    ("api:accelerator", "PUT"): "                 401  403   403   403  403   403  400  403",
    ("api:accelerator", "DELETE"): "              401  403   403   403  403   403  204  403",
}

ENTRY = {"name": "Next", "counts": "device", "resources": ["next.example/gpu"]}


def objects(world: World) -> dict[str, Any]:
    cluster = world.place.cluster
    node = ClusterNode.objects.create(cluster=cluster, name="gpu-0001", resource="x", total=8, ready=True)
    return {"node": node, "accelerator_entry": AcceleratorEntry.objects.create(slug="next", body=ENTRY)}


def _entry(made: Objects) -> list[Any]:
    return [made["accelerator_entry"].pk]


ARGS: dict[str, Callable[[Objects], list[Any]]] = {
    "fleet:node": lambda made: [made["node"].cluster.slug, made["node"].name],
    "fleet:queues": lambda made: [made["node"].cluster.slug],
    "api:cluster-queues": lambda made: [made["node"].cluster.slug],
    "fleet:accelerator": _entry,
    "fleet:accelerator-remove": _entry,
    "api:accelerator": _entry,
}


def _form(_made: Objects) -> dict[str, Any]:
    return {"slug": "more", "name": "More", "counts": "device", "resources": "more.example/gpu"}


BODIES: dict[str, Callable[[Objects], dict[str, Any]]] = {"fleet:accelerator-new": _form, "fleet:accelerator": _form}
