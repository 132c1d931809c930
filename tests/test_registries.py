"""Registries that upper apps fill in lower ones: each is complete, so that nothing is forgotten at start."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from django.apps import apps
from django.db import models

from apps.accounts.domain import GRANTS, Permission, Role
from apps.accounts.types import MISSING
from apps.audit import services as audit
from apps.clusters import services as clusters
from apps.jobs.domain import fields
from apps.jobs.domain.phases import Phase
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.services import elsewhere, losswatch, messages
from apps.streams import services as streams
from maasportal.celery import app

ROOT = Path(__file__).parents[1]


def own_models() -> list[type[models.Model]]:
    return [
        model for config in apps.get_app_configs() if config.name.startswith("apps.") for model in config.get_models()
    ]


def test_every_permission_is_granted_to_somebody_and_explained() -> None:
    assert GRANTS.keys() == MISSING.keys() == set(Permission)
    assert all(GRANTS.values())
    assert {role for roles in GRANTS.values() for role in roles} == set(Role)


def test_every_model_with_a_topic_can_be_followed() -> None:
    with_topic = {
        model._meta.model_name for model in own_models() if isinstance(getattr(model, "topic", None), property)
    }
    assert with_topic <= streams.topic_kinds()


def test_every_row_that_can_be_due_is_swept() -> None:
    due = {model._meta.app_label for model in own_models() if any(f.name == "due_at" for f in model._meta.fields)}
    assert {task.split(".")[0] for task in clusters.due_sweeps()} == due


def test_every_message_is_for_a_row_that_is_swept_or_asked_for_again() -> None:
    """Nothing else keeps a message whose worker was killed."""
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    # By the page that waits for it, and by each look at the job.
    asked_again = {"jobs.dry_run", elsewhere.TASK, losswatch.TASK}
    assert ours == clusters.due_sweeps().keys() | asked_again


def test_every_action_that_is_recorded_is_declared_with_a_sentence() -> None:
    declared = audit.actions()
    assert all("{" in audit.numbered(action.sentence, {}) for action in declared.values())
    keys = set()
    for path in (ROOT / "apps").rglob("*.py"):
        keys |= set(re.findall(r'\baction\(\s*"([^"]+)"', path.read_text()))
    assert keys == {key for key in declared if not key.startswith("test.")}


def test_every_code_of_the_domain_has_words() -> None:
    codes: set[str] = set()
    for path in (ROOT / "apps/jobs").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Reason", "Problem"):
                index = 0 if node.func.id == "Reason" else 1
                literals = node.args[index : index + 1]
                codes |= {arg.value for arg in literals if isinstance(arg, ast.Constant)}
    assert codes - messages.REASONS.keys() - messages.PROBLEMS.keys() == set()
    assert messages.PHASES.keys() == set(Phase)
    assert messages.TEMPLATES.keys() == TEMPLATES.keys()
    assert fields.JobName().kind == "name"
