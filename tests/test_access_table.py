"""Every route × method × person, as real requests on objects that exist.

A new route fails until it has its lines, here or in `tests/access`. Methods without a line must answer 405, or, to people who have not
signed in, nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from apps.accounts.domain import Role
from apps.accounts.models import ApiToken, ProviderSession
from apps.jobs.models import Draft, Job
from tests import factories
from tests.access import PARTS
from tests.factories import DOCUMENT, World
from tests.pages import browser

PEOPLE = ("anonymous", "nobody", "viewer", "scientist", "team admin", "auditor", "operator", "stranger")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

# Objects belong to the scientist and lie in the tenant of viewer, scientist and team admin. The stranger is a data
# scientist of another tenant, "nobody" has signed in and is in none.
#                                          anon nobody view  sci  adm   aud  oper stranger
OPEN = "                                   200  200   200   200  200   200  200  200"
SIGNED_IN = "                              302  200   200   200  200   200  200  200"
TABLE: dict[tuple[str, str], str] = {
    ("healthz", "GET"): OPEN,
    ("readyz", "GET"): OPEN,
    ("schema", "GET"): OPEN,
    ("portal:home", "GET"): SIGNED_IN,
    ("portal:help", "GET"): SIGNED_IN,
    ("accounts:sign-in", "GET"): "         200  302   302   302  302   302  302  302",
    ("accounts:sign-out", "POST"): "       302  302   302   302  302   302  302  302",
    ("accounts:signed-out", "GET"): OPEN,
    ("accounts:oidc-start", "GET"): "      302  302   302   302  302   302  302  302",
    ("accounts:oidc-callback", "GET"): "   403  302  302   302  302   302  302  302",
    ("accounts:backchannel-logout", "POST"): "400 400 400   400  400   400  400  400",
    ("accounts:language", "POST"): "       302  302   302   302  302   302  302  302",
    ("accounts:theme", "POST"): "          302  302   302   302  302   302  302  302",
    ("accounts:settings", "GET"): SIGNED_IN,
    ("accounts:preferences", "POST"): "    302  302   302   302  302   302  302  302",
    ("accounts:token-create", "POST"): "   302  403   200   200  200   200  200  200",
    ("accounts:token-revoke", "POST"): "   302  403  404   302  404   404  404  404",
    ("accounts:session-end", "POST"): "    302  404   404   302  404   404  404  404",
    ("accounts:permissions", "GET"): SIGNED_IN,
    ("audit:list", "GET"): "               302  403   403   403  200   200  403  403",
    ("jobs:list", "GET"): SIGNED_IN,
    ("jobs:new", "GET"): "                 302  403   403   200  200   403  403  200",
    ("jobs:new", "POST"): "                302  403   403   302  302   403  403  200",
    ("jobs:detail", "GET"): "              302  404   200   200  200   200  200  404",
    ("jobs:log-lines", "GET"): "           302  404   200   200  200   200  200  404",
    ("jobs:log-download", "GET"): "        302  404   200   200  200   200  200  404",
    ("jobs:stop", "GET"): "                302  404   403   200  200   403  200  404",
    ("jobs:stop", "POST"): "               302  404   403   302  302   403  302  404",
    ("jobs:suspend", "POST"): "            302  404   403   302  302   403  302  404",
    ("jobs:resume", "POST"): "             302  404   403   302  302   403  302  404",
    ("jobs:clone", "POST"): "              302  404   403   302  302   403  403  404",
    ("jobs:drafts", "GET"): SIGNED_IN,
    ("jobs:draft-data", "GET"): "          302  404   404   200  404   404  404  404",
    ("jobs:draft-data", "POST"): "         302  404   404   302  404   404  404  404",
    ("jobs:draft-size", "GET"): "          302  404   404   200  404   404  404  404",
    ("jobs:draft-size", "POST"): "         302  404   404   302  404   404  404  404",
    ("jobs:draft-review", "GET"): "        302  404   404   200  404   404  404  404",
    ("jobs:draft-dry-run", "POST"): "      302  404   404   302  404   404  404  404",
    ("jobs:draft-submit", "POST"): "       302  404   404   302  404   404  404  404",
    ("jobs:draft-discard", "GET"): "       302  404   404   200  404   404  404  404",
    ("jobs:draft-discard", "POST"): "      302  404   404   302  404   404  404  404",
    ("api:jobs", "GET"): "                 401  200   200   200  200   200  200  200",
    ("api:jobs", "POST"): "                401  400   403   202  202   403  403  400",
    ("api:job", "GET"): "                  401  404   200   200  200   200  200  404",
    ("api:job-ranks", "GET"): "            401  404   200   200  200   200  200  404",
    ("api:job-why", "GET"): "              401  404   200   200  200   200  200  404",
    ("api:job-timeline", "GET"): "         401  404   200   200  200   200  200  404",
    ("api:job-manifests", "GET"): "        401  404   200   200  200   200  200  404",
    ("api:job-log", "GET"): "              401  404   200   200  200   200  200  404",
    ("api:job-log-text", "GET"): "         401  404   200   200  200   200  200  404",
    ("api:job-points", "GET"): "           401  404   200   200  200   200  200  404",
    ("api:job-stop", "POST"): "            401  404   403   202  202   403  202  404",
    ("api:job-suspend", "POST"): "         401  404   403   202  202   403  202  404",
    ("api:job-resume", "POST"): "          401  404   403   202  202   403  202  404",
}  # fmt: skip
for part in PARTS:
    TABLE.update(part.LINES)


def routes(resolver: URLResolver, spaces: tuple[str, ...] = ()) -> Iterator[str]:
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            yield from routes(entry, (*spaces, *([entry.namespace] if entry.namespace else [])))
        elif isinstance(entry, URLPattern):
            yield ":".join((*spaces, entry.name or f"(unnamed) {entry.pattern}"))


def test_every_route_has_its_lines_and_every_line_a_route() -> None:
    assert set(routes(get_resolver())) == {route for route, _method in TABLE}


class Scene:
    """The world with one object of each kind, all of them the scientist's, and somebody who comes along."""

    def __init__(self, world: World, who: str) -> None:
        self.world, owner = world, world.scientist
        self.job = factories.job(owner, world.place)
        self.draft = factories.draft(owner, world.nlp)
        self.token = ApiToken.objects.create(
            user=owner, name="t", prefix="mp_x", digest="d", expires_at=timezone.now() + timedelta(days=1)
        )
        browser(owner)
        self.session = ProviderSession.objects.get(user=owner)
        self.objects: dict[str, Any] = {}
        for part in PARTS:
            made = part.objects(world)
            assert not self.objects.keys() & made.keys(), "two apps call something of theirs by one name"
            self.objects |= made
        self.client = self._client(who)

    def _client(self, who: str) -> Client:
        match who:
            case "anonymous":
                return Client()
            case "nobody":
                return browser(factories.user("nobody"))
            case "stranger":
                return browser(self.world.stranger())
        roles = {"viewer": Role.VIEWER, "scientist": Role.SCIENTIST, "team admin": Role.TEAM_ADMIN,
                 "auditor": Role.AUDITOR, "operator": Role.OPERATOR}  # fmt: skip
        return browser(self.world.people[roles[who]])

    def address(self, route: str) -> str:
        name = route.rpartition(":")[2]
        if part := next((part for part in PARTS if route in part.ARGS), None):
            return reverse(route, args=part.ARGS[route](self.objects))
        if route.startswith("api:job-") or route == "api:job":
            return reverse(route, args=[self.job.pk])
        if name.startswith("draft-"):
            return reverse(route, args=[self.draft.pk])
        if route.startswith("jobs:log-") or name in ("detail", "stop", "suspend", "resume", "clone"):
            return reverse(route, args=[self.job.pk])
        ids = {"accounts:token-revoke": self.token.pk, "accounts:session-end": self.session.pk}
        return reverse(route, args=[ids[route]] if route in ids else [])

    def body(self, route: str) -> dict[str, Any]:
        if part := next((part for part in PARTS if route in part.BODIES), None):
            return part.BODIES[route](self.objects)
        draft = {"version": self.draft.version, "go": "next"}
        bodies: dict[str, dict[str, Any]] = {
            "api:jobs": {"tenant": "nlp", "document": DOCUMENT},
            "jobs:new": {"tenant": "nlp", "template": "charlm"},
            "jobs:draft-data": {**draft, "name": "n"},
            "jobs:draft-size": {**draft, "ranks": "2"},
            "accounts:token-create": {"name": "ci", "days": "30", "scope": "write"},
            "accounts:preferences": {"language": "en", "theme": "", "timezone": ""},
            "accounts:language": {"language": "en"},
            "accounts:theme": {"theme": "dark"},
        }
        return bodies.get(route, {})

    def ask(self, route: str, method: str) -> int:
        if route.endswith("resume"):
            Job.objects.for_system().update(wanted="suspend")
        kind = {"content_type": "application/json"} if route.startswith("api:") else {}
        call = getattr(self.client, method.lower())
        body = self.body(route) if method == "POST" else {}
        return int(call(self.address(route), body, **(kind if method != "GET" else {})).status_code)


@pytest.mark.parametrize("who", PEOPLE)
@pytest.mark.parametrize(("route", "method"), TABLE, ids=lambda value: value)
def test_who_may_do_what(world: World, route: str, method: str, who: str) -> None:
    expected = dict(zip(PEOPLE, map(int, TABLE[route, method].split()), strict=True))
    assert Scene(world, who).ask(route, method) == expected[who]


@pytest.mark.parametrize("who", ["anonymous", "scientist", "operator"])
def test_other_methods_do_nothing(world: World, who: str) -> None:
    scene = Scene(world, who)
    before = (Job.objects.for_system().count(), Draft.objects.for_system().count())
    allowed = {(route, method) for route, method in TABLE}
    for route in {route for route, _ in TABLE}:
        for method in METHODS:
            if (route, method) not in allowed:
                code = scene.ask(route, method)
                assert code in (405, 404) or (who == "anonymous" and code in (302, 401, 403)), (route, method, code)
    assert (Job.objects.for_system().count(), Draft.objects.for_system().count()) == before
