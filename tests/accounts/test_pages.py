"""Settings, permissions, language: the pages a person finds about themselves."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts import services
from apps.accounts.domain import GRANTS
from apps.accounts.models import ApiToken, ProviderSession, User
from apps.accounts.types import MISSING, PERMISSION_NAMES, ROLE_NAMES, Permission, Role
from apps.audit.models import Entry
from tests.accounts.conftest import Visitor
from tests.accounts.fake_provider import FakeProvider


@pytest.fixture
def inside(visitor: Visitor, provider: FakeProvider) -> Visitor:
    provider.claims["groups"] = ["/nlp/team-admins", "/platform/operators"]
    visitor.sign_in()
    return visitor


def test_every_right_and_role_has_its_words() -> None:
    assert set(GRANTS) == set(MISSING) == set(PERMISSION_NAMES) == set(Permission)
    assert set(ROLE_NAMES) == set(Role)


def test_permission_page_is_the_table_and_marks_the_reader(inside: Visitor) -> None:
    page = inside.get("/permissions/").content.decode()
    for permission in Permission:
        assert permission.value in page
    allowed = sum(len(roles) for roles in GRANTS.values())
    assert page.count(">may</span>") == allowed
    assert page.count(">may not</span>") == len(GRANTS) * len(Role) - allowed
    assert page.count('class="tag">you<') == 2
    assert "<b>Team admin</b> in NLP" in page


def test_person_without_a_role_is_told_whom_to_ask(visitor: Visitor) -> None:
    visitor.sign_in()
    assert "no role yet" in visitor.get("/permissions/").content.decode()
    assert "no role yet" in visitor.get("/settings/").content.decode()


def test_token_is_shown_once(inside: Visitor) -> None:
    response = inside.post("/settings/tokens/", {"name": "夜间评测", "days": "30", "read_only": "on"})
    page = response.content.decode()
    assert "no-store" in response["Cache-Control"]
    (clear,) = [part.split("<")[0] for part in page.split('id="new-token" tabindex="0">')[1:]]
    assert services.token_user(clear) is not None
    assert clear not in inside.get("/settings/").content.decode()
    token = ApiToken.objects.get()
    assert inside.post(f"/settings/tokens/{token.pk}/revoke/").status_code == 302
    assert services.token_user(clear) is None
    assert inside.post("/settings/tokens/999999/revoke/").status_code == 404


@pytest.mark.parametrize("data", [{}, {"name": "x"}, {"name": "", "days": "30"}, {"name": "x", "days": "31"}])
def test_bad_token_form_comes_back_with_what_was_typed(inside: Visitor, data: dict[str, str]) -> None:
    response = inside.post("/settings/tokens/", data)
    assert response.status_code == 422
    assert not ApiToken.objects.exists()


def test_own_sessions_are_listed_and_another_can_be_ended(inside: Visitor, provider: FakeProvider) -> None:
    other = Visitor(headers={"User-Agent": "Other/1 <b>"})
    other.provider = provider
    other.sign_in()
    page = inside.get("/settings/").content.decode()
    assert "Other/1 &lt;b&gt;" in page
    assert "This browser" in page
    row = ProviderSession.objects.exclude(session_key=inside.session.session_key).get()
    inside.post(f"/settings/sessions/{row.pk}/end/")
    assert not other.signed_in
    assert inside.signed_in


def test_foreign_session_cannot_be_ended(inside: Visitor, provider: FakeProvider) -> None:
    mine = ProviderSession.objects.get()
    provider.claims["sub"] = "eve"
    eve = Visitor()
    eve.provider = provider
    eve.sign_in()
    assert eve.post(f"/settings/sessions/{mine.pk}/end/").status_code == 404
    assert inside.signed_in


def test_language_is_the_persons_then_the_cookies_then_the_browsers(inside: Visitor) -> None:
    assert 'lang="zh-hans"' in inside.get("/settings/", headers={"Accept-Language": "zh-CN"}).content.decode()
    inside.post("/language/", {"language": "zh-hans", "next": "/permissions/"})
    assert User.objects.get().language == "zh-hans"
    assert 'lang="zh-hans"' in inside.get("/settings/", headers={"Accept-Language": "en"}).content.decode()
    inside.post("/settings/preferences/", {"language": "en", "theme": "dark", "timezone": "Asia/Shanghai"})
    page = inside.get("/settings/").content.decode()
    assert 'lang="en"' in page, "the person's row wins over the cookie"
    assert 'data-theme="dark"' in page
    assert "CST" in page, "times are in the person's zone"
    assert Entry.objects.filter(action="accounts.preferences-set").count() == 2


def test_language_without_signing_in(db: None) -> None:
    client = Client()
    response = client.post("/language/", {"language": "zh-hans", "next": "//evil.test/"})
    assert response["Location"] == "/"
    assert 'lang="zh-hans"' in client.get("/sign-in/", headers={"Accept-Language": "en"}).content.decode()
    assert client.post("/language/", {"language": "xx"}).status_code == 400
    assert client.post("/theme/", {"theme": "dark"}).status_code == 302
    assert 'data-theme="dark"' in client.get("/sign-in/").content.decode()


@pytest.mark.parametrize(("field", "value"), [("language", "xx"), ("theme", "pink"), ("timezone", "../etc/passwd")])
def test_preferences_outside_the_choices_are_not_kept(inside: Visitor, field: str, value: str) -> None:
    assert inside.post("/settings/preferences/", {field: value}).status_code == 422
    assert getattr(User.objects.get(), field) == ""


def test_names_for_the_audit_log(inside: Visitor) -> None:
    user = User.objects.get()
    asked = [f"user:{user.pk}", "user:nonsense", "system:watch", "user:00000000-0000-0000-0000-000000000000"]
    assert services.audit_names(asked) == {f"user:{user.pk}": "Ada"}


@pytest.mark.parametrize("path", ["/sign-in/", "/signed-out/", "/settings/", "/permissions/"])
def test_pages_need_no_inline_script_or_style(inside: Visitor, path: str) -> None:
    visitor = Client() if path in ("/sign-in/", "/signed-out/") else inside
    response: Any = visitor.get(path)
    assert response.status_code == 200
    page = response.content.decode()
    assert " style=" not in page
    assert "<style" not in page
    assert " onclick" not in page
    assert "unsafe" not in response["Content-Security-Policy"]
