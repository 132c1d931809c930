"""What other apps may do with clusters. Safe for web processes: no SDK comes along (see `connect` for that)."""

from apps.clusters.domain.capacity import Capacity, NodeSpace, ProductSpace, capacity_of
from apps.clusters.models import Cluster
from apps.clusters.services.figures import pool_figures
from apps.clusters.services.lookout import due, look
from apps.clusters.services.registration import Registration, register_cluster
from apps.clusters.services.registry import (
    ParsedLine,
    PodEnd,
    WorkloadKind,
    WorkloadObject,
    due_sweeps,
    register_due,
    register_workload,
    workloads,
)
from apps.clusters.services.seen import (
    capacity,
    for_system,
    may_follow_cluster,
    nodes,
    note_answer,
    note_nodes,
    note_silence,
    visible_to,
)

__all__ = [
    "Capacity",
    "Cluster",
    "NodeSpace",
    "ParsedLine",
    "PodEnd",
    "ProductSpace",
    "Registration",
    "WorkloadKind",
    "WorkloadObject",
    "capacity",
    "capacity_of",
    "due",
    "due_sweeps",
    "for_system",
    "look",
    "may_follow_cluster",
    "nodes",
    "note_answer",
    "note_nodes",
    "note_silence",
    "pool_figures",
    "register_cluster",
    "register_due",
    "register_workload",
    "visible_to",
    "workloads",
]
