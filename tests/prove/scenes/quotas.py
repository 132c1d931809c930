"""Quota as it is after a busy week: pools in use, requests in every state, one that promises more than there is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.accounts.types import Actor
from apps.quotas import services
from apps.quotas.models import QuotaRequest
from apps.quotas.services import Ask, PodUse, Pool, State, Terms
from tests import factories
from tests.factories import World

PAGES = {
    "quota": ("data-scientist", "/quota/"),
    "quota-empty": ("nobody", "/quota/"),
    "quota-request": ("team-admin", "/quota/requests/{quota_waiting}/"),
    "quota-request-platform": ("platform-operator", "/quota/requests/{quota_platform}/"),
    "quota-request-offer": ("data-scientist", "/quota/requests/{quota_offered}/"),
    "quota-request-active": ("viewer", "/quota/requests/{quota_active}/"),
    "quota-ask": ("data-scientist", "/quota/ask"),
    "quota-reject": ("team-admin", "/quota/requests/{quota_waiting}/reject"),
    "quota-offer": ("team-admin", "/quota/requests/{quota_waiting}/offer"),
}

POOL = Pool("train-a", "nvidia.com/gpu")


def _ask(world: World, amount: int, days: float, reason: str) -> QuotaRequest:
    now = timezone.now()
    terms = Terms({POOL: amount}, now, now + timedelta(days=days))
    return services.ask(world.actor(Role.SCIENTIST), wish=Ask(world.nlp.pk, terms, reason))


def seed(world: World, me: User) -> dict[str, Any]:
    lin = factories.user("lin bo", Role.OPERATOR)
    admin, operator = world.actor(Role.TEAM_ADMIN), world.actor(Role.OPERATOR)
    services.set_base(Actor.system("test"), world.vision.pk, POOL, 24)
    services.take(world.nlp.pk, POOL, 3, "notebook:1")
    week_ago = timezone.now() - timedelta(hours=5)
    services.book(world.nlp.pk, POOL, "job:x", [PodUse("x", 8, week_ago, timezone.now())])
    active = _ask(world, 4, 6, "Nightly evaluation of the 13B model until the paper is out.")
    services.approve(admin, active, seen=State.TEAM)
    services.approve(operator, active, seen=State.PLATFORM)
    rejected = _ask(world, 64, 90, "Just in case.")
    services.reject(admin, rejected, seen=State.TEAM, note="Ask for what a plan needs.")
    waiting = _ask(world, 8, 14, "客服助手的 13B 与 34B 训练必须在 12 月 16 日演示之前完成。")
    services.comment(lin.actor(), waiting, "The cluster is quiet until the 3rd.")
    platform = _ask(world, 32, 14, "The 13B and the 34B run of the customer assistant must end before the demo.")
    services.approve(admin, platform, seen=State.TEAM, note="ok, needed for the demo")
    offered = _ask(world, 16, 30, "A sweep over learning rates.")
    services.approve(admin, offered, seen=State.TEAM)
    less = Terms({POOL: 8}, timezone.now() + timedelta(days=3), timezone.now() + timedelta(days=17))
    services.offer(lin.actor(), offered, seen=State.PLATFORM, terms=less, note="Half of it, after vit-l has ended?")
    names = {"waiting": waiting, "platform": platform, "offered": offered, "active": active}
    return {f"quota_{name}": request.pk for name, request in names.items()}
