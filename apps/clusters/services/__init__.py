"""What other apps may do with clusters. Safe for web processes: no SDK comes along (see `connect` for that)."""

from apps.clusters.domain.capacity import Capacity, NodeSpace, ProductSpace, capacity_of
from apps.clusters.domain.pending import Account, Code, Finding, Gang, Line, Obstacle
from apps.clusters.models import Cluster
from apps.clusters.services.checking import due_clusters
from apps.clusters.services.entering import (
    CHECK,
    Access,
    NameTaken,
    NotKept,
    check_again,
    due_entries,
    enter,
    renew,
)
from apps.clusters.services.figures import pool_figures
from apps.clusters.services.gateway import Published, Verdict, judge_published, refresh_gateway, register_published
from apps.clusters.services.lines import read_lines
from apps.clusters.services.lookout import due, look, waiting
from apps.clusters.services.maintenance import (
    Closed,
    Maintenance,
    begin_maintenance,
    closed_text,
    end_maintenance,
    require_open,
)
from apps.clusters.services.nodehistory import NodeMoment, history_of
from apps.clusters.services.pending import obstacles
from apps.clusters.services.profiling import describe
from apps.clusters.services.registration import TEND, Registration, register_cluster
from apps.clusters.services.registry import (
    PodEnd,
    PodEventSeen,
    PodReason,
    PodSeen,
    WorkloadKind,
    WorkloadObject,
    due_sweeps,
    first_sweeps,
    register_due,
    register_workload,
    workloads,
)
from apps.clusters.services.removal import (
    Occupant,
    Occupied,
    WrongName,
    occupants_of,
    register_occupants,
    remove,
)
from apps.clusters.services.seen import (
    capacity,
    for_system,
    is_silent,
    may_follow_cluster,
    nodes,
    note_answer,
    note_nodes,
    note_silence,
    visible_to,
)

__all__ = [
    "CHECK",
    "TEND",
    "Access",
    "Account",
    "Capacity",
    "Closed",
    "Cluster",
    "Code",
    "Finding",
    "Gang",
    "Line",
    "Maintenance",
    "NameTaken",
    "NodeMoment",
    "NodeSpace",
    "NotKept",
    "Obstacle",
    "Occupant",
    "Occupied",
    "PodEnd",
    "PodEventSeen",
    "PodReason",
    "PodSeen",
    "ProductSpace",
    "Published",
    "Registration",
    "Verdict",
    "WorkloadKind",
    "WorkloadObject",
    "WrongName",
    "begin_maintenance",
    "capacity",
    "capacity_of",
    "check_again",
    "closed_text",
    "describe",
    "due",
    "due_clusters",
    "due_entries",
    "due_sweeps",
    "end_maintenance",
    "enter",
    "first_sweeps",
    "for_system",
    "history_of",
    "is_silent",
    "judge_published",
    "look",
    "may_follow_cluster",
    "nodes",
    "note_answer",
    "note_nodes",
    "note_silence",
    "obstacles",
    "occupants_of",
    "pool_figures",
    "read_lines",
    "refresh_gateway",
    "register_cluster",
    "register_due",
    "register_occupants",
    "register_published",
    "register_workload",
    "remove",
    "renew",
    "require_open",
    "visible_to",
    "waiting",
    "workloads",
]
