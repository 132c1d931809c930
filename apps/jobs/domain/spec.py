"""The portable job document, and reading it into a spec.

A document is a flat mapping of field to what was typed; it may be half-filled. A `JobSpec` is a whole, valid one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from apps.jobs.domain import losswatch, pasted
from apps.jobs.domain.fields import Checkpoint, Decimal, Field, Integer, JobName, Metrics, SecretNames, Text
from apps.jobs.domain.problems import InvalidDocument, Problem
from apps.jobs.domain.templates import TEMPLATES, Container, Template

MAX_GPUS_PER_RANK = 8
MAX_RANKS = 512

NAME_LIMIT = 63
DATA_FIELDS: dict[str, Field] = {"name": JobName(NAME_LIMIT), "note": Text(500)}
ACCESS_FIELDS: dict[str, Field] = {"secrets": SecretNames(), "resume_from": Checkpoint(), "metrics": Metrics()}
SIZE_FIELDS: dict[str, Field] = {
    "ranks": Integer(1, MAX_RANKS, 2),
    "gpus_per_rank": Integer(1, MAX_GPUS_PER_RANK, 1),
    "cpus_per_rank": Decimal(0.1, 256, 1),
    "memory_gib_per_rank": Decimal(0.1, 4096, 1),
    "attempts": Integer(1, 100, 3),
    "grace_seconds": Integer(0, 3600, 30),
}


LATER_FIELDS = (*SIZE_FIELDS, *losswatch.FIELDS)
"""What the wizard asks for in its second step."""


class Origin(NamedTuple):
    """A checkpoint of another job."""

    job_id: str
    step: int


@dataclass(frozen=True)
class JobSpec:
    """What the user asked for. `memory_gib_per_rank` in GiB; `attempts` counts all runs, not only restarts.
    `secrets` are names; their values are nowhere but in the cluster while the job lives. `resume_from` is the
    checkpoint of another job that the first run begins with, "" for none; `metrics` are
    what its ranks expose to Prometheus, by series; `watch` what the loss watch goes by when it begins."""

    template: str
    name: str
    note: str
    parameters: Mapping[str, Any]
    secrets: list[str]
    ranks: int
    gpus_per_rank: int
    cpus_per_rank: float
    memory_gib_per_rank: float
    attempts: int
    grace_seconds: int
    resume_from: str
    metrics: Mapping[str, str]
    watch: losswatch.Settings

    @property
    def origin(self) -> Origin | None:
        job_id, _at, step = self.resume_from.partition("@")
        return Origin(job_id, int(step)) if step else None

    @property
    def gpus(self) -> int:
        return self.ranks * self.gpus_per_rank

    @property
    def container(self) -> Container:
        return TEMPLATES[self.template].build(self.parameters)

    @property
    def total_steps(self) -> int | None:
        """How many steps the job means to make, where its template knows."""
        field = TEMPLATES[self.template].steps_field
        return int(self.parameters[field]) if field else None

    def document(self) -> dict[str, Any]:
        """The document this spec was read from, with defaults filled in."""
        own = {key: getattr(self, key) for key in (*DATA_FIELDS, *ACCESS_FIELDS, *SIZE_FIELDS)}
        return {"template": self.template, **own, **self.watch.document(), **self.parameters}


def fields_of(template: Template) -> dict[str, Field]:
    """Every field of a document made from this template, in order."""
    return {**DATA_FIELDS, **template.fields, **ACCESS_FIELDS, **later_fields(template)}


def later_fields(template: Template) -> dict[str, Field]:
    """The fields of the wizard's second step."""
    return {**SIZE_FIELDS, **losswatch.fields(template.watch_actions)}


def read_fields(fields: Mapping[str, Field], document: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Read some fields: the good values, and a problem for each bad one. A missing field is its default.

    A pasted secret is found first: other problems quote what was typed.
    """
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, field in fields.items():
        raw = document.get(name, field.default)
        value = pasted.problem(name, raw) or field.read(name, raw)
        if isinstance(value, Problem):
            problems.append(value)
        else:
            values[name] = value
    return values, problems


def read_spec(document: Mapping[str, Any]) -> JobSpec:
    """Read a whole document. Raises InvalidDocument with every problem found, unknown fields included."""
    template = TEMPLATES.get(str(document.get("template", "")))
    if template is None:
        raise InvalidDocument([Problem("template", "unknown-template", {"value": str(document.get("template"))[:40]})])
    fields = fields_of(template)
    values, problems = read_fields(fields, document)
    problems += [Problem(str(k)[:60], "unknown-field") for k in document if k != "template" and k not in fields]
    if problems:
        raise InvalidDocument(problems)
    parameters = {key: values.pop(key) for key in template.fields}
    watch = losswatch.Settings.read({key: values.pop(key) for key in losswatch.FIELDS})
    return JobSpec(template=template.key, parameters=parameters, watch=watch, **values)
