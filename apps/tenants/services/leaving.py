"""Taking a tenant out of a cluster: what stands in the way first, then drained and deleted step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import F
from django.db.models.functions import Now
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.streams.services import hint
from apps.tenants.models import Placement
from apps.tenants.services.placing import TASK, NotStanding

REMOVAL_ASKED = audit.action(
    "tenant.removal-asked",
    _("{actor} asked to remove the tenant {name} from {cluster}"),
    name=_("Remove a tenant from a cluster"),
)


@dataclass(frozen=True)
class Blocker:
    """Something of a tenant that must be ended or taken away first: a sentence, and the page where that is done."""

    text: str | Promise
    url: str = ""


class Blocked(Exception):
    """Something stands in the way of removing the tenant; nothing was changed."""

    def __init__(self, blockers: list[Blocker]) -> None:
        super().__init__(", ".join(str(one.text) for one in blockers))
        self.blockers = blockers


class WrongName(ValueError):
    """What was typed is not the tenant's short name; nothing was changed."""


_blockers: dict[str, Callable[[Placement], list[Blocker]]] = {}


def register_blocker(kind: str, find: Callable[[Placement], list[Blocker]]) -> None:
    """Called in an app's ready(): `find(placement)` tells what of its kind a tenant still has there, in words."""
    if kind in _blockers:
        raise ValueError(f"Blockers of kind {kind} are registered twice.")
    _blockers[kind] = find


def blockers_of(placement: Placement) -> list[Blocker]:
    """Everything that stands in the way of removing a tenant from a cluster: what it has in others does not."""
    return [blocker for find in _blockers.values() for blocker in find(placement)]


@audit.use_case(REMOVAL_ASKED)
def remove(actor: Actor, *, placement: Placement, typed: str) -> None:
    """Drain and delete a tenant's place; its row and everything in the portal stays. `typed` is its short name.

    Raises WrongName, Blocked, NotStanding (it has begun already).
    """
    tenant = placement.tenant
    actor.require(Permission.TENANT_REMOVE, tenant.pk, target=f"tenant:{tenant.pk}")
    if typed.strip() != tenant.slug:
        raise WrongName
    # A submit that is under way holds this row by its foreign key: it is waited for, and then counted.
    here = Placement.objects.for_system().filter(pk=placement.pk)
    if not here.select_for_update(of=("self",)).get().is_standing:
        raise NotStanding
    if blockers := blockers_of(placement):
        raise Blocked(blockers)
    here.update(state=Placement.State.LEAVING, steps=[], problem="", round=F("round") + 1, due_at=Now())
    audit.record(
        REMOVAL_ASKED,
        actor,
        f"tenant:{tenant.pk}",
        tenant_id=tenant.pk,
        name=tenant.name,
        cluster=placement.cluster.name,
    )
    wake(TASK, placement.pk)
    hint(f"tenant.{tenant.pk}")
