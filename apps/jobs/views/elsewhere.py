"""The page on which a job's lines are looked for in its cluster's Loki."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from apps.adapters.errors import OutsideError
from apps.jobs.domain.elsewhere import Look
from apps.jobs.models import Job
from apps.jobs.services import elsewhere
from apps.jobs.views.detail import job_of
from apps.streams import services as streams


def _job(request: HttpRequest, job_id: str) -> Job:
    """One whose cluster has a Loki: else there is no such page."""
    job = job_of(request, job_id)
    if not elsewhere.has_store(job):
        raise Http404
    return job


@require_GET
def look(request: HttpRequest, job_id: str) -> HttpResponse:
    """The form and the page of lines that it asks for; `?part=lines` is the lines alone, asked for until they came."""
    job = _job(request, job_id)
    context: dict[str, Any] = {"job": job, "given": _given(request)}
    try:
        asked = elsewhere.look_of(job, request.GET)
    except streams.BadQuestion as bad:
        return render(request, "jobs/elsewhere.html", context | {"errors": bad.errors}, status=422)
    answer = elsewhere.look(job, asked)
    context |= {"answer": answer, "address": urlencode(_params(asked))}
    context |= {"since": _moment(asked.since), "until": _moment(asked.until)}
    if answer.next is not None:
        context["next"] = urlencode(_params(asked) | {"after": answer.next})
    part = request.GET.get("part") == "lines"
    return render(request, "jobs/elsewhere.html#lines" if part else "jobs/elsewhere.html", context)


@require_GET
def download(request: HttpRequest, job_id: str) -> HttpResponse | StreamingHttpResponse:
    """All of it as a text file."""
    job = _job(request, job_id)
    try:
        pieces = elsewhere.text(job, elsewhere.look_of(job, request.GET))
    except streams.BadQuestion as bad:
        return render(request, "jobs/elsewhere.html", _bad(request, job, bad), status=422)
    except OutsideError as error:
        text = _("Loki cannot be read now: {text}").format(text=error.text)
        return HttpResponse(text, status=503, content_type="text/plain; charset=utf-8")
    return streams.text_file(request, pieces, f"{job.pk}-loki")


def _bad(request: HttpRequest, job: Job, bad: streams.BadQuestion) -> dict[str, Any]:
    return {"job": job, "given": _given(request), "errors": bad.errors}


def _given(request: HttpRequest) -> dict[str, str]:
    """What stands in the form: what was typed."""
    given = {name: request.GET.get(name, "") for name in ("since", "until", "q")}
    for name in ("since", "until"):
        if given[name].isascii() and given[name].isdigit() and len(given[name]) == len("1764548400000000000"):
            given[name] = f"{_moment(int(given[name])):%Y-%m-%dT%H:%M:%SZ}"
    return given | {"rank": ",".join(request.GET.getlist("rank"))}


def _params(asked: Look) -> dict[str, Any]:
    ranks = {"rank": ",".join(map(str, asked.ranks))} if asked.ranks else {}
    return {"since": asked.since, "until": asked.until, **ranks, **({"q": asked.text} if asked.text else {})}


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at // 10**9, UTC)
