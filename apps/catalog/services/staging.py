"""How far a version has come: proposed by those who made it, approved by somebody else, withdrawn when no good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from apps.accounts import services as accounts
from apps.accounts.types import Actor, Denied, Permission
from apps.audit import services as audit
from apps.catalog import moves
from apps.catalog.domain import naming
from apps.catalog.domain.naming import Invalid
from apps.catalog.domain.stages import Stage, target_of
from apps.catalog.models import ModelVersion, StageChange
from apps.notices import services as notices

STAGE_MOVED = audit.action(
    "model.stage",
    _("{actor} moved {name} v{number} from {old} to {new}"),
    name=_("A version's stage changes"),
)
PROPOSED = notices.kind(
    "model.proposed", _("{who} proposes {name} v{number} for approval"), name=_("A model waits for approval"),
    icon="package", tone="amber",
)  # fmt: skip
DECIDED = notices.kind(
    "model.decided", _("{who} moved your {name} v{number} to {new}"), name=_("Somebody decided on your model"),
    icon="package",
)  # fmt: skip

RIGHTS = {
    "propose": Permission.MODEL_EDIT,
    "approve": Permission.MODEL_REVIEW,
    "send-back": Permission.MODEL_REVIEW,
    "withdraw": Permission.MODEL_EDIT,
    "bring-back": Permission.MODEL_EDIT,
}


class NotNow(Exception):
    """The step is not there from where the version is now; `code` says why, `stage` where it is."""

    def __init__(self, code: str, stage: Stage) -> None:
        super().__init__(code)
        self.code, self.stage = code, stage


@dataclass(frozen=True)
class Act:
    """A step somebody may ask for: `why` says why it is grey, "" when it is not."""

    key: str
    why: str = ""


def acts_on(actor: Actor, version: ModelVersion) -> list[Act]:
    """The steps from where a version is, for this actor; those without the right are left out."""
    found = []
    for key, right in RIGHTS.items():
        if target_of(Stage(version.stage), key) is not None and actor.may(right, version.tenant_id):
            found.append(Act(key, _obstacle(actor, version, key)))
    return found


def _obstacle(actor: Actor, version: ModelVersion, act: str) -> str:
    """Why a step cannot be taken by one who has the right, by its code."""
    if act == "approve" and str(version.author_id) == actor.user_pk:
        return "own"
    if act == "propose" and not version.is_ready:
        return "files-missing"
    return "files-faulty" if act == "propose" and version.facts.get("faults") else ""


@audit.use_case(STAGE_MOVED)
def move_stage(actor: Actor, *, version: ModelVersion, act: str, comment: str = "") -> ModelVersion:
    """Take one step. Of two people at once one succeeds. Raises Denied, NotNow, Invalid (the comment)."""
    target = f"model:{version.model_id}"
    actor.require(RIGHTS[act], version.tenant_id, target=target)
    if faults := naming.one_line("comment", comment, naming.NOTE_LIMIT, needed=act == "send-back"):
        raise Invalid(faults)
    old = Stage(version.stage)
    new = target_of(old, act)
    obstacle = _obstacle(actor, version, act)
    if obstacle == "own":
        reason = _("Nobody approves what they registered themselves. Ask another team admin.")
        raise Denied(Permission.MODEL_REVIEW, reason, tenant_id=version.tenant_id, target=target)
    if new is None or obstacle:
        raise NotNow(obstacle or "stage", old)
    if not ModelVersion.objects.for_system().filter(pk=version.pk, stage=old).update(stage=new):
        version.refresh_from_db()
        raise NotNow("stage", Stage(version.stage))
    StageChange.objects.create(version=version, old=old, new=new, by_id=actor.user_pk, comment=comment.strip())
    told: dict[str, Any] = {"name": version.model.name, "number": version.number}
    audit.record(STAGE_MOVED, actor, target, tenant_id=version.tenant_id, old=old, new=new, **told)
    moves.restate(version.model_id)
    _tell(actor, version, new)
    version.refresh_from_db()
    return version


def _tell(actor: Actor, version: ModelVersion, new: Stage) -> None:
    """Reviewers hear of a candidate, the author of what others decided."""
    link = f"{reverse('catalog:model', args=[version.model_id])}?version={version.number}"
    if new is Stage.CANDIDATE:
        reviewers = set(accounts.people_with(Permission.MODEL_REVIEW, version.tenant_id))
        people, kind = reviewers - {str(version.author_id), actor.user_pk}, PROPOSED
    else:
        people, kind = {str(version.author_id)} - {actor.user_pk}, DECIDED
    notices.tell(
        people, kind, link=link, tenant_id=version.tenant_id, who=actor.name, name=version.model.name,
        number=version.number, new=new,
    )  # fmt: skip


def waiting_for(actor: Actor) -> QuerySet[ModelVersion]:
    """Candidates that this actor may approve, oldest first."""
    tenants = actor.tenants_where(Permission.MODEL_REVIEW)
    found = ModelVersion.objects.visible_to(actor).filter(stage=Stage.CANDIDATE)
    if tenants is not None:
        found = found.filter(tenant_id__in=tenants)
    if actor.user_pk:
        found = found.exclude(author__id=actor.user_pk)
    return found.select_related("model", "author", "tenant").order_by("pk")
