"""What the steps and states of a place are called, and why each object is there."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.tenants.domain import drift
from apps.tenants.models import Placement, TenantRequest

Look = tuple[str, str, Promise]
"""Tone, icon and word of a state."""

STEPS: dict[str, tuple[Promise, Promise]] = {
    "namespace": (
        _("Namespace"),
        _("Keeps the team's objects apart. Pods that ask for rights over their node are refused (baseline)."),
    ),
    "quota": (_("Resource quota"), _("No more GPUs than the team's limit, whoever makes the pods.")),
    "defaults": (_("Limit range"), _("Processors and memory for containers that say nothing, and bounds for all.")),
    "network-deny": (_("Network: closed"), _("Nothing in, nothing out, unless it is let through.")),
    "network-allow": (_("Network: let through"), _("What the team's pods may reach; in words on this page.")),
    "account": (_("Service account"), _("What pods run as. They get no token.")),
    "role": (_("Role"), _("To look at jobs, pods and logs; not at secrets, and nothing can be changed.")),
    "binding": (_("Role binding"), _("Gives that role to the team's groups, for kubectl, and to the service account.")),
    "portal-account": (
        _("Portal's account"),
        _("What the portal speaks as when it works for the team. It has no rights in the place of any other."),
    ),
    "portal-binding": (
        _("Portal's rights"),
        _("Lets that account make, change and delete the team's jobs, deployments, volumes and secrets, here only."),
    ),
    "queue": (_("Volcano queue"), _("Jobs wait here and start together, up to the team's limit of GPUs.")),
    "work": (_("Work ends"), _("Nothing of the team may be running or deployed.")),
    "close": (_("Queue is closed"), _("Nothing more is let in.")),
    "delete-queue": (_("Queue is deleted"), _("Its limit is free for others.")),
    "delete-namespace": (
        _("Namespace is deleted"),
        _("With everything in it: pods, volumes with checkpoints, secrets, policies, accounts."),
    ),
}
"""Title and purpose of each step."""

FOUND: dict[str, Look] = {
    drift.APPLIED: ("green", "check", _("As it should be")),
    drift.MISSING: ("red", "circle-minus", _("Missing")),
    drift.DRIFTED: ("amber", "alert-triangle", _("Changed")),
    drift.REFUSED: ("red", "ban", _("Refused by the cluster")),
    drift.TAKEN: ("red", "alert-triangle", _("Name taken")),
    drift.WAITING: ("blue", "hourglass", _("Waiting")),
    drift.DONE: ("outline", "check", _("Done")),
}

PLACES: dict[str, Look] = {
    Placement.State.ASKED: ("blue", "loader-2", _("Being prepared")),
    Placement.State.READY: ("green", "check", _("Ready")),
    Placement.State.FAILED: ("red", "alert-triangle", _("Needs a hand")),
    Placement.State.LEAVING: ("violet", "loader-2", _("Being removed")),
    Placement.State.GONE: ("grey", "circle-minus", _("Removed")),
}

REQUESTS: dict[str, Look] = {
    TenantRequest.State.OPEN: ("amber", "hourglass", _("Waiting for a decision")),
    TenantRequest.State.APPROVED: ("green", "check", _("Approved")),
    TenantRequest.State.REJECTED: ("grey", "x", _("Rejected")),
    TenantRequest.State.WITHDRAWN: ("grey", "arrow-back-up", _("Withdrawn")),
}


def look_of(placement: Placement) -> Look:
    """A place's state; one that is ready and was changed in the cluster says so."""
    if placement.is_ready and placement.off:
        return "amber", "alert-triangle", _("Changed")
    return PLACES[placement.state]
