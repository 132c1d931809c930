"""New tenants: asked for by a team admin, decided by an operator who has not asked; operators need no decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Denied, Permission
from apps.audit import services as audit
from apps.clusters import services as clusters
from apps.notices import services as notices
from apps.quotas import services as quotas
from apps.streams.services import hint
from apps.tenants.domain.asking import RESERVED
from apps.tenants.models import Placement, TenantRequest
from apps.tenants.services.placing import ask_placement

ASKED = audit.action(
    "tenant.asked",
    ngettext_lazy(
        "{actor} asked for the tenant {name} in {cluster} with {gpus} GPU",
        "{actor} asked for the tenant {name} in {cluster} with {gpus} GPUs",
        "gpus",
    ),
    name=_("Ask for a tenant"),
)
APPROVED = audit.action(
    "tenant.approved",
    ngettext_lazy(
        "{actor} approved the tenant {name} in {cluster} with {gpus} GPU",
        "{actor} approved the tenant {name} in {cluster} with {gpus} GPUs",
        "gpus",
    ),
    name=_("Approve a tenant"),
)
REJECTED = audit.action("tenant.rejected", _("{actor} rejected the tenant {name}"), name=_("Reject a tenant"))
WITHDRAWN = audit.action(
    "tenant.withdrawn", _("{actor} withdrew the request for the tenant {name}"), name=_("Withdraw a tenant's request")
)
TOLD_ASKED = notices.kind(
    "tenant.asked",
    ngettext_lazy(
        "{who} asks for the tenant {name} with {gpus} GPU in {cluster}",
        "{who} asks for the tenant {name} with {gpus} GPUs in {cluster}",
        "gpus",
    ),
    name=_("A tenant is asked for"),
    icon="building",
    tone="amber",
)
TOLD_APPROVED = notices.kind(
    "tenant.approved",
    ngettext_lazy(
        "{who} approved the tenant {name} with {gpus} GPU; its place is being prepared",
        "{who} approved the tenant {name} with {gpus} GPUs; its place is being prepared",
        "gpus",
    ),
    name=_("A tenant is approved"),
    icon="check",
    tone="green",
)
TOLD_REJECTED = notices.kind(
    "tenant.rejected",
    _("{who} rejected the tenant {name}: {note}"),
    name=_("A tenant is rejected"),
    icon="x",
    tone="red",
)


@dataclass(frozen=True)
class Asked:
    """What somebody asks for. The caller has checked its form; whether it may be is checked here."""

    slug: str
    name: str
    cluster_id: int
    gpus: int
    reason: str


@dataclass(frozen=True)
class Decision:
    """An operator's word. `gpus` is what is given, None for what was asked; `note` is for who asked."""

    approve: bool
    note: str = ""
    gpus: int | None = None


class SlugTaken(ValueError):
    """There is such a tenant, or somebody asks for one."""


class AlreadyDecided(Exception):
    """Somebody was faster; nothing was changed. `request` is as it was decided."""

    def __init__(self, request: TenantRequest) -> None:
        super().__init__(request.state)
        self.request = request


@audit.use_case(ASKED)
def ask_tenant(actor: Actor, asked: Asked) -> TenantRequest:
    """Ask for a tenant; who may decide has it at once. Raises SlugTaken, clusters.Closed."""
    actor.require(Permission.TENANT_ASK, target=f"tenant:{asked.slug}")
    standing = Placement.objects.for_system().exclude(state=Placement.State.GONE)
    if asked.slug in RESERVED or standing.filter(tenant__slug=asked.slug).exists():
        raise SlugTaken
    try:
        with transaction.atomic():
            request = TenantRequest.objects.create(
                slug=asked.slug,
                name=asked.name,
                cluster_id=asked.cluster_id,
                gpus=asked.gpus,
                reason=asked.reason,
                asked_by_id=actor.user_pk,
            )
    except IntegrityError as error:
        raise SlugTaken from error
    about = _about(request)
    audit.record(ASKED, actor, _target(request), **about)
    if actor.may(Permission.TENANT_DECIDE):
        _approve(actor, request, Decision(approve=True))
    else:
        people = accounts.people_with(Permission.TENANT_DECIDE, None)
        notices.tell(people, TOLD_ASKED, link=_link(request), who=actor.name, **about)
    request.refresh_from_db()
    return request


@audit.use_case(APPROVED)
def decide(actor: Actor, request: TenantRequest, decision: Decision) -> TenantRequest:
    """Approve or reject. The same said again by the same person changes nothing.

    Raises AlreadyDecided, clusters.Closed; Denied, also to who asked.
    """
    actor.require(Permission.TENANT_DECIDE, target=_target(request))
    if str(request.asked_by_id) == actor.user_pk:
        reason = _("You asked for this tenant yourself. Another platform operator decides.")
        raise Denied(Permission.TENANT_DECIDE, reason, target=_target(request))
    (_approve if decision.approve else _reject)(actor, request, decision)
    request.refresh_from_db()
    return request


@audit.use_case(WITHDRAWN)
def withdraw(actor: Actor, request: TenantRequest) -> TenantRequest:
    """Take back what one asked for; said again it changes nothing. Raises AlreadyDecided; Denied to everybody else."""
    actor.require(Permission.TENANT_ASK, target=_target(request))
    if str(request.asked_by_id) != actor.user_pk:
        raise Denied(Permission.TENANT_ASK, _("Only who asked withdraws a request."), target=_target(request))
    if _settle(actor, request, TenantRequest.State.WITHDRAWN, Decision(approve=False)):
        audit.record(WITHDRAWN, actor, _target(request), **_about(request))
    request.refresh_from_db()
    return request


def _approve(actor: Actor, request: TenantRequest, decision: Decision) -> None:
    gpus = request.gpus if decision.gpus is None else decision.gpus
    if not _settle(actor, request, TenantRequest.State.APPROVED, decision, granted=gpus):
        return
    tenant = accounts.ensure_tenant(actor, slug=request.slug, name=request.name)
    TenantRequest.objects.for_system().filter(pk=request.pk).update(tenant=tenant)
    about = {**_about(request), "gpus": gpus}
    audit.record(APPROVED, actor, _target(request), tenant_id=tenant.pk, **about)
    ask_placement(actor, tenant_id=tenant.pk, slug=request.slug, cluster_id=request.cluster_id, gpus=gpus)
    if str(request.asked_by_id) != actor.user_pk:
        notices.tell([request.asked_by_id], TOLD_APPROVED, link=_link(request), who=actor.name, **about)


def _reject(actor: Actor, request: TenantRequest, decision: Decision) -> None:
    if not _settle(actor, request, TenantRequest.State.REJECTED, decision):
        return
    audit.record(REJECTED, actor, _target(request), **_about(request))
    about = {**_about(request), "who": actor.name, "note": decision.note or "–"}
    notices.tell([request.asked_by_id], TOLD_REJECTED, link=_link(request), **about)


def _settle(actor: Actor, request: TenantRequest, state: str, decision: Decision, granted: int | None = None) -> bool:
    """Write the decision if there was none; False if the same person has said so before. Raises AlreadyDecided."""
    here = TenantRequest.objects.for_system().filter(pk=request.pk)
    said = {"state": state, "granted": granted, "note": decision.note, "decided_by_id": actor.user_pk or None}
    if here.open().update(**said, decided_at=Now()):
        hint(request.topic)
        return True
    known = here.select_related("decided_by").get()
    if (known.state, str(known.decided_by_id)) == (state, actor.user_pk):
        return False
    raise AlreadyDecided(known)


def _about(request: TenantRequest) -> dict[str, Any]:
    return {"name": request.name, "cluster": request.cluster.name, "gpus": request.gpus}


def _target(request: TenantRequest) -> str:
    return f"tenant-request:{request.pk}"


def _link(request: TenantRequest) -> str:
    return reverse("tenants:request", args=[request.pk])


@dataclass(frozen=True)
class Impact:
    """What a request means for its cluster, in accelerators. `total` is None while no node was seen."""

    total: int | None
    promised: int

    @property
    def left(self) -> int | None:
        return None if self.total is None else max(0, self.total - self.promised)


def impact_of(cluster: clusters.Cluster) -> Impact:
    """What the cluster has and what its tenants have been promised."""
    nodes = clusters.nodes(cluster)
    standing = Placement.objects.for_system().standing().filter(cluster=cluster)
    promised = quotas.uses(standing.values_list("tenant_id", flat=True))
    limits = [use.limit for use in promised if use.pool.cluster == cluster.slug]
    return Impact(sum(node.total for node in nodes) if nodes else None, sum(limits))


def may_follow_request(actor: Actor, request_id: str) -> bool:
    """Whether an open page of this person may hear that a request changed."""
    known = request_id.isascii() and request_id.isdigit() and len(request_id) < 19
    return known and TenantRequest.objects.visible_to(actor).filter(pk=int(request_id)).exists()
