"""The wizard's fields as widgets, and the filters of the list. What is right is decided by the domain alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import django_filters
from django import forms
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.jobs.domain import losswatch
from apps.jobs.domain.fields import (
    Choice,
    Choices,
    Command,
    Decimal,
    Environment,
    Field,
    Integer,
    Metrics,
    SecretNames,
    Text,
)
from apps.jobs.domain.phases import FINAL, Phase
from apps.jobs.domain.problems import Problem
from apps.jobs.domain.spec import ACCESS_FIELDS, DATA_FIELDS, later_fields
from apps.jobs.domain.templates import TEMPLATES
from apps.jobs.models import Draft, Job
from apps.jobs.services import loss_words
from apps.jobs.services.losswatch import fields_of, settings_of
from apps.jobs.services.messages import FIELDS, problem_text
from apps.secrets import services as secrets

UNITS: dict[str, Promise] = {
    "steps": _("steps"),
    "checkpoint_every": _("steps"),
    "global_batch": _("samples"),
    "step_seconds": _("s"),
    "processes": _("processes"),
    "ranks": _("ranks"),
    "gpus_per_rank": pgettext_lazy("unit", "GPUs"),
    "cpus_per_rank": _("cores"),
    "memory_gib_per_rank": _("GiB"),
    "attempts": _("runs"),
    "grace_seconds": _("s"),
}

SECTIONS: dict[str, list[tuple[Promise, tuple[str, ...]]]] = {
    "size": [
        (_("How large"), ("ranks", "gpus_per_rank")),
        (_("Each rank"), ("cpus_per_rank", "memory_gib_per_rank")),
        (_("If it breaks"), ("attempts", "grace_seconds")),
        (_("Loss watch"), losswatch.FIELDS),
    ],
}


def folded(draft: Draft) -> dict[str, str]:
    """What stands for a folded section of the size step, by the section's first field."""
    fields = later_fields(TEMPLATES[draft.document["template"]])
    value = {name: typed(draft.document_or(name, field.default)) for name, field in fields.items()}
    rules, meant = loss_words.PRESETS.get(value["watch"], (value["watch"], ""))
    acts = [str(word) for key, word in loss_words.ACTIONS.items() if key in value["watch_actions"].split()]
    return {
        "cpus_per_rank": _("{cpus_per_rank} CPU cores and {memory_gib_per_rank} GiB of memory").format_map(value),
        "attempts": _("runs {attempts} times at most · {grace_seconds} s to save when told to end").format_map(value),
        "watch": " · ".join(filter(None, (f"{rules}: {meant}", ", ".join(acts)))),
    }


def step_fields(draft: Draft, step: str) -> Mapping[str, Field]:
    """The fields one step of the wizard asks for."""
    if step == "size":
        return later_fields(TEMPLATES[draft.document["template"]])
    return {**DATA_FIELDS, **TEMPLATES[draft.document["template"]].fields, **ACCESS_FIELDS}


class StepForm(forms.Form):
    """One step of a draft as it was typed, with its problems beside the fields.

    Every field is text to Django: `1.5` GPUs must come back as they were typed, with the domain's own words.
    """

    def __init__(self, draft: Draft, step: str, problems: Iterable[Problem] = ()) -> None:
        data: dict[str, Any] = {k: typed(draft.document[k]) for k in draft.document if k != "template"}
        super().__init__(data=data)
        self.step, self._problems = step, list(problems)
        for name, field in step_fields(draft, step).items():
            if name not in draft.document:
                data[name] = typed(field.default)
            if isinstance(field, SecretNames):
                data[name] = data[name].split()
                self.fields[name] = _secrets(name, draft.tenant_id, data[name])
            elif isinstance(field, Choices):
                data[name] = data[name].split()
                self.fields[name] = widget(name, field)
            else:
                self.fields[name] = widget(name, field)
        self.full_clean()

    def clean(self) -> None:
        for problem in self._problems:
            self.add_error(problem.field if problem.field in self.fields else None, problem_text(problem))

    def sections(self) -> list[tuple[Promise, list[forms.BoundField], bool]]:
        """The fields in groups, each with its title and whether one of them has a problem."""
        groups = SECTIONS.get(self.step) or [
            (_("What it is"), tuple(DATA_FIELDS)),
            (_("What it runs"), tuple(name for name in self.fields if name not in DATA_FIELDS | ACCESS_FIELDS)),
            (_("What it is given"), tuple(ACCESS_FIELDS)),
        ]
        return [
            (title, [self[name] for name in names], any(self[name].errors for name in names)) for title, names in groups
        ]


class WatchForm(forms.Form):
    """The settings of a job's loss watch as they hold, or as they were typed, with their problems."""

    def __init__(self, job: Job, told: Mapping[str, Any] | None = None, problems: Iterable[Problem] = ()) -> None:
        self._problems = list(problems)
        settings = told or {key: typed(value) for key, value in settings_of(job).document().items()}
        super().__init__(data={**settings, "watch_actions": settings["watch_actions"].split()})
        for name, field in fields_of(job).items():
            self.fields[name] = widget(name, field)
        self.full_clean()

    def clean(self) -> None:
        for problem in self._problems:
            self.add_error(problem.field if problem.field in self.fields else None, problem_text(problem))


def typed(value: Any) -> str:
    """A value of a document as it is typed into its field."""
    if isinstance(value, list | tuple):
        return shlex.join(value)
    if value is None:
        return ""
    if isinstance(value, dict):
        return "\n".join(f"{key}={text}" for key, text in value.items())
    return str(value)


def _secrets(name: str, tenant_id: int, chosen: list[str]) -> forms.Field:
    """The tenant's secrets to tick; one that is gone stays there to be unticked."""
    names = secrets.names_of(tenant_id)
    gone = [(one, _("{name} (not there any more)").format(name=one)) for one in chosen if one not in names]
    label, help_text = FIELDS[name]
    return forms.MultipleChoiceField(
        required=False,
        label=str(label),
        help_text=str(help_text),
        choices=[*((one, one) for one in names), *gone],
        widget=forms.CheckboxSelectMultiple(attrs={"class": "ticks"}),
    )


def widget(name: str, field: Field) -> forms.Field:
    """The field as it is asked for, with its label and help."""
    if isinstance(field, Choice | Choices):
        return _choice(name, field)
    attrs = {"class": "form-control", "autocomplete": "off", "spellcheck": "false"}
    match field:
        case Integer():
            attrs["inputmode"] = "numeric"
        case Decimal():
            attrs["inputmode"] = "decimal"
        case Command() | Environment() | Metrics():
            attrs |= {"class": "form-control mono", "rows": "3"}
        case Text():
            attrs["rows"] = "2"
    lines = isinstance(field, Command | Environment | Metrics | Text)
    label, help_text = FIELDS[name]
    made = forms.CharField(
        required=False,
        strip=False,
        label=str(label),
        help_text=str(help_text),
        widget=forms.Textarea(attrs) if lines else forms.TextInput(attrs),
    )
    made.unit = UNITS.get(name, "")  # type: ignore[attr-defined]  # templates/django/forms/field.html shows it inside
    return made


def _choice(name: str, field: Choice | Choices) -> forms.Field:
    label, help_text = FIELDS[name]
    if isinstance(field, Choices):
        return forms.MultipleChoiceField(
            required=False,
            label=str(label),
            help_text=str(help_text),
            choices=[(key, loss_words.ACTIONS[key]) for key in field.options],
            widget=forms.CheckboxSelectMultiple(attrs={"class": "ticks"}),
        )
    return forms.ChoiceField(
        required=False,
        label=str(label),
        help_text=str(help_text),
        choices=[(key, "{}: {}".format(*loss_words.PRESETS[key])) for key in field.options],
        widget=forms.Select(attrs={"class": "form-select"}),
    )


STATES: dict[str, tuple[Promise, tuple[Phase, ...]]] = {
    "alive": (_("Not ended"), tuple(phase for phase in Phase if phase not in FINAL)),
    "running": (_("Running"), (Phase.RUNNING,)),
    "waiting": (_("Waiting or starting"), (Phase.SUBMITTED, Phase.WAITING, Phase.STARTING, Phase.RESTARTING)),
    "suspended": (_("Suspended"), (Phase.SUSPENDING, Phase.SUSPENDED)),
    "failed": (_("Failed"), (Phase.FAILED,)),
    "ended": (_("Succeeded or stopped"), (Phase.SUCCEEDED, Phase.STOPPED, Phase.STOPPING)),
}


class JobFilter(django_filters.FilterSet):
    """`?state=&mine=&tenant=&q=` of the list of jobs. A value nobody knows filters nothing."""

    state = django_filters.ChoiceFilter(
        choices=[(key, word) for key, (word, _phases) in STATES.items()], method="in_state"
    )
    mine = django_filters.ChoiceFilter(choices=[("1", "1")], method="of_mine")
    tenant = django_filters.CharFilter(field_name="tenant__slug")
    q = django_filters.CharFilter(method="named", max_length=63)

    class Meta:
        model = Job
        fields: list[str] = []

    def in_state(self, jobs: QuerySet[Job], _name: str, value: str) -> QuerySet[Job]:
        return jobs.filter(phase__in=STATES[value][1])

    def of_mine(self, jobs: QuerySet[Job], _name: str, _value: str) -> QuerySet[Job]:
        return jobs.filter(owner_id=self.request.actor.user_pk or None)

    def named(self, jobs: QuerySet[Job], _name: str, value: str) -> QuerySet[Job]:
        return jobs.filter(name__icontains=value)
