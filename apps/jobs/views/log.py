"""What the log card of a job's page reads: its kept lines."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_GET

from apps.jobs.views.detail import job_of
from apps.streams import services as streams


@require_GET
def log_lines(request: HttpRequest, job_id: str) -> HttpResponse:
    """A page of lines as JSON, asked for as by REST."""
    return streams.page_answer(request.GET, job_of(request, job_id).topic)


@require_GET
def log_line(request: HttpRequest, job_id: str, number: int) -> HttpResponse:
    """One line as a text: what the page shows only the beginning of."""
    return streams.line_answer(job_of(request, job_id).topic, number)


@require_GET
def log_download(request: HttpRequest, job_id: str) -> HttpResponse | StreamingHttpResponse:
    """All of it, or a range, as a text file."""
    job = job_of(request, job_id)
    return streams.text_answer(request, request.GET, job.topic, job.pk)
