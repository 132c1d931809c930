"""What stands around every page: the rail, the tenants, the theme, the words our scripts say."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from apps.accounts.models import Tenant
from apps.accounts.types import Actor, Permission
from apps.notices import services as notices

NAVIGATION: list[tuple[str | Promise, list[tuple[str, Promise, str, Permission | None]]]] = [
    ("", [("portal:home", gettext_lazy("Home"), "home", None)]),
    (
        gettext_lazy("Work"),
        [
            ("jobs:list", gettext_lazy("Jobs"), "player-play", Permission.JOB_VIEW),
            ("catalog:list", gettext_lazy("Models"), "package", Permission.MODEL_VIEW),
            ("serving:list", gettext_lazy("Deployments"), "rocket", Permission.DEPLOYMENT_VIEW),
        ],
    ),
    (
        gettext_lazy("Team"),
        [
            ("quotas:list", gettext_lazy("Quota and usage"), "gauge", Permission.QUOTA_VIEW),
            ("tenants:list", gettext_lazy("Tenants"), "building", Permission.TENANT_VIEW),
            ("secrets:list", gettext_lazy("Secrets"), "key", Permission.SECRET_VIEW),
        ],
    ),
    (
        gettext_lazy("Platform"),
        [
            ("fleet:overview", gettext_lazy("Fleet"), "layout-grid", Permission.CLUSTER_VIEW),
            ("clusters:list", gettext_lazy("Clusters"), "server-2", Permission.CLUSTER_VIEW),
            ("readers:list", gettext_lazy("Log readers"), "regex", Permission.LOG_READERS_VIEW),
            ("audit:list", gettext_lazy("Audit"), "list-search", Permission.AUDIT_VIEW),
        ],
    ),
]
ENDS = [
    ("accounts:permissions", gettext_lazy("Permissions"), "shield-check", Permission.PERMISSIONS_VIEW),
    ("accounts:settings", gettext_lazy("Settings"), "settings", None),
]
TENANTS = 30
"""So many tenants the menu at the top offers; the page of tenants has them all."""
SHORT = 4
"""So many entries fit at the bottom of a narrow screen, beside "More"."""


@dataclass(frozen=True)
class Place:
    """One entry of the rail."""

    url: str
    word: Promise
    icon: str
    here: bool


class Shell:
    """What stands around every page. Everything is looked up only when a template asks: partials do not."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.actor: Actor | None = getattr(request, "actor", None)

    @property
    def signed_in(self) -> bool:
        return bool(self.actor and self.actor.user_pk)

    @functools.cached_property
    def unread(self) -> int:
        """How many notices this person has not read."""
        return notices.unread_count(self.actor) if self.actor else 0

    @functools.cached_property
    def groups(self) -> list[tuple[str, list[Place]]]:
        """The rail: only what exists and this person may see."""
        groups = [(str(word), self._places(entries)) for word, entries in NAVIGATION]
        return [(word, places) for word, places in groups if places]

    @functools.cached_property
    def ends(self) -> list[Place]:
        return self._places(ENDS)

    @functools.cached_property
    def short(self) -> tuple[list[Place], list[Place]]:
        """The rail for a narrow screen: what stands at the bottom, and what folds behind "More"."""
        places = [place for _word, group in self.groups for place in group]
        return places[:SHORT], [*places[SHORT:], *self.ends]

    def _places(self, entries: Iterable[tuple[str, Promise, str, Permission | None]]) -> list[Place]:
        match = self.request.resolver_match
        return [
            Place(reverse(name), word, icon_name, match is not None and _same_room(match.view_name, name))
            for name, word, icon_name, right in entries
            if self.actor and (right is None or self.actor.may(right))
        ]

    @property
    def sees_all(self) -> bool:
        """Whether the tenants are all there are, not only those of this person."""
        return self.actor is not None and self.actor.tenants_where(Permission.JOB_VIEW) is None

    @functools.cached_property
    def _some_tenants(self) -> list[Tenant]:
        """The first tenants whose jobs this person may see, and one more where there are more; operators see all."""
        if self.actor is None:
            return []
        seen = self.actor.tenants_where(Permission.JOB_VIEW)
        found = Tenant.objects.all() if seen is None else Tenant.objects.filter(pk__in=seen)
        return list(found[: TENANTS + 1])

    @property
    def tenants(self) -> list[Tenant]:
        """The tenants to choose from."""
        return self._some_tenants[:TENANTS]

    @property
    def more_tenants(self) -> bool:
        return len(self._some_tenants) > TENANTS

    @functools.cached_property
    def tenant(self) -> Tenant | None:
        """The tenant the address names, if any; with one only there is nothing to choose."""
        if len(self.tenants) == 1:
            return self.tenants[0]
        slug = self.request.GET.get("tenant")
        found = next((tenant for tenant in self.tenants if tenant.slug == slug), None)
        if found or not (slug and self.actor and self.more_tenants):
            return found
        seen = self.actor.tenants_where(Permission.JOB_VIEW)
        named = Tenant.objects.filter(slug=slug[:30])
        return (named if seen is None else named.filter(pk__in=seen)).first()

    @functools.cached_property
    def tenant_url(self) -> str:
        """Where a choice of tenant leads: this list, else the jobs."""
        match = self.request.resolver_match
        return self.request.path if match and match.view_name in _LISTS else reverse("jobs:list")

    @property
    def theme(self) -> str:
        """ "light", "dark", or "auto", which static/js/theme.js settles."""
        chosen = getattr(getattr(self.request, "user", None), "theme", "") or self.request.COOKIES.get("theme", "")
        return chosen if chosen in ("light", "dark") else "auto"

    @property
    def zone(self) -> str:
        """The reader's time zone, for what scripts write."""
        return timezone.get_current_timezone_name()

    @property
    def languages(self) -> list[tuple[str, str]]:
        """Each language by its own name."""
        return [("en", "English"), ("zh-hans", "简体中文")]


_LISTS = frozenset(
    {
        "portal:home",
        "notices:inbox",
        "jobs:list",
        "catalog:list",
        "serving:list",
        "quotas:list",
        "tenants:list",
        "secrets:list",
        "audit:list",
    }
)


def _same_room(here: str, there: str) -> bool:
    if there.startswith("accounts:"):
        return here == there
    return here.split(":")[0] == there.split(":")[0]


def shell(request: HttpRequest) -> Mapping[str, Any]:
    """Context processor."""
    return {"shell": Shell(request), "words": WORDS}


WORDS: dict[str, Promise] = {
    "close": gettext_lazy("Close"),
    "copied": gettext_lazy("Copied."),
    "failed": gettext_lazy("The portal did not answer. Nothing was changed; try again."),
    "signedOut": gettext_lazy("You were signed out. Reload the page to sign in again."),
    "refused": gettext_lazy("This page may no longer follow what it shows. Reload it."),
}
"""What our scripts say; base.html hands it to them as data."""
