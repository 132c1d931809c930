"""Secrets: a list with what uses them, the forms, what was refused; and a wizard that gives some to a job."""

from __future__ import annotations

from typing import Any

from apps.accounts.domain import Role
from apps.accounts.models import Tenant, User
from apps.jobs.domain.phases import Phase
from apps.secrets.models import Secret
from tests import factories
from tests.factories import World

S = "data-scientist"
PAGES = {
    "secrets": (S, "/secrets/?tenant=nlp"),
    "secrets-empty": (S, "/secrets/?tenant=nothing-here"),
    "secrets-none-fits": (S, "/secrets/?q=zzz"),
    "secrets-auditor": ("auditor", "/secrets/"),
    "secret-enter": (S, "/secrets/new?kind=registry"),
    "secret-replace": (S, "/secrets/{hub}/replace"),
    "secret-remove": (S, "/secrets/{hub}/remove"),
    "secret-remove-unused": (S, "/secrets/{registry}/remove"),
    "draft-secrets": (S, "/drafts/{with_secrets}/data?check=1"),
}


def seed(world: World, me: User) -> dict[str, Any]:
    other = world.people[Role.TEAM_ADMIN]
    hub = _secret(
        world.nlp, me, "hf-token", ["token"], note="Hugging Face, read only; renewed by Lars each May", version=3
    )
    _secret(world.nlp, other, "git-deploy-key", ["id_ed25519", "known_hosts"], kind="ssh")
    registry = _secret(
        world.nlp, other, "registry", ["username", "password"], note="镜像仓库 team/ 的推送账号", kind="registry"
    )
    for number in range(5):
        factories.job(
            me, world.place, phase=Phase.RUNNING if number else Phase.WAITING,
            document={"name": f"llama-7b-sft {number}", "secrets": ["hf-token"]},
        )  # fmt: skip
    draft = factories.draft(me, world.nlp, secrets="hf-token wandb", note="use ‹secret removed› to log in")
    return {"hub": hub.pk, "registry": registry.pk, "with_secrets": draft.pk}


def _secret(tenant: Tenant, by: User, name: str, keys: list[str], **values: Any) -> Secret:
    return Secret.objects.create(
        tenant=tenant, name=name, keys=keys, created_by=by, changed_by=by, **{"version": 1, **values}
    )
