"""Tenants' places in clusters: asked for, decided, made, compared, restored, taken away."""

from apps.tenants.models import Placement, TenantRequest
from apps.tenants.services.leaving import Blocked, Blocker, WrongName, blockers_of, register_blocker, remove
from apps.tenants.services.placing import (
    TASK,
    NotStanding,
    ask_placement,
    due_placements,
    follow_limit,
    look_again,
    may_follow_tenant,
    place_of,
    placement_of,
    placements_of,
    reach,
    restore,
)
from apps.tenants.services.requests import (
    AlreadyDecided,
    Asked,
    Decision,
    SlugTaken,
    ask_tenant,
    decide,
    impact_of,
    may_follow_request,
)
from apps.tenants.services.waiting import waiting

__all__ = [
    "TASK",
    "AlreadyDecided",
    "Asked",
    "Blocked",
    "Blocker",
    "Decision",
    "NotStanding",
    "Placement",
    "SlugTaken",
    "TenantRequest",
    "WrongName",
    "ask_placement",
    "ask_tenant",
    "blockers_of",
    "decide",
    "due_placements",
    "follow_limit",
    "impact_of",
    "look_again",
    "may_follow_request",
    "may_follow_tenant",
    "place_of",
    "placement_of",
    "placements_of",
    "reach",
    "register_blocker",
    "remove",
    "restore",
    "waiting",
]
