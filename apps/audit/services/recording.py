"""Recording what happened, in the transaction of the change; recording what was refused, in one of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import structlog
from django.db import transaction

from apps.audit.domain import Action, Denied, Result
from apps.audit.models import Entry

P = ParamSpec("P")
R = TypeVar("R")


class Acting(Protocol):
    """Whoever acts: a person or a part of the system, known by a stable id such as `user:6f…` or `system:watch`."""

    @property
    def id(self) -> str: ...


_actions: dict[str, Action] = {}


def action(key: str, sentence: Any, *, name: Any = "", refusal: Any = None) -> Action:
    """Declare an action. Each key is declared once, in the app whose services record it."""
    if key in _actions:
        raise ValueError(f"The action {key} is declared twice.")
    return _actions.setdefault(key, Action(key, sentence, name or key, refusal))


def actions() -> dict[str, Action]:
    """All declared actions by key."""
    return dict(_actions)


def record(
    what: Action,
    actor: Acting,
    target: str,
    /,
    *,
    tenant_id: int | None = None,
    result: Result = Result.DONE,
    **params: Any,
) -> None:
    """Write one entry in the caller's transaction: the change and its record stand or fall together.

    `target` is `kind:id`. `params` are JSON values for the sentence; never a secret, never free text from a cluster.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("record() belongs into the transaction of the change it records.")
    request_id = str(structlog.contextvars.get_contextvars().get("request_id", ""))
    Entry.objects.create(
        action=what.key,
        result=result,
        actor=actor.id,
        tenant_id=tenant_id,
        target=target,
        params=params,
        request_id=request_id,
    )


A = TypeVar("A", bound=Acting)


def use_case(what: Action) -> Callable[[Callable[Concatenate[A, P], R]], Callable[Concatenate[A, P], R]]:
    """Make a function `f(actor, …)` one use-case: one transaction, and a record of each refusal.

    The refusal is written after the transaction has rolled back, in one of its own, and raised on.
    """

    def decorate(function: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
        @functools.wraps(function)
        def run(actor: A, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                with transaction.atomic():
                    return function(actor, *args, **kwargs)
            except Denied as denied:
                with transaction.atomic():
                    record(
                        what,
                        actor,
                        denied.target,
                        tenant_id=denied.tenant_id,
                        result=Result.REFUSED,
                        permission=str(denied.permission),
                    )
                raise

        return run

    return decorate
