"""Recording what happened, in the transaction of the change; recording what was refused, in one of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import structlog
from django.db import transaction

from apps.audit.domain import Action, Denied, Result
from apps.audit.models import Entry

__all__ = [
    "Action",
    "Denied",
    "Entry",
    "Result",
    "action",
    "actions",
    "directory",
    "record",
    "register_directory",
    "register_system",
    "register_words",
    "system_name",
    "told",
    "use_case",
]

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


Words = Callable[[Any], object]
"""What to show a reader for a recorded value."""

_words: dict[tuple[str, str], Words] = {}
_systems: dict[str, Any] = {}


def register_words(key: str, **params: Words) -> None:
    """Called by an app's ready(): how the parameters of an action that are codes read in words."""
    _words.update({(key, param): words for param, words in params.items()})


def register_system(name: str, words: Any) -> None:
    """Called by an app's ready(): what people call the part of the system that acts as `system:<name>`."""
    _systems[f"system:{name}"] = words


def told(entry: Entry) -> dict[str, object]:
    """The parameters of an entry as a reader is told them."""
    return {param: _words.get((entry.action, param), _as_it_is)(value) for param, value in entry.params.items()}


def _as_it_is(value: Any) -> object:
    return value


def system_name(actor: str) -> str:
    """What people call a part of the system, by its audit id; its bare name where nobody said."""
    return str(_systems.get(actor) or actor.removeprefix("system:"))


@dataclass(frozen=True)
class Directory:
    """What reading the log needs of whoever knows people and tenants. `names` maps audit ids of people and tenants to
    names, those of nobody known left out; `tenant_id` finds the tenant of a slug that the reader may see."""

    names: Callable[[Iterable[str]], Mapping[str, str]]
    tenant_id: Callable[[Any, str], int | None]


_directory: list[Directory] = []


def register_directory(found: Directory) -> None:
    """Called once, by the app that keeps people, in its ready()."""
    _directory[:] = [found]


def directory() -> Directory:
    return _directory[0]


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
