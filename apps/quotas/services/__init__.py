"""What a tenant may use, holds now, and has used. Other apps know a tenant by its id and a pool by `Pool`; what holds
is a subject such as `job:<id>` or `deployment:<id>`."""

from apps.quotas.domain.pool import Pool
from apps.quotas.services.holds import Difference, NoRoom, Use, check, release, set_base, take, use, uses
from apps.quotas.services.ledger import PodUse, book, booked, booked_since
from apps.quotas.services.reading import may_follow_request
from apps.quotas.services.registry import (
    PoolFigures,
    register_figures,
    register_limit_listener,
    register_live,
)
from apps.quotas.services.turning import TURN, due_requests

__all__ = [
    "TURN",
    "Difference",
    "NoRoom",
    "PodUse",
    "Pool",
    "PoolFigures",
    "Use",
    "book",
    "booked",
    "booked_since",
    "check",
    "due_requests",
    "may_follow_request",
    "register_figures",
    "register_limit_listener",
    "register_live",
    "release",
    "set_base",
    "take",
    "use",
    "uses",
]
