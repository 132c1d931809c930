"""What the loss watch found and did, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.jobs.domain.losswatch import Finding
from apps.jobs.domain.phases import Phase
from apps.jobs.services.messages import PHASES

RULES: dict[str, Promise] = {
    "nan": gettext_lazy("The loss of step {step} is no number (NaN)."),
    "infinite": gettext_lazy("The loss of step {step} is infinite."),
    "zero-nan": gettext_lazy(
        "The loss of step {step} is exactly 0 and the norm of its gradient is {value}: the loss is lost, not low."
    ),
    "limit": gettext_lazy("The loss of step {step} is {value}, above the limit of {against}."),
    "leap": gettext_lazy(
        "The loss of step {step} is {value}, {times} times the mean of the good ones before ({against})."
    ),
    "sigma": gettext_lazy(
        "The loss of step {step} is {value}. By mean and deviation of the last 100 good ones, up to {against} is usual."
    ),
    "gradient": gettext_lazy("The norm of the gradient of step {step} is no finite number ({value})."),
    "nan-iterations": gettext_lazy(
        "Up to step {step} the loss of {value} iterations was no number; Megatron skipped them and printed none."
    ),
    "flat": gettext_lazy("Since step {since} every loss is {value}, to the last digit: nothing is learnt."),
    "slow": gettext_lazy(
        "Since step {since} the throughput is below a quarter of what the first steps predict: {value} tokens a second"
        " instead of {against}."
    ),
    "behind": gettext_lazy(
        "Since step {since} the throughput is below a quarter of what finished jobs alike predict: {value} tokens a"
        " second instead of {against}."
    ),
    "overflow": gettext_lazy("Since step {since} gradients overflow again and again, and their steps are skipped."),
}

NEXT: dict[str, Promise] = {
    "flat": gettext_lazy("Check that parameters are given to the optimizer and that the learning rate is not 0."),
    "slow": gettext_lazy("Look at the ranks' nodes and at the time spent on reading data; one slow rank slows all."),
    "behind": gettext_lazy("Look at the ranks' nodes and at the time spent on reading data; one slow rank slows all."),
    "overflow": gettext_lazy("Train in bf16, clip the gradient, or lower the learning rate."),
}
"""What to do about an alert."""

PRESETS: dict[str, tuple[Promise, Promise]] = {
    "watchdog": (
        gettext_lazy("Watchdog"),
        gettext_lazy("3 in a row far too high, or one above 100"),
    ),
    "spike": (gettext_lazy("Spike"), gettext_lazy("one that is 10 times as high")),
    "threefold": (gettext_lazy("Threefold"), gettext_lazy("3 in a row that are 10 times as high")),
    "off": (gettext_lazy("Off"), gettext_lazy("nobody watches")),
}

ACTIONS: dict[str, Promise] = {
    "notify": gettext_lazy("tell the owner"),
    "mark": gettext_lazy("mark it in the list"),
    "suspend": gettext_lazy("suspend the job"),
    "quarantine": gettext_lazy("quarantine later checkpoints"),
    "offer": gettext_lazy("offer to resume"),
}


QUARANTINED = gettext_lazy(
    "Its newest checkpoints are in quarantine, and it would go on from one of them. Resume from the last good one as"
    " a new job, or say on the job's page that it was a false alarm."
)


def phase_text(phase: Phase, attempt: int, reason: str) -> str:
    """A phase that was reached, in which attempt, and why."""
    text = _("{phase}, attempt {n}").format(phase=PHASES[phase], n=attempt)
    return f"{text}. {reason}" if reason else text


def preset_name(key: str) -> Promise | str:
    """A preset in words."""
    return PRESETS[key][0] if key in PRESETS else key


def figure(value: float) -> str:
    """A loss as people read it: four digits, or the word for what is no number."""
    if math.isnan(value):
        return "NaN"
    return f"{value:.4g}" if math.isfinite(value) else ("∞" if value > 0 else "-∞")


def finding_text(stored: Mapping[str, Any]) -> str:
    """What was found, as it is stored, in a sentence."""
    found = Finding.load(stored)
    params = {
        "step": str(found.step),
        "since": str(found.since),
        "value": figure(found.value),
        "against": "" if found.against is None else figure(found.against),
        "times": figure(found.value / found.against) if found.against else "",
    }
    return str(RULES.get(found.rule, found.rule)).format_map(params)


def since_text(found: Finding) -> str:
    """Since when, and what was good before."""
    if found.good is None:
        return _("No step before it was good.")
    if found.since == found.step:
        return _("The last good step was {good}.").format(good=found.good)
    return _("Abnormal since step {since}; the last good step was {good}.").format(since=found.since, good=found.good)


def done_text(done: Mapping[str, Any], good_step: int | None) -> str:
    """One thing that was done when it tripped."""
    match done["act"], done.get("phase"):
        case "suspend", None:
            return _("The job is suspended; its ranks were given their grace to save an emergency checkpoint.")
        case "suspend", phase:
            return _("It was not suspended: it was “{phase}” already.").format(phase=PHASES[Phase(str(phase))])
        case "quarantine", _phase if good_step is None:
            return _("All its checkpoints are quarantined: they stay, and nothing goes on from them.")
        case "quarantine", _phase:
            return _("Checkpoints after step {good} are quarantined: they stay, and nothing goes on from them.").format(
                good=good_step
            )
        case "notify", _phase:
            return _("Its owner was told.")
    return ""
