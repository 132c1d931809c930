"""The chart card in all it can show: every curve, another job beside, a stretch; and points under the keyboard."""

from __future__ import annotations

from typing import Any

from apps.accounts.models import User
from tests import factories

S = "data-scientist"
PAGES: dict[str, tuple[str, str]] = {
    "curves-all": (S, "/jobs/{restarted}/#curves=loss,learning_rate,grad_norm,tokens_per_second&with={running}"),
    "curves-stretch": (S, "/jobs/{restarted}/#steps=140-220&scale=log&smooth=0.9"),
}


def seed(_world: factories.World, _me: User) -> dict[str, Any]:
    return {}
