"""To fetch is to be allowed: the base queryset of everything a tenant owns, and the mark of what is open to all.
Any app may import this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

from django.db import models

from apps.accounts.types import Actor, Permission

M = TypeVar("M", bound=models.Model)
V = TypeVar("V", bound=Callable[..., Any])


class TenantOwnedQuerySet(models.QuerySet[M]):
    """Rows with a `tenant` foreign key. Views use `visible_to`, background work `for_system`, no one `objects`."""

    view_permission: ClassVar[Permission]

    def visible_to(self, actor: Actor) -> Self:
        """The rows this actor may see; a stranger's lookup in it is a 404."""
        tenants = actor.tenants_where(self.view_permission)
        return self.all() if tenants is None else self.filter(tenant_id__in=tenants)

    def for_system(self) -> Self:
        """Every row, for work that no person asked for."""
        return self.all()


def public(view: V) -> V:
    """Open a view (function or class) to people who have not signed in. Every other view asks them to, first."""
    view.public = True  # type: ignore[attr-defined]
    return view


def is_public(view: Callable[..., Any]) -> bool:
    """Whether a resolved view was marked `public`, itself or its class."""
    return bool(getattr(view, "public", False) or getattr(getattr(view, "view_class", None), "public", False))
