"""What people do about the loss watch: change its rules, call its verdict a false alarm, go on from a good
checkpoint."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from apps.jobs import services
from apps.jobs.domain.fields import Choices
from apps.jobs.forms import WatchForm
from apps.jobs.services import losswatch
from apps.jobs.services.messages import PHASES
from apps.jobs.views.detail import job_of, whole_page


@require_POST
def loss_watch(request: HttpRequest, job_id: str) -> HttpResponse:
    """Change what the watch goes by from now on."""
    job = job_of(request, job_id)
    typed = {
        name: " ".join(request.POST.getlist(name)) if isinstance(field, Choices) else request.POST.get(name, "")
        for name, field in losswatch.fields_of(job).items()
    }
    try:
        losswatch.change_watch(request.actor, job=job, typed=typed)
    except services.NotNow as not_now:
        messages.warning(request, _("Nothing was changed: the job is “{phase}”.").format(phase=PHASES[not_now.phase]))
    except services.InvalidDocument as invalid:
        page = whole_page(request, job, "watch") | {"watch_form": WatchForm(job, typed, invalid.problems)}
        return render(request, "jobs/detail.html", page, status=422)
    else:
        messages.success(request, _("The loss watch of {name} is changed.").format(name=job.name))
    return redirect(f"{reverse('jobs:detail', args=[job.pk])}?tab=watch#tabs")


@require_POST
def loss_dismiss(request: HttpRequest, job_id: str) -> HttpResponse:
    """The verdict was a false alarm: checkpoints are good again, and the watch begins anew."""
    job = job_of(request, job_id)
    losswatch.dismiss(request.actor, job=job)
    if not request.htmx:
        return redirect("jobs:detail", job.pk)
    return render(request, "jobs/detail.html#head", whole_page(request, job_of(request, job_id), "watch"))


@require_POST
def loss_again(request: HttpRequest, job_id: str) -> HttpResponse:
    """A draft of a job that goes on from the last good checkpoint, opened where it can be submitted."""
    draft = losswatch.begin_again(request.actor, job=job_of(request, job_id))
    return redirect("jobs:draft-review", draft.pk)
