"""Tenants in every state, and requests for more of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import Tenant, User
from apps.quotas.models import Allowance
from apps.tenants.domain.drift import Difference, Found
from apps.tenants.domain.place import place_steps
from apps.tenants.models import Placement, TenantRequest
from apps.tenants.services import place_of
from tests.factories import World

ADMIN, OPERATOR = "team-admin", "platform-operator"
PAGES: dict[str, tuple[str, str]] = {
    "tenants": (OPERATOR, "/tenants/"),
    "tenants-none": ("nobody", "/tenants/"),
    "tenants-none-fits": (OPERATOR, "/tenants/?q=nothing-like-it"),
    "tenant": ("data-scientist", "/tenants/nlp/"),
    "tenant-drift": (OPERATOR, "/tenants/{drifted}/"),
    "tenant-refused": (OPERATOR, "/tenants/{refused}/"),
    "tenant-leaving": (OPERATOR, "/tenants/{leaving}/"),
    "tenant-remove": (OPERATOR, "/tenants/{drifted}/train-a/remove"),
    "tenant-remove-blocked": (OPERATOR, "/tenants/nlp/train-a/remove"),
    "tenant-requests": (OPERATOR, "/tenant-requests/"),
    "tenant-ask": (ADMIN, "/tenant-requests/new"),
    "tenant-request": (OPERATOR, "/tenant-requests/{asked}/"),
    "tenant-request-own": (ADMIN, "/tenant-requests/{asked}/"),
    "tenant-request-rejected": (ADMIN, "/tenant-requests/{rejected}/"),
}


def seed(world: World, me: User) -> dict[str, Any]:
    now = timezone.now()
    _good(world.place)
    drifted = _placed(world, "speech", "语音识别", Placement.State.READY)
    steps = _good(drifted)
    changed = Difference("spec.egress", '[{"to": [{"podSelector": {}}]}]', '[{"to": [{"podSelector": {}}]}, {"to": …')
    steps["defaults"] = Found("defaults", "LimitRange", "tenant", "missing", mark="1:x")
    steps["network-allow"] = Found("network-allow", "NetworkPolicy", "baseline", "drifted", (changed,), "", "1:x", "9")
    _keep(drifted, steps)
    refused = _placed(world, "robotics", "Robotics and embodied agents", Placement.State.FAILED)
    steps = _good(refused)
    text = 'admission webhook "policy.example.com" denied the request: namespaces need the label cost-centre'
    steps = {key: Found(one.key, one.kind, one.name) for key, one in steps.items()}
    steps["namespace"] = Found("namespace", "Namespace", "tenant-robotics", "refused", text=text)
    _keep(refused, steps)
    leaving = _placed(world, "translation", "翻译", Placement.State.LEAVING)
    left = [Found("work", "", "", "done"), Found("close", "Queue", leaving.queue, "waiting")]
    left += [Found("delete-queue", "Queue", leaving.queue), Found("delete-namespace", "Namespace", leaving.namespace)]
    _keep(leaving, {one.key: one for one in left})
    return {
        "drifted": "speech",
        "refused": "robotics",
        "leaving": "translation",
        "asked": _asked(world, "weather", "天气预报", 24).pk,
        "rejected": _asked(
            world, "games", "Games", 128, state=TenantRequest.State.REJECTED, note="Train A has 32 GPUs in all.",
            decided_by=world.people[Role.OPERATOR], decided_at=now - timedelta(hours=3),
        ).pk,
    }  # fmt: skip


def _asked(world: World, slug: str, name: str, gpus: int, **values: Any) -> TenantRequest:
    reason = "Two people begin in December with a 3B model for regional forecasts.\nWe need whole nodes for four weeks."
    return TenantRequest.objects.create(
        slug=slug, name=name, cluster=world.place.cluster, gpus=gpus, reason=reason,
        asked_by=world.people[Role.TEAM_ADMIN], **values,
    )  # fmt: skip


def _placed(world: World, slug: str, name: str, state: str) -> Placement:
    tenant = Tenant.objects.create(slug=slug, name=name)
    cluster = world.place.cluster
    Allowance.objects.create(tenant=tenant, cluster=cluster.slug, resource="nvidia.com/gpu", base=8, held=2)
    return Placement.objects.create(
        tenant=tenant, cluster=cluster, namespace=f"tenant-{slug}", queue=f"tenant-{slug}", state=state,
        ready_at=timezone.now(),
    )  # fmt: skip


def _good(placement: Placement) -> dict[str, Found]:
    steps = place_steps(place_of(placement))
    found = {step.key: Found(step.key, step.kind, step.name, "applied", mark="1:x", version="7") for step in steps}
    _keep(placement, found)
    return found


def _keep(placement: Placement, found: dict[str, Found]) -> None:
    looked = timezone.now() - timedelta(minutes=2)
    steps = [one.to_row() for one in found.values()]
    Placement.objects.for_system().filter(pk=placement.pk).update(steps=steps, looked_at=looked)
