"""The wizard: template, data, size, review. Its document is a draft; every way out of a step stores what was typed."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any

import yaml
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts import services as accounts
from apps.accounts.types import Permission
from apps.jobs import services
from apps.jobs.domain.fields import Choices, SecretNames
from apps.jobs.domain.spec import read_spec
from apps.jobs.domain.templates import TEMPLATES as SHAPES
from apps.jobs.forms import StepForm, folded, step_fields, typed
from apps.jobs.models import Draft
from apps.jobs.services import messages as words
from apps.jobs.services.layout import layout_of
from apps.jobs.services.overview import plan_of, step_of

STEPS: list[tuple[str, Promise, Promise]] = [
    ("data", gettext_lazy("Data and code"), gettext_lazy("Data and code")),
    ("size", gettext_lazy("Size and queue"), gettext_lazy("Size and queue")),
    ("review", gettext_lazy("Review"), gettext_lazy("Review job")),
]
"""Key, name, and what the button says that leads there."""


@never_cache
@require_http_methods(["GET", "POST"])
def gallery(request: HttpRequest) -> HttpResponse:
    """Choose what the job starts from; POST begins a draft of it."""
    actor = request.actor
    actor.require(Permission.JOB_SUBMIT, target="drafts")
    tenants = [one for one in accounts.tenants_of(actor) if actor.may(Permission.JOB_SUBMIT, one.pk)]
    if request.method == "POST":
        asked = request.POST.get("tenant", "")
        tenant = next((one for one in tenants if one.slug == asked), None)
        try:
            if tenant is not None:
                draft = services.begin_draft(actor, tenant_id=tenant.pk, template=request.POST.get("template", ""))
                return redirect("jobs:draft-data", draft.pk)
            messages.error(request, _("Choose one of your tenants."))
        except services.InvalidDocument as invalid:
            messages.error(request, words.problem_text(invalid.problems[0]))
    shapes = [(key, *words.TEMPLATES[key], shape.icon) for key, shape in SHAPES.items()]
    here = request.GET.get("tenant", "")
    return render(request, "jobs/gallery.html", {"shapes": shapes, "tenants": tenants, "here": here})


def _draft(request: HttpRequest, draft_id: uuid.UUID) -> Draft:
    own = Draft.objects.visible_to(request.actor).select_related("tenant", "cloned_from")
    return get_object_or_404(own, pk=draft_id)


def _address(draft: Draft, step: str) -> str:
    return reverse(f"jobs:draft-{step}", args=[draft.pk])


@never_cache
@require_http_methods(["GET", "POST"])
def step(request: HttpRequest, draft_id: uuid.UUID, step: str) -> HttpResponse:
    """A form of some fields. POST stores what was typed, whatever it is, and then goes where the button said."""
    draft = _draft(request, draft_id)
    if draft.submitted_at:
        return redirect("jobs:detail", draft.job_id)
    if request.method != "POST":
        problems = services.problems_of(draft, step) if "check" in request.GET else []
        return render(request, "jobs/step.html", _context(draft, step) | {"form": StepForm(draft, step, problems)})
    told = _told(request, draft, step)
    try:
        draft = services.save_draft(request.actor, draft, told, version=_version(request))
    except services.StaleDraft:
        return _stale(request, draft, step, told)
    if request.POST.get("go") == "save":
        return render(request, "jobs/step.html#saved", _context(draft, step))
    if request.POST.get("go") == "leave":
        messages.success(request, _("The draft is kept. It waits for you here."))
        return redirect("jobs:drafts")
    if request.POST.get("go") == "back":
        return redirect("jobs:new" if step == "data" else _address(draft, "data"))
    if problems := services.problems_of(draft, step):
        context = _context(draft, step) | {"form": StepForm(draft, step, problems)}
        return render(request, "jobs/step.html", context, status=422)
    return redirect(_address(draft, "size" if step == "data" else "review"))


def _told(request: HttpRequest, draft: Draft, step: str) -> dict[str, str]:
    """What came with the form. Browsers end the lines of a text field with CR LF, whatever was typed."""
    fields = step_fields(draft, step)
    sent = {name: request.POST.get(name) for name in fields}
    for name, field in fields.items():
        if isinstance(field, SecretNames | Choices) and name in request.POST:
            sent[name] = " ".join(filter(None, request.POST.getlist(name)))
    # A NUL cannot be stored. What stands in its place is refused where it was typed.
    return {
        name: value.replace("\r\n", "\n").replace("\0", "\x1a") for name, value in sent.items() if value is not None
    }


def _version(request: HttpRequest) -> int:
    sent = request.POST.get("version", "")
    return int(sent) if sent.isdecimal() and len(sent) < 10 else 0


def _context(draft: Draft, step: str) -> dict[str, Any]:
    keys = [key for key, _name, _button in STEPS]
    place = keys.index(step)
    plan = plan_of(draft)
    return {
        "draft": draft,
        "step": step,
        "steps": [(key, name, index < place, _address(draft, key)) for index, (key, name, _b) in enumerate(STEPS)],
        "next_word": STEPS[place + 1][2] if place + 1 < len(STEPS) else "",
        "back_word": STEPS[place - 1][1] if place else gettext_lazy("Template"),
        "plan": plan,
        "layout": layout_of(plan),
        "said": folded(draft) if step == "size" else {},
        "template_name": words.TEMPLATES[draft.document["template"]][0],
    }


@dataclass(frozen=True)
class Clash:
    """A field that differs between what is stored and what was typed here."""

    label: Promise
    name: str
    stored: str
    mine: str


def _stale(request: HttpRequest, draft: Draft, step: str, told: dict[str, str]) -> HttpResponse:
    """Another tab saved meanwhile: both versions side by side, and neither is lost until one is chosen."""
    draft.refresh_from_db()
    fields = step_fields(draft, step)
    clashes = [
        Clash(words.FIELDS[name][0], name, stored, told[name])
        for name in told
        if (stored := typed(draft.document.get(name, fields[name].default))) != told[name]
    ]
    context = _context(draft, step) | {"clashes": clashes, "told": told, "go": request.POST.get("go", "next")}
    template = "jobs/stale.html#notice" if request.POST.get("go") == "save" else "jobs/stale.html"
    return render(request, template, context, status=409)


@never_cache
@require_http_methods(["GET"])
def review(request: HttpRequest, draft_id: uuid.UUID) -> HttpResponse:
    """What will be created and what the API server says to it; `?part=answer` is the latter alone."""
    draft = _draft(request, draft_id)
    if draft.submitted_at:
        return redirect("jobs:detail", draft.job_id)
    if request.GET.get("part") == "answer":
        return render(request, "jobs/review.html#answer", _answer(draft))
    context = _context(draft, "review")
    plan = context["plan"]
    if plan.count:
        found = [
            (f"{_address(draft, step_of(p.field))}?check=1#id_{p.field}", _label(p.field), words.problem_text(p))
            for p in _all(plan)
        ]
        return render(request, "jobs/review.html", context | {"problems": found})
    manifests = services.manifests_of(draft)
    chosen = request.GET.get("object", "")
    index = int(chosen) if chosen.isdecimal() and len(chosen) < 9 else len(manifests)
    index = min(index, len(manifests) - 1)
    shown = [(number, item["kind"], item["metadata"]["name"]) for number, item in enumerate(manifests)]
    return render(
        request,
        "jobs/review.html",
        context
        | {
            "spec": read_spec(draft.document),
            "objects": shown,
            "index": index,
            "lines": yaml_lines(to_yaml(manifests[index])) if manifests else [],
            "changes": _changes(draft),
            "all": len(_settings(draft)),
            "answer": services.dry_run_of(draft),
        },
    )


def _answer(draft: Draft) -> dict[str, Any]:
    """What the API server said, and the plan that stands beside it."""
    plan = plan_of(draft)
    spec = None if plan.count else read_spec(draft.document)
    return {"draft": draft, "answer": services.dry_run_of(draft), "plan": plan, "spec": spec, "oob": True}


class _Plain(yaml.SafeDumper):
    """Writes what is shared twice: nobody wants to read `*id002`."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(manifest: dict[str, Any]) -> str:
    """A manifest as people write it: keys in the order they were given, nothing by reference."""
    text: str = yaml.dump(manifest, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
    return text


_KEY = re.compile(r"(\s*(?:- )*[\w./-]+:)(?=\s|$)")


def yaml_lines(text: str) -> list[tuple[str, str]]:
    """A manifest line by line: its key with what stands before it ("" where there is none), and the rest."""
    found = []
    for line in text.splitlines():
        key = _KEY.match(line)
        found.append((key[1], line[key.end() :]) if key else ("", line))
    return found


def _all(plan: Any) -> list[Any]:
    return [problem for found in plan.problems.values() for problem in found]


def _label(field: str) -> Any:
    return words.FIELDS[field][0] if field in words.FIELDS else field


def _settings(draft: Draft) -> dict[str, Any]:
    return {**step_fields(draft, "data"), **step_fields(draft, "size")}


def _changes(draft: Draft) -> list[tuple[Any, str, str]]:
    """Setting, value in the cloned job, value here; only what differs."""
    if draft.cloned_from is None:
        return []
    old, new = draft.cloned_from.document, draft.document
    fields = _settings(draft)
    pairs = {name: [typed(d.get(name, field.default)) for d in (old, new)] for name, field in fields.items()}
    return [(_label(name), before, after) for name, (before, after) in pairs.items() if before != after]


@require_POST
def dry_run(request: HttpRequest, draft_id: uuid.UUID) -> HttpResponse:
    """Ask the API server (a task does); the page is hinted when the answer is there."""
    draft = _draft(request, draft_id)
    problems = services.problems_of(draft)
    if not problems:
        services.ask_dry_run(request.actor, draft)
    if not request.htmx:
        return redirect(_address(draft, "review"))
    if problems:  # another tab broke it: the page shows where
        return HttpResponse(headers={"HX-Refresh": "true"})
    return render(request, "jobs/review.html#answer", _answer(draft))


@require_POST
def submit(request: HttpRequest, draft_id: uuid.UUID) -> HttpResponse:
    """Submit once, however often the button was pressed."""
    draft = _draft(request, draft_id)
    try:
        job = services.submit_draft(request.actor, draft=draft)
    except services.InvalidDocument as invalid:
        messages.error(request, words.problem_text(invalid.problems[0]))
        return redirect(_address(draft, "review"))
    return redirect("jobs:detail", job.pk)
