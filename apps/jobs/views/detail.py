"""The page of one job, and what people may ask of it."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.services import Listing
from apps.accounts.types import Permission
from apps.clusters import services as clusters
from apps.jobs import services
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.forms import WatchForm
from apps.jobs.models import Job
from apps.jobs.services import holding, loss_words
from apps.jobs.services.board_words import board_view
from apps.jobs.services.elsewhere import has_store
from apps.jobs.services.failing import causes_of
from apps.jobs.services.gpus import by_rank, gpus_of
from apps.jobs.services.harvest_words import event_files_of
from apps.jobs.services.incidents import incidents_of
from apps.jobs.services.messages import PHASES
from apps.jobs.services.network import TOLD, slow_network
from apps.jobs.services.overview import going_of
from apps.jobs.services.pace import pace_of
from apps.jobs.services.picture import Picture, picture_of
from apps.jobs.services.reading import moves_of
from apps.jobs.services.registering import may_have_checkpoint
from apps.jobs.services.watched import watched
from apps.jobs.views.wizard import to_yaml
from apps.quotas import services as quotas
from apps.streams import services as streams

TABS = ("ranks", "manifests", "watch", "incidents", "history")
MOVES = Listing("moves", rising=True)
RELATED = (
    "tenant", "owner", "placement__tenant", "placement__cluster", "cloned_from", "loss_watch", "event_reader",
)  # fmt: skip


def job_of(request: HttpRequest, job_id: str) -> Job:
    visible = Job.objects.visible_to(request.actor)
    return get_object_or_404(visible.select_related(*RELATED), pk=job_id)


@require_GET
def detail(request: HttpRequest, job_id: str) -> HttpResponse:
    """The page, or what it asks for again: `?part=state` is its head and time line, `?part=steps` what of them moves
    with every step, `?part=tab&tab=…` one tab, `?part=ranks` the rows of one, `?part=gpus` its devices,
    `?part=events` how its event files are read, `?part=board` its TensorBoard."""
    job = job_of(request, job_id)
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS else TABS[0]
    match request.GET.get("part"):
        case "state":
            return render(request, "jobs/detail.html#head", _state(request, job))
        case "steps":
            return render(request, "jobs/detail.html#steps", {"job": job, "oob": True, **_pace(job)})
        case "gpus":
            return render(request, "jobs/gpus.html", {"job": job, "gpus": gpus_of(job)})
        case "events":
            return render(request, "jobs/events.html", {"job": job, "events": event_files_of(job)})
        case "board":
            may_control = services.may_control(request.actor, job)
            context = {"job": job, "tensorboard": board_view(job), "may_control": may_control}
            return render(request, "jobs/board.html", context)
        case "ranks":
            return render(request, "jobs/tab.html#rows", _tab(request, job, "ranks"))
        case "tab":
            return render(request, "jobs/detail.html#tab", {"job": job, **_tab(request, job, tab)})
    return render(request, "jobs/detail.html", whole_page(request, job, tab))


def whole_page(request: HttpRequest, job: Job, tab: str) -> dict[str, Any]:
    """What the page shows with one of its tabs."""
    beside = {"log_words": streams.LOG_WORDS, "gpus": gpus_of(job), "events": event_files_of(job)}
    beside["tensorboard"], beside["has_store"] = board_view(job), has_store(job)
    return _state(request, job) | _tab(request, job, tab) | beside


def _state(request: HttpRequest, job: Job) -> dict[str, Any]:
    nodes, found = _nodes(job), services.why(request.actor, job)
    paced = _pace(job)
    return {
        "job": job,
        "why": found,
        **paced,
        "went_on": _went_on(job, paced["picture"]),
        "nodes": nodes,
        "placed": [node for node, _ranks in nodes if node],
        "watched": watched(job),
        "causes": causes_of(job),
        "network": TOLD.get(slow_network(job)),
        "may_submit": request.actor.may(Permission.JOB_SUBMIT, job.tenant_id),
        "registers": request.actor.may(Permission.MODEL_REGISTER, job.tenant_id) and may_have_checkpoint(job),
        "reason": found.sentences[0] if found else services.reason_of(job),
        "raw": "" if found else str(job.reason_params.get("text", "")),
        **_buttons(request, job),
    }


def _pace(job: Job) -> dict[str, Any]:
    going = going_of([job])[job.pk]
    at, stretches = job.ended_at or timezone.now(), services.timeline_of(job)
    picture = picture_of(stretches, at, going.ready, ended=job.ended_at is not None)
    return {"going": going, "picture": picture, "pace": pace_of(job, stretches, at, going.ready)}


def _went_on(job: Job, picture: Picture | None) -> dict[str, int]:
    """Where the attempt after the last break began, and how many steps it made again."""
    if picture is None or not picture.breaks:
        return {}
    spans, broke = streams.spans(job.topic, "loss"), picture.breaks[-1].attempt
    if broke not in spans or broke + 1 not in spans:
        return {}
    (_first, last), (first, _last) = spans[broke], spans[broke + 1]
    return {"step": first, "lost": max(0, last - first + 1)}


def _nodes(job: Job) -> list[tuple[str, list[int]]]:
    """Ranks by node, for the squares above the log."""
    found: dict[str, list[int]] = {}
    for rank in services.ranks_of(job):
        found.setdefault(rank.node, []).append(rank.rank)
    return sorted(found.items())


def _buttons(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Which buttons are there and which of them are grey, with the reason."""
    wanted, phase = Wanted(job.wanted), job.state
    if phase.is_final or wanted is Wanted.STOP:
        why = _("The job has ended.") if phase.is_final else _("The job is being stopped.")
    elif not services.may_control(request.actor, job):
        why = _("Only its owner or a team admin may suspend or stop it.")
    else:
        why = ""
    resumable = wanted is Wanted.SUSPEND and not phase.is_final
    return {
        "grey": why,
        "resumable": resumable,
        "may_control": services.may_control(request.actor, job),
        "spoilt": resumable and not why and services.watch_of(job).quarantine,
    }


def _tab(request: HttpRequest, job: Job, tab: str) -> dict[str, Any]:
    ranks, moves = list(services.ranks_of(job)), moves_of(job)
    counts = {"ranks": len(ranks), "history": moves.count()}
    context: dict[str, Any] = {"tab": tab, "tabs": [(key, counts.get(key), key == tab) for key in TABS]}
    match tab:
        case "manifests":
            context["manifests"] = [(item["kind"], to_yaml(item)) for item in services.manifests_of(job)]
        case "incidents":
            context["incidents"] = incidents_of(job)
        case "watch":
            context |= {"job": job, "watched": watched(job), "may_control": services.may_control(request.actor, job)}
            context["watch_form"] = WatchForm(job)
        case "history":
            page = MOVES.page(moves, request.GET)
            told = [
                (move, Phase(move.phase), services.reason_text(move.reason, move.reason_params) if move.reason else "")
                for move in page.rows
            ]
            context |= {"history": page.of(told), "place": MOVES.place(request.GET)}
        case _:
            context["ranks"] = ranks
            context["told"] = by_rank(gpus_of(job).devices)
    return context


@require_http_methods(["GET", "POST"])
def stop(request: HttpRequest, job_id: str) -> HttpResponse:
    """GET says what will happen, POST does it."""
    if request.method == "POST":
        return control(request, job_id, "stop")
    job = job_of(request, job_id)
    services.require_control(request.actor, job)
    context = {"job": job, "going": going_of([job])[job.pk]}
    return render(request, "jobs/stop.html#question" if request.htmx else "jobs/stop.html", context)


_ACTS = {"stop": services.stop, "suspend": services.suspend, "resume": services.resume}


@require_POST
def control(request: HttpRequest, job_id: str, act: str) -> HttpResponse:
    """Stop, suspend or resume; a script gets the head of the page back, others the page."""
    job = job_of(request, job_id)
    said = {
        "stop": _("{name} is being stopped."),
        "suspend": _("{name} is being suspended."),
        "resume": _("{name} goes on."),
    }[act].format(name=job.name)
    tone = "done"
    try:
        _ACTS[act](request.actor, job=job)
    except services.NotNow as not_now:
        said, tone = _("Nothing was changed: the job is “{phase}”.").format(phase=PHASES[not_now.phase]), "failed"
    except services.Quarantined:
        said, tone = str(loss_words.QUARANTINED), "failed"
    except quotas.NoRoom as none:
        said, tone = services.problem_text(holding.problem(job, none)), "failed"
    except clusters.Closed as closed:
        said, tone = closed.text, "failed"
    if not request.htmx:
        (messages.success if tone == "done" else messages.warning)(request, said)
        return redirect("jobs:detail", job.pk)
    job.refresh_from_db()
    response = render(request, "jobs/detail.html#head", _state(request, job))
    response["HX-Trigger"] = json.dumps({"toast": {"text": said, "tone": tone}})
    return response


@require_POST
def clone(request: HttpRequest, job_id: str) -> HttpResponse:
    """A draft with everything this job was asked with."""
    job = job_of(request, job_id)
    draft = services.begin_draft(request.actor, tenant_id=job.tenant_id, clone_of=job)
    return redirect("jobs:draft-data", draft.pk)
