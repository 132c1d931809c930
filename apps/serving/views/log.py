"""What the log card of a deployment's page reads besides its lines by REST."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_GET

from apps.serving.views.detail import deployment_of
from apps.streams import services as streams


@require_GET
def log_line(request: HttpRequest, deployment_id: str, number: int) -> HttpResponse:
    """One line as a text: what the page shows only the beginning of."""
    return streams.line_answer(deployment_of(request, deployment_id).topic, number)


@require_GET
def log_download(request: HttpRequest, deployment_id: str) -> HttpResponse | StreamingHttpResponse:
    """All of it, or a range, as a text file."""
    deployment = deployment_of(request, deployment_id)
    return streams.text_answer(request, request.GET, deployment.topic, deployment.pk)
