"""What a tenant may use, holds now, and has used. Other apps know a tenant by its id and a pool by `Pool`; what holds
is a subject such as `job:<id>` or `deployment:<id>`."""

from apps.quotas.domain.asking import InvalidRequest, Problem, Terms
from apps.quotas.domain.pool import Pool
from apps.quotas.domain.states import State
from apps.quotas.models import QuotaRequest
from apps.quotas.services.deciding import RIGHTS, approve, deciders, may_decide, offer, reject, why_not
from apps.quotas.services.holds import Difference, NoRoom, Use, check, release, set_base, take, use, uses
from apps.quotas.services.ledger import PodUse, book, booked, booked_since
from apps.quotas.services.reading import MOST_TENANTS, impact_of, may_follow_request, pools_seen, titles_of
from apps.quotas.services.registry import (
    PoolFigures,
    register_figures,
    register_limit_listener,
    register_live,
)
from apps.quotas.services.requests import AlreadyDecided, Ask, accept, ask, comment, may_comment, withdraw
from apps.quotas.services.told import waiting_for
from apps.quotas.services.turning import TURN, due_requests, turn
from apps.quotas.services.words import STATES, late_text, problem_text

__all__ = [
    "MOST_TENANTS",
    "RIGHTS",
    "STATES",
    "TURN",
    "AlreadyDecided",
    "Ask",
    "Difference",
    "InvalidRequest",
    "NoRoom",
    "PodUse",
    "Pool",
    "PoolFigures",
    "Problem",
    "QuotaRequest",
    "State",
    "Terms",
    "Use",
    "accept",
    "approve",
    "ask",
    "book",
    "booked",
    "booked_since",
    "check",
    "comment",
    "deciders",
    "due_requests",
    "impact_of",
    "late_text",
    "may_comment",
    "may_decide",
    "may_follow_request",
    "offer",
    "pools_seen",
    "problem_text",
    "register_figures",
    "register_limit_listener",
    "register_live",
    "reject",
    "release",
    "set_base",
    "take",
    "titles_of",
    "turn",
    "use",
    "uses",
    "waiting_for",
    "why_not",
    "withdraw",
]
