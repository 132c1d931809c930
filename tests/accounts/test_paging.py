"""Lists by key: each row once whatever comes in between, back the same way, and the rest of the address stays."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.http import QueryDict
from django.utils import timezone

from apps.accounts import services
from apps.accounts.domain import Role
from apps.accounts.models import ApiToken, Membership
from tests import factories
from tests.factories import World
from tests.pages import browser

DOWN = services.Listing("tokens", size=2)
UP = services.Listing("members", key="place", rising=True, text=True, size=2)


def _tokens(world: World, count: int) -> None:
    until = timezone.now() + timedelta(days=9)
    ApiToken.objects.bulk_create(
        ApiToken(user=world.scientist, name=f"ci {n}", prefix="mp_x", digest=str(n), expires_at=until)
        for n in range(count)
    )


def test_every_row_comes_once_on_the_way_and_again_on_the_way_back(world: World) -> None:
    for name in ("李雷", "ada", "Ada", "ada~1", "zoë & co"):
        factories.user(name, Role.VIEWER, world.nlp)  # two of them are called Ada
    found = services.members_of(world.nlp.pk)
    pages = [UP.page(found, QueryDict("q=x&part=live"))]
    while pages[-1].older:
        pages.append(UP.page(found, QueryDict(pages[-1].older)))
    seen = [member.pk for page in pages for member in page.rows]
    assert seen == [member.pk for member in found.order_by("place")]
    assert len(seen) == Membership.objects.filter(tenant=world.nlp).count() > 4
    assert all(page.older.startswith("q=x&members-after=") for page in pages[:-1])
    back = UP.page(found, QueryDict(pages[-1].newer))
    assert back.rows == pages[-2].rows


def test_a_row_added_or_gone_meanwhile_moves_no_other_to_another_page(world: World) -> None:
    _tokens(world, 6)
    found = services.tokens_of(world.scientist.actor())
    first = DOWN.page(found, QueryDict(""))
    expected = [token.pk for token in found[2:4]]
    ApiToken.objects.filter(pk=first.rows[-1].pk).delete()
    ApiToken.objects.create(
        user=world.scientist, name="new", prefix="mp_y", digest="y", expires_at=first.rows[0].expires_at
    )
    assert [token.pk for token in DOWN.page(found, QueryDict(first.older)).rows] == expected


@pytest.mark.parametrize("odd", ["x", "-1", "0", "9" * 40, "%00", "٣", "1.5"])
def test_a_made_up_place_is_the_first_page(world: World, odd: str) -> None:
    _tokens(world, 3)
    found = services.tokens_of(world.scientist.actor())
    assert len(DOWN.page(found, QueryDict(f"tokens-before={odd}")).rows) == 2
    client = browser(world.scientist)
    assert client.get(f"/tenants/nlp/?members-after={odd}&members-before=%00&member=%00").status_code == 200
    assert client.get(f"/api/v1/tenants/nlp/members?q={odd}").status_code == 200


def test_two_lists_of_the_settings_page_go_on_by_themselves_and_tokens_are_found_by_name(world: World) -> None:
    _tokens(world, 45)
    client = browser(world.scientist)
    for _browser in range(24):
        browser(world.scientist)
    oldest = ApiToken.objects.earliest("pk")
    page = client.get(f"/settings/?tokens-before={oldest.pk + 1}&token=ci").content.decode()
    assert page.count("Revoke token") == 1
    assert f"?tokens-before={oldest.pk + 1}&amp;token=ci&amp;sessions-before=" in page
    assert page.count("last used") == 20
    assert "No token of yours has a name like this" in client.get("/settings/?token=nightly").content.decode()


def test_members_by_rest_are_found_by_name_and_come_in_pages(world: World) -> None:
    for number in range(3):
        factories.user(f"member {number}", Role.VIEWER, world.nlp)
    client = browser(world.scientist)
    first = client.get("/api/v1/tenants/nlp/members?q=member&limit=2").json()
    last = client.get("/api/v1/tenants/nlp/members", {"q": "member", "limit": 2, "cursor": first["next"]}).json()
    assert [one["name"] for one in first["results"] + last["results"]] == ["Member 2", "Member 1", "Member 0"]
    assert (first["results"][0]["role"], last["next"]) == ("viewer", None)
