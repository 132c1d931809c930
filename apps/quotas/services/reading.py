"""What pages and REST read of requests."""

from __future__ import annotations

from apps.accounts.types import Actor
from apps.quotas.models import QuotaRequest


def may_follow_request(actor: Actor, request_id: str) -> bool:
    """Whether an open page of this person may hear that a request changed."""
    known = request_id.isascii() and request_id.isdigit() and len(request_id) < 19
    return known and QuotaRequest.objects.visible_to(actor).filter(pk=int(request_id)).exists()
