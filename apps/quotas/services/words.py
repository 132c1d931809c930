"""Codes of the domain in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import formats, timezone
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.quotas.domain.asking import Problem
from apps.quotas.domain.states import State
from apps.quotas.models import RequestEvent

BAD_QUANTITY: dict[str, Promise] = {
    "number": _("it does not begin with a number such as 8, 0.5 or 1e3."),
    "suffix": _("the suffix is unknown; there are n, u, m, k, M, G, T, P, E and Ki, Mi, Gi, Ti, Pi, Ei."),
    "exponent": _("the exponent is too large."),
}

STATES: dict[State, Promise] = {
    State.TEAM: _("Waiting for the team admin"),
    State.PLATFORM: _("Waiting for the platform"),
    State.TEAM_OFFER: _("Counter-offer by the team admin"),
    State.PLATFORM_OFFER: _("Counter-offer by the platform"),
    State.APPROVED: _("Approved"),
    State.ACTIVE: _("Active"),
    State.ENDED: _("Ended"),
    State.REJECTED: _("Rejected"),
    State.WITHDRAWN: _("Withdrawn"),
    State.LAPSED: _("Lapsed"),
}

LOOKS: dict[State, tuple[str, str]] = {
    State.TEAM: ("amber", "hourglass"),
    State.PLATFORM: ("amber", "hourglass"),
    State.TEAM_OFFER: ("amber", "arrows-left-right"),
    State.PLATFORM_OFFER: ("amber", "arrows-left-right"),
    State.APPROVED: ("blue", "calendar-event"),
    State.ACTIVE: ("green", "check"),
    State.ENDED: ("outline", "calendar-off"),
    State.REJECTED: ("red", "ban"),
    State.WITHDRAWN: ("grey", "arrow-back-up"),
    State.LAPSED: ("grey", "calendar-off"),
}
"""Tone and icon of each state."""

STEPS: dict[str, tuple[str, str, Promise]] = {
    "asked": ("blue", "send", _("{who} asked for {amounts}")),
    "team-approved": ("green", "check", _("{who} approved as team admin")),
    "approved": ("green", "check", _("{who} approved for the platform")),
    "rejected": ("red", "ban", _("{who} rejected it")),
    "offered": ("amber", "arrows-left-right", _("{who} offered {amounts} until {until}")),
    "accepted": ("green", "check", _("{who} accepted the offer")),
    "withdrawn": ("grey", "arrow-back-up", _("{who} withdrew it")),
    "began": ("green", "calendar-event", _("It began: the limit rose")),
    "ended": ("grey", "calendar-off", _("It ended and was given back")),
    "lapsed": ("grey", "calendar-off", _("Its time was over before it was decided")),
}
"""Tone, icon and sentence of each kind of step in a request's history."""

PROBLEMS: dict[str, Promise] = {
    "required": _("Fill this in."),
    "nothing": _("Ask for at least one."),
    "not-a-quantity": _("“{value}” is no quantity: {why}"),
    "not-whole": _("“{value}” is not a whole number of them."),
    "amount-range": _("{amount} is out of range: choose from 0 to {maximum}."),
    "unknown-pool": _("The tenant has no {pool}. A platform operator must give it a first one."),
    "not-a-time": _("“{value}” is no time. It reads like 2026-12-01 09:00."),
    "past": _("This time is over already."),
    "backward": _("The end must come after the begin."),
    "too-long": _("At most {days} days can be asked for at once."),
    "too-far": _("This begins too far ahead: at most {days} days."),
    "no-reason": _("Say why, in a sentence: people decide by it."),
    "long-reason": _("At most {maximum} characters fit."),
    "more-than-asked": _("{amount} is more than was asked for ({asked}). An offer gives the same or less."),
    "same-as-asked": _("This is what was asked for: approve it instead."),
}


def problem_text(problem: Problem) -> str:
    """A problem as a sentence in the reader's language."""
    return _filled(str(PROBLEMS.get(problem.code, problem.code)), problem.params)


def _filled(text: str, params: Mapping[str, Any]) -> str:
    return text.format_map({key: str(value) for key, value in params.items()}) if params else text


def moment(text: Any) -> str:
    """A recorded time in the reader's zone and language."""
    try:
        here = timezone.localtime(datetime.fromisoformat(str(text)))
    except ValueError:
        return str(text)
    return f"{formats.date_format(here, 'DATE_FORMAT')} {here:%H:%M}"


def step_text(event: RequestEvent, products: Mapping[str, str]) -> SafeString:
    """A step of the history as a sentence, its person in bold; `products` names pools as people call them."""
    who = format_html("<b>{}</b>", event.actor.name) if event.actor else ""
    amounts = str(event.params.get("amounts", ""))
    for pool, product in products.items():
        amounts = amounts.replace(pool, product)
    params = {"amounts": amounts, "until": moment(event.params.get("until", ""))}
    return format_html(str(STEPS[event.kind][2]), who=who, **params)


def late_text(late: Any) -> str:
    """What to say to somebody who came second (`AlreadyDecided`)."""
    state = STATES[late.request.standing]
    if late.by:
        return str(_("Nothing was changed: it was already decided by {name}. It is “{state}” now.")).format(
            name=late.by, state=state
        )
    return str(_("Nothing was changed: it is “{state}” now.")).format(state=state)
