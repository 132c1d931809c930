"""How far a version has come, and where its files are."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """What people say of a version. Only an approved one is seen beyond its tenant."""

    DRAFT = "draft"
    CANDIDATE = "candidate"
    APPROVED = "approved"
    WITHDRAWN = "withdrawn"


class Files(StrEnum):
    """Whether a version's files are in the portal's storage."""

    COMING = "coming"
    READY = "ready"
    FAILED = "failed"


class Visibility(StrEnum):
    TENANT = "tenant"
    PUBLIC = "public"


STEPS: dict[tuple[Stage, Stage], str] = {
    (Stage.DRAFT, Stage.CANDIDATE): "propose",
    (Stage.CANDIDATE, Stage.APPROVED): "approve",
    (Stage.CANDIDATE, Stage.DRAFT): "send-back",
    (Stage.DRAFT, Stage.WITHDRAWN): "withdraw",
    (Stage.CANDIDATE, Stage.WITHDRAWN): "withdraw",
    (Stage.APPROVED, Stage.WITHDRAWN): "withdraw",
    (Stage.WITHDRAWN, Stage.DRAFT): "bring-back",
}
"""Every step between stages, and what people call it."""


def target_of(stage: Stage, act: str) -> Stage | None:
    """Where an act leads from a stage; None where there is no such step."""
    return next((to for (old, to), name in STEPS.items() if old is stage and name == act), None)


def best(stages: set[Stage]) -> Stage:
    """The stage of a model: that of its version which has come farthest; withdrawn only when all are."""
    order = (Stage.APPROVED, Stage.CANDIDATE, Stage.DRAFT)
    return next((stage for stage in order if stage in stages), Stage.WITHDRAWN if stages else Stage.DRAFT)
