"""The portal is one story told to five people: here at their browsers, by clicking and typing, chapter after chapter."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from deploy.local.stack import TREE
from tests.prove.browser import PHASE_MS, Office, all_text, await_phase, choose_in_menu, go, needs
from tests.prove.stack import ADMIN, AUDITOR, SCIENTIST, STRANGER, Stack, until
from tests.prove.story import OPERATOR, TENANT, Story

pytestmark = [pytest.mark.prove, pytest.mark.timeout(420)]

LIVE_MS = 45_000
"""What a page that stays open is told comes by itself; at the latest when it next asks."""
PLACE = ["Namespace", "Resource quota", "Limit range", "Network: closed", "Service account", "Role", "Volcano queue"]


@pytest.fixture(scope="module")
def story(stack: Stack) -> Story:
    """What the chapters hand on, and a look behind the scenes."""
    stack.await_all()
    return Story(stack)


@pytest.fixture(scope="module")
def office(chrome: Browser, stack: Stack) -> Iterator[Office]:
    with Office(chrome, stack) as opened:
        yield opened


@pytest.fixture(scope="module")
def idle(story: Story) -> int:
    """What the tenant holds before this story's own work: whatever earlier ones have left to run."""
    return int(story.pool()["held"])


# --- 1: the tenant --------------------------------------------------------------------------------------------------


def test_a_tenant_is_asked_for_granted_and_made_while_they_look(office: Office, story: Story) -> None:
    slug = f"hall-{story.tag}" if story.seen(OPERATOR, f"tenants/{TENANT}") else TENANT
    name = f"语音 {story.tag}"
    operator, admin = office.page(OPERATOR), office.page(ADMIN)
    ask_for_tenant(admin, slug, name)
    needs(operator, f"Tenant {name} with 6 GPUs is asked for").click(timeout=LIVE_MS)
    expect(operator.locator("main")).to_contain_text(f"speech {story.tag}")
    operator.get_by_role("button", name="Approve tenant").click()
    operator.get_by_role("link", name=f"Go to tenant {name}").click()
    expect(operator.locator("#live .answer")).to_contain_text(
        re.compile(r"(\d+) of \1 objects are as they should be"), timeout=PHASE_MS
    )
    for title in PLACE:
        step = operator.get_by_role("listitem").filter(has=operator.get_by_text(title, exact=True))
        expect(step).to_contain_text("As it should be")
    expect(operator.locator("#reach")).to_contain_text("nothing else: no other tenant, no node")
    expect(admin.locator("#live")).to_contain_text("赵磊 approved", timeout=LIVE_MS)
    in_inbox(admin, f"赵磊 approved the tenant {name} with 6 GPUs")
    story.await_tenant(slug)
    if slug == TENANT:
        office.sign_in_again(ADMIN)  # groups are read at sign-in, and name a tenant that is there from now on


def ask_for_tenant(page: Page, slug: str, name: str) -> None:
    go(page, "Tenants")
    page.get_by_role("link", name="Ask for a tenant").click()
    expect(page).to_have_url(re.compile("/tenant-requests/new$"))
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Short name").fill(slug)
    page.get_by_label("GPUs", exact=True).fill("6")
    page.get_by_label("Reason").fill(f"speech {name.split()[1]}")
    page.get_by_role("button", name="Ask for tenant").click()
    expect(page.locator("main")).to_contain_text("Platform operators have been told")


def in_inbox(page: Page, told: str, *, follow: bool = False) -> None:
    """What a person was told; `follow` goes on to what it tells of."""
    page.locator("#bell").click()
    line = page.get_by_role("button", name=told).first
    expect(line).to_be_visible()
    if follow:
        line.click()


# --- 2: quota -------------------------------------------------------------------------------------------------------


def test_quota_is_asked_for_and_decided_in_two_steps(office: Office, story: Story) -> None:
    scientist, admin, operator = (office.page(who) for who in (SCIENTIST, ADMIN, OPERATOR))
    before = story.pool()["limit"]
    go(admin, "Home")
    go(scientist, "Quota and usage")
    scientist.get_by_role("link", name="Ask for quota").click()
    tenant = tenant_name(story)
    scientist.get_by_role("link", name=tenant, exact=True).click()
    much = scientist.locator("section").filter(has=scientist.get_by_role("heading", name="How much more"))
    much.get_by_role("textbox").fill("2")
    scientist.get_by_label("Why").fill(f"quota {story.tag}")
    scientist.get_by_role("button", name=f"Ask for {tenant}").click()
    expect(scientist.locator(".trail")).to_contain_text("The team decides:")
    expect(scientist.get_by_role("button", name=re.compile("^Approve"))).to_have_count(0)

    needs(admin, f"quota {story.tag}").click(timeout=LIVE_MS)
    admin.get_by_role("button", name=re.compile("^Approve")).click()
    expect(admin.locator(".trail")).to_contain_text("The platform decides:")
    in_inbox(operator, f"陈静 of {tenant} asks for", follow=True)
    expect(operator.locator("main")).to_contain_text(f"quota {story.tag}")
    operator.get_by_role("button", name=re.compile("^Approve")).click()

    expect(scientist.locator("#live .head")).to_contain_text("is given back by itself", timeout=LIVE_MS)
    in_inbox(scientist, "赵磊 approved +2")
    until(lambda: story.pool()["limit"] == before + 2, 60, what="the limit is higher")


def tenant_name(story: Story) -> str:
    return str(story.rest(OPERATOR).get(f"tenants/{TENANT}")[0]["name"])


# --- 3: a secret ----------------------------------------------------------------------------------------------------


def test_a_secret_is_entered_and_never_shown(office: Office, story: Story) -> None:
    page, name = office.page(SCIENTIST), f"hub-{story.tag}"
    go(page, "Secrets")
    page.get_by_role("link", name="Enter secret").first.click()
    page.get_by_label("For tenant").select_option(TENANT)
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Kind").select_option(label="Token or API key")
    page.get_by_label("Key", exact=True).first.fill("token")
    page.get_by_label("Value", exact=True).first.fill(story.canary)
    page.get_by_role("button", name="Store secret").click()
    expect(page.locator("#toasts")).to_contain_text(f"“{name}” is stored")
    shows_no_secret(page, story)
    page.get_by_role("link", name=f"Replace {name}").click()
    expect(page.get_by_label("Value", exact=True).first).to_have_value("")
    shows_no_secret(page, story)


def shows_no_secret(page: Page, story: Story) -> None:
    for secret in filter(None, (story.canary, story.key)):
        assert secret not in all_text(page), page.url


# --- 4: training ----------------------------------------------------------------------------------------------------


def test_a_job_is_submitted_by_the_wizard_and_trains(office: Office, story: Story, idle: int) -> None:
    page = office.page(SCIENTIST)
    fill_in_wizard(page, story)
    expect(page.locator("#answer")).to_contain_text("The API server accepts it", timeout=LIVE_MS)
    expect(page.locator("main")).to_contain_text(f"hub-{story.tag}")
    shows_no_secret(page, story)
    page.get_by_role("button", name="Submit to").click()
    expect(page).to_have_url(re.compile(r"/jobs/[0-9A-Z]{26}/$"), timeout=LIVE_MS)
    story.job = last_part(page.url)
    expect(page.locator("#state")).to_have_attribute("data-phase", re.compile("running|succeeded"), timeout=PHASE_MS)
    story.secret_is_a_file()
    await_phase(page, "succeeded")
    expect(page.locator("#log")).to_contain_text("Checkpoint saved: step 100,")
    page.get_by_role("link", name="History").click()
    expect(page.locator("#tabs tbody tr", has_text="Running")).to_have_count(1)
    shows_no_secret(page, story)
    page.get_by_role("link", name="Spec and manifests").click()
    expect(page.locator("#tabs")).to_contain_text("kind: Job")
    shows_no_secret(page, story)
    until(lambda: story.pool()["held"] == idle, 60, what="the hold is given back")


def fill_in_wizard(page: Page, story: Story) -> None:
    """To the last step, with the secret ticked."""
    go(page, "Jobs")
    page.get_by_role("link", name="New job").first.click()
    page.get_by_label("For tenant").select_option(TENANT)
    page.get_by_role("button", name="Begin with Character language model").click()
    page.get_by_label("Name", exact=True).fill(f"tale {story.tag} 故事")
    page.get_by_label("Steps", exact=True).fill("100")
    page.get_by_label("Checkpoint every", exact=True).fill("20")
    page.get_by_label("Least time per step").fill("0.1")
    page.get_by_label(f"hub-{story.tag}").check()
    page.get_by_role("button", name="Size and queue").click()
    page.get_by_role("button", name="Review job").click()


def last_part(url: str) -> str:
    return url.rstrip("/").rsplit("/", 1)[1]


# --- 5: the marketplace ---------------------------------------------------------------------------------------------


def test_its_checkpoint_becomes_a_model_that_others_find(office: Office, story: Story) -> None:
    scientist, admin, stranger = (office.page(who) for who in (SCIENTIST, ADMIN, STRANGER))
    go(admin, "Home")
    register(scientist, story)
    expect(scientist.locator("#state")).to_have_attribute("data-files", "ready", timeout=PHASE_MS)
    expect(scientist.locator(".lineage")).to_contain_text(f"tale {story.tag} 故事")
    scientist.get_by_role("link", name="Files", exact=True).click()
    expect(scientist.locator("#tabs tbody tr")).to_have_count(3)
    scientist.get_by_role("button", name="Propose for approval").click()
    expect(scientist.locator("#toasts")).to_contain_text("is now “Candidate”")
    search_models(stranger, story)
    expect(stranger.locator("main")).to_contain_text("No model")

    needs(admin, f"tale-{story.tag} v1 waits for approval").click(timeout=LIVE_MS)
    expect(admin.locator("#tabs")).to_contain_text("<script>alert(1)</script>")
    admin.get_by_label("Comment").fill("the loss is fine")
    admin.get_by_role("button", name="Approve version").click()
    expect(scientist.locator("#state")).to_have_attribute("data-stage", "approved", timeout=LIVE_MS)
    in_inbox(scientist, f"Lars Lindqvist moved your tale-{story.tag} v1", follow=True)
    for page in (admin, stranger):
        search_models(page, story)
        page.get_by_role("link", name=f"tale-{story.tag}", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"tale-{story.tag}")


def register(page: Page, story: Story) -> None:
    page.get_by_role("link", name="Register as model").click()
    page.get_by_label("Name", exact=True).fill(f"tale-{story.tag}")
    page.get_by_label("Licence").fill("Apache-2.0")
    page.get_by_label("Every tenant, once a version is approved").check()
    page.get_by_label("Card").fill("# Tale\n\n<script>alert(1)</script>")
    page.get_by_role("button", name="Register model").click()
    expect(page).to_have_url(re.compile(r"/models/[^/]+/\?version=1$"), timeout=LIVE_MS)


def search_models(page: Page, story: Story) -> None:
    """The search is there as soon as there is any model to find."""
    go(page, "Models")
    search = page.get_by_label("Name, tag or words of the card")
    if search.count():
        search.fill(f"tale-{story.tag}")
        search.press("Enter")
        expect(page).to_have_url(re.compile(f"q=tale-{story.tag}"))


# --- 6: the deployment ----------------------------------------------------------------------------------------------


def test_the_model_is_deployed_and_answers(office: Office, story: Story) -> None:
    page = office.page(SCIENTIST)
    page.get_by_role("link", name="Deploy v1").click()
    expect(page.get_by_label("Tenant", exact=True)).to_have_value(TENANT)
    expect(page.get_by_role("complementary", name="Whether it fits")).to_contain_text("Together")
    page.get_by_label("Name", exact=True).fill(f"tale-{story.tag}")
    page.get_by_role("button", name=f"Deploy to {tenant_name(story)}").click()
    expect(page).to_have_url(re.compile(r"/deployments/[^/]+/$"), timeout=LIVE_MS)
    story.deployment = last_part(page.url)
    await_phase(page, "ready", 2 * PHASE_MS)
    expect(page.locator("#state .answer")).to_contain_text("1 of 1 replica ready")
    make_key(page, story)
    chat(page)
    expect(page.locator("#log")).to_contain_text("tokens in")
    story.await_chat()


def make_key(page: Page, story: Story) -> None:
    """Shown once, and on no later page."""
    page.get_by_role("link", name="Keys", exact=True).click()
    page.get_by_label("What it is for").fill(f"ci {story.tag}")
    page.get_by_role("button", name="Make key").click()
    story.key = page.locator("#new-key").inner_text()
    assert len(story.key) > 20
    go(page, "Deployments")
    page.get_by_role("link", name=f"tale-{story.tag}", exact=True).click()
    page.get_by_role("link", name="Keys", exact=True).click()
    expect(page.locator("#tabs")).to_contain_text(f"ci {story.tag}")
    shows_no_secret(page, story)


def chat(page: Page) -> None:
    expect(page.get_by_role("button", name="Send")).to_be_enabled(timeout=LIVE_MS)
    page.get_by_label("at most").fill("24")
    page.get_by_role("textbox", name="Question", exact=True).fill("Once upon a time")
    page.get_by_role("button", name="Send").click()
    talk = page.get_by_role("log", name="Questions and answers")
    expect(talk).to_contain_text(re.compile(r"first token after [\d,]+ ms · [\d,.]+ tokens/s"), timeout=LIVE_MS)
    assert talk.locator(".turn:not(.mine) .turn-text").inner_text().strip()


# --- 7: audit -------------------------------------------------------------------------------------------------------


def test_a_stranger_finds_nothing_of_it(office: Office, story: Story) -> None:
    page = office.page(STRANGER)
    for path in (f"/jobs/{story.job}/", f"/deployments/{story.deployment}/", f"/tenants/{TENANT}/"):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 404, path
        expect(page.locator("body")).not_to_contain_text(story.tag)


def test_the_auditor_reads_its_life_in_both_languages(office: Office, story: Story) -> None:
    page = office.page(AUDITOR)
    go(page, "Audit")
    page.get_by_label("About").fill(f"tale {story.tag} 故事")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page).to_have_url(re.compile("[?&]about=tale"))
    page.get_by_role("link", name=f"陈静 submitted the job tale {story.tag} 故事 with 2 GPUs").click()
    page.get_by_role("link", name=f"Life of the job tale {story.tag} 故事").click()
    rows = page.locator("#entries tbody")
    for sentence in (
        f"陈静 submitted the job tale {story.tag} 故事 with 2 GPUs",
        f"陈静 registered tale-{story.tag} v1 from the job tale {story.tag} 故事",
        f"Lars Lindqvist moved tale-{story.tag} v1 from Candidate to Approved",
        f"陈静 deployed tale-{story.tag} v1 as tale-{story.tag} with 1 GPU",
        f"陈静 made the key ci {story.tag}",
    ):
        expect(rows).to_contain_text(sentence)
    shows_no_secret(page, story)
    exported(page, story)
    in_chinese(page, story)


def exported(page: Page, story: Story) -> None:
    for name, ending in (("Export as CSV", ".csv"), ("as JSON Lines", ".jsonl")):
        with page.expect_download() as waited:
            page.get_by_role("link", name=name).click()
        assert waited.value.suggested_filename.endswith(ending)
        text = waited.value.path().read_text()
        assert story.job in text
        assert story.canary not in text
    assert len(story.audited(action="audit.exported")) >= 2


def in_chinese(page: Page, story: Story) -> None:
    """The same page, and back: the choice is kept with the person."""
    if not (TREE / "locale/zh_Hans/LC_MESSAGES/django.mo").exists():
        pytest.skip("the Chinese catalogue is not compiled: make setup")
    choose_in_menu(page, "Language", "简体中文")
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    expect(page.locator("#entries tbody")).to_contain_text(f"陈静 提交了作业 tale {story.tag} 故事")
    choose_in_menu(page, "语言", "English")
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_the_deployment_is_removed(office: Office, story: Story, idle: int) -> None:
    page = office.page(SCIENTIST)
    page.get_by_role("link", name="Remove", exact=True).click()
    page.get_by_label("Type its name").fill(f"tale-{story.tag}")
    page.get_by_role("button", name="Remove deployment").click()
    await_phase(page, "removed")
    until(lambda: story.pool()["held"] == idle, 60, what="its hold is given back")
