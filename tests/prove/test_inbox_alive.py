"""The bell: a page that is open hears of a notice by itself."""

from __future__ import annotations

import pytest
from django.test import TestCase
from playwright.sync_api import Browser, expect

from apps.accounts.domain import Role
from apps.accounts.models import User
from apps.notices import services as notices
from apps.streams import services as streams
from tests.prove.conftest import Portal

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(240)]


def test_an_open_page_hears_of_a_notice_and_offers_it(portal: Portal, chrome: Browser) -> None:
    admin = User.objects.get(iss="https://id.test", sub=Role.TEAM_ADMIN.value)
    context = chrome.new_context(viewport={"width": 1440, "height": 900}, base_url=portal.url)
    context.add_cookies([{"name": "sessionid", "value": portal.seeds.cookies["team-admin"], "url": portal.url}])
    try:
        inbox, elsewhere = context.new_page(), context.new_page()
        inbox.goto("/inbox/")
        elsewhere.goto("/settings/")
        inbox.wait_for_timeout(800)
        before = notices.unread_count(admin.actor())
        # The portal runs in a process of its own, and a test's transaction never commits.
        portal.change(
            "INSERT INTO notices_notice (user_id, kind, params, link, digest) VALUES (%s, 'job.succeeded',"
            """ '{"name": "told while you looked"}', '/jobs/', 'd')""",
            admin.pk,
        )
        with TestCase.captureOnCommitCallbacks(execute=True):
            streams.hint(notices.topic_of(admin.pk))
        expect(elsewhere.locator("#bell")).to_contain_text(f"{before + 1} unread", timeout=20_000)
        expect(inbox.locator(".new-bar")).to_contain_text("1 new notice, show", timeout=20_000)
        inbox.locator(".new-bar").click()
        inbox.get_by_role("button", name="The job told while you looked has ended well").click()
        expect(inbox).to_have_url(f"{portal.url}/jobs/")
        expect(elsewhere.locator("#bell")).to_contain_text(f"{before} unread" if before else "nothing unread")
    finally:
        context.close()
