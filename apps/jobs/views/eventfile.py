"""The form in the chart's card that takes a TensorBoard event file."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from apps.jobs import services
from apps.jobs.domain.eventfiles import MOST_BYTES, NoEventFile
from apps.jobs.services.eventfiles import read_events
from apps.jobs.views.detail import job_of


@require_POST
def event_file(request: HttpRequest, job_id: str) -> HttpResponse:
    """Read a file's scalars as points of the newest attempt."""
    job = job_of(request, job_id)
    services.require_control(request.actor, job)
    sent = request.FILES.get("file")
    if sent is None or (sent.size or 0) > MOST_BYTES:
        text = _("Choose an event file of at most {maximum} MiB.").format(maximum=MOST_BYTES >> 20)
        messages.warning(request, text)
        return redirect("jobs:detail", job.pk)
    try:
        found = read_events(request.actor, job=job, data=sent.read())
    except NoEventFile:
        messages.warning(request, _("This is no TensorBoard event file."))
        return redirect("jobs:detail", job.pk)
    said = ngettext("{n} new point was read.", "{n} new points were read.", found.stored).format(n=found.stored)
    messages.success(request, said)
    return redirect("jobs:detail", job.pk)
