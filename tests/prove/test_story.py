"""The portal is one story told to five people: here by REST, chapter after chapter."""

from __future__ import annotations

import pytest

from tests.prove.stack import SCIENTIST, STRANGER, Stack
from tests.prove.story import Story, now

pytestmark = [pytest.mark.prove, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def story(stack: Stack) -> Story:
    stack.await_all()
    return Story(stack)


@pytest.fixture(scope="module")
def began(story: Story) -> str:
    return now()


def test_a_tenant_is_asked_for_granted_and_made(story: Story, began: str) -> None:
    story.begin_tenant()
    place = story.await_tenant()
    assert {step["kind"] for step in place["steps"]} >= {
        "Namespace", "ResourceQuota", "LimitRange", "NetworkPolicy", "ServiceAccount", "Role", "RoleBinding", "Queue",
    }  # fmt: skip
    story.sign_in_again()


def test_a_lost_object_is_seen_and_restored(story: Story) -> None:
    story.lose_a_limit_range()


def test_quota_is_asked_for_and_decided_in_two_steps(story: Story) -> None:
    story.ask_quota(amount=2)
    story.until(lambda: story.cluster_follows(8), 60, "the cluster's quota and queue follow")


def test_a_secret_is_entered_and_never_shown(story: Story) -> None:
    story.enter_secret()
    story.pasted_secret_is_refused()


def test_the_job_trains_with_quota_and_secret(story: Story) -> None:
    story.train()
    story.rest(SCIENTIST).await_phase(story.job, "running", "succeeded")
    story.secret_is_a_file()
    story.await_training()


def test_its_checkpoint_becomes_a_model(story: Story) -> None:
    story.register()
    story.await_files()
    story.files_are_the_checkpoint()
    story.approve_version()
    assert story.ask(STRANGER, "GET", f"models/{story.model}").status_code == 200, "it is public"


def test_the_model_is_deployed_and_answers(story: Story) -> None:
    story.deploy()
    story.await_deployment()
    story.make_key()
    story.await_chat()
    assert story.ask(STRANGER, "GET", f"deployments/{story.deployment}").status_code == 404


def test_it_is_stopped_and_removed(story: Story) -> None:
    story.scale_and_remove()


def test_the_auditor_finds_every_step(story: Story, began: str) -> None:
    story.life_is_told()
    story.refusals_are_exact(began)
    story.export_is_audited()
