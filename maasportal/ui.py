"""Template tags and filters that every page may use."""

from __future__ import annotations

import functools
import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django import template
from django.conf import settings
from django.utils import formats, timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from apps.clusters.services import nodewords
from apps.jobs.domain.phases import Phase
from apps.jobs.services.messages import PHASES, SHORT, reason_text
from maasportal.shell import shell

__all__ = ["register", "shell"]

register = template.Library()

# --- icons ----------------------------------------------------------------------------------------------------------


@functools.cache
def _paths(name: str) -> str:
    """What stands between <svg> and </svg> in an icon's file, without its invisible frame."""
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise template.TemplateSyntaxError(f"“{name}” cannot name an icon.")
    text = (Path(settings.ICONS_DIR) / "outline" / f"{name}.svg").read_text()
    inner = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    return re.sub(r"\s*\n\s*", "", inner.replace('<path stroke="none" d="M0 0h24v24H0z" fill="none" />', ""))


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """An outline icon, hidden from screen readers: the word stands beside it."""
    return format_html(
        '<svg class="icon{}" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-linecap="round"'
        ' stroke-linejoin="round" aria-hidden="true" focusable="false">{}</svg>',
        f" {extra}" if extra else "",
        mark_safe(_paths(name)),  # noqa: S308 (a file of the icon set)
    )


# --- states: colour, icon and word, the same everywhere --------------------------------------------------------------

LOOKS: dict[Phase, tuple[str, str]] = {
    Phase.SUBMITTED: ("blue", "send"),
    Phase.WAITING: ("amber", "hourglass"),
    Phase.STARTING: ("blue", "loader-2"),
    Phase.RUNNING: ("green", "player-play"),
    Phase.RESTARTING: ("amber", "refresh"),
    Phase.SUSPENDING: ("violet", "player-pause"),
    Phase.SUSPENDED: ("violet", "player-pause"),
    Phase.STOPPING: ("grey", "player-stop"),
    Phase.STOPPED: ("grey", "player-stop"),
    Phase.SUCCEEDED: ("outline", "check"),
    Phase.FAILED: ("red", "alert-triangle"),
}


@register.simple_tag(name="pill")
def _pill(tone: str, name: str, word: object) -> SafeString:
    """A state: colour, icon and word. Tones: blue, amber, green, violet, grey, outline, red, unknown."""
    return format_html('<span class="pill tone-{}">{}{}</span>', tone, icon(name), word)


@register.simple_tag
def phase(value: str) -> SafeString:
    """A phase by itself."""
    known = Phase(value)
    return _pill(*LOOKS[known], PHASES[known])


@register.simple_tag
def job_state(job: Any) -> SafeString:
    """A job's phase with what it waits for, why it failed or who stopped it; hatched while its cluster is silent."""
    if silent := silent_since(job):
        return _pill("unknown", "help-circle", _("Unknown since {time}").format(time=clock(silent)))
    short = SHORT.get(job.reason) if job.reason.split(".")[0] in job.phase else None
    known = Phase(job.phase)
    word = str(short).format_map(_Blank(job.reason_params)) if short else PHASES[known]
    return _pill(*LOOKS[known], word)


class _Blank(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


@register.simple_tag
def silent_since(job: Any) -> datetime | None:
    """Since when nothing is known of a job because its cluster is silent."""
    found: datetime | None = job.silent_since
    return found


@register.simple_tag
def reason(job: Any) -> str:
    """Why a job is where it is, as a sentence."""
    return reason_text(job.reason, job.reason_params) if job.reason else ""


@register.filter
def phase_word(value: str) -> str:
    return str(PHASES[Phase(value)])


@register.simple_tag
def draft_state() -> SafeString:
    return _pill("grey", "pencil", _("Draft"))


_POD_LOOKS: dict[str, tuple[str, str, Promise]] = {
    "Pending": ("blue", "loader-2", gettext_lazy("Starting")),
    "Running": ("green", "player-play", gettext_lazy("Running")),
    "Succeeded": ("outline", "check", gettext_lazy("Succeeded")),
    "Failed": ("red", "alert-triangle", gettext_lazy("Failed")),
    "Gone": ("grey", "circle-minus", gettext_lazy("Removed")),
}


@register.simple_tag
def rank_state(rank: Any) -> SafeString:
    """The state of one pod."""
    if rank.phase == "Pending" and not rank.node:
        return _pill("amber", "hourglass", _("Waiting"))
    return _pill(*_POD_LOOKS.get(rank.phase, ("unknown", "help-circle", gettext_lazy("Unknown"))))


# --- numbers, durations, times ----------------------------------------------------------------------------------------


@register.filter
def grouped(value: float | None) -> str:
    """Thousands separated."""
    return "–" if value is None else formats.number_format(value, use_l10n=True, force_grouping=True)


@register.filter
def memory(value: int | None) -> str:
    """Bytes as "12.6 GiB", "160 MiB", "52 KiB"."""
    if value is None:
        return "–"
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size:
            number = value / size
            digits = 1 if number < 10 or (number < 100 and unit in ("TiB", "GiB")) else 0
            return f"{formats.number_format(number, digits, use_l10n=True)} {unit}"
    return ngettext("{n} byte", "{n} bytes", value).format(n=value)


@register.filter
def of_rank(told: Mapping[int, Any], rank: int) -> Any:
    """What is told of one rank; nothing is empty."""
    return told.get(rank, {})


@register.filter
def cores(thousandths: int) -> str:
    """Thousandths of a core as cores, a digit behind the point where there is something."""
    whole, rest = divmod(thousandths, 1000)
    return formats.number_format(thousandths / 1000, 1, use_l10n=True) if rest and whole < 1000 else grouped(whole)


@register.filter
def rate(value: float) -> str:
    """A rate with as many digits as it has: 31.5, 200."""
    return formats.number_format(value, 0 if value == int(value) else 2 if value < 20 else 1, use_l10n=True)


@register.filter
def amount_of(value: int, resource: str) -> str:
    """An amount of a node's resource in its unit."""
    return {"cpu": cores, "memory": memory}.get(resource, grouped)(value)


@register.filter
def tail(name: str) -> str:
    """What tells a node from those beside it: the end of its name, at most six letters."""
    last = name.split(".")[0].rpartition("-")[2]
    return last[-6:]


@register.filter
def problem_word(problem: str) -> Promise | str:
    return nodewords.PROBLEMS[problem][2] if problem else ""


@register.filter
def event_word(reason: str) -> Promise | str:
    """What an event of a node says, in words where there are any."""
    return nodewords.EVENTS.get(reason, reason)


@register.filter
def counts_word(counts: str) -> Promise:
    return nodewords.COUNTS[counts]


@register.filter
def moment(value: str) -> datetime | None:
    """A time as the API writes it."""
    return parse_datetime(value)


@register.filter
def magnitude(value: int | None) -> str:
    """A large count in short: "6.7 B", "27.2 M", "431 K"."""
    if value is None:
        return "–"
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if value >= size:
            number = value / size
            return f"{formats.number_format(number, 1 if number < 100 else 0, use_l10n=True)} {unit}"
    return grouped(value)


@register.filter
def unlocalized(value: float) -> str:
    """A number for SVG: a point, whatever the language."""
    return f"{value:.2f}"


@register.filter
def figure(value: float | None) -> str:
    """A loss or the like: three decimals, or four significant figures where those would say nothing; from a thousand on
    as a whole."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞"
    if 1_000 <= abs(value) < 10**9:
        return grouped(round(value))
    return f"{value:.4g}" if value and not 0.001 <= abs(value) < 10_000 else f"{value:.3f}"


@register.filter
def duration(value: float | timedelta | None) -> str:
    """Seconds as "2 h 14 min": at most two units."""
    if value is None:
        return "–"
    seconds = int(value.total_seconds() if isinstance(value, timedelta) else value)
    if seconds < 60:
        return _("{n} s").format(n=max(seconds, 0))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 60:
        rest = seconds % 60
        return _("{n} min {m} s").format(n=minutes, m=rest) if minutes < 10 and rest else _("{n} min").format(n=minutes)
    if hours < 24:
        rest = minutes % 60
        return _("{n} h {m} min").format(n=hours, m=rest) if rest else _("{n} h").format(n=hours)
    rest = hours % 24
    return _("{n} d {m} h").format(n=days, m=rest) if rest else _("{n} d").format(n=days)


@register.filter
def lasted(start: datetime | None, end: datetime | None = None) -> str:
    """How long something lasted, or lasts so far."""
    return duration((end or timezone.now()) - start) if start else "–"


@register.filter
def clock(value: datetime) -> str:
    """16:04 for today, with the day for others, in the reader's zone."""
    here = timezone.localtime(value)
    if here.date() == timezone.localdate():
        return here.strftime("%H:%M")
    return f"{formats.date_format(here, 'MONTH_DAY_FORMAT')} {here:%H:%M}"


def _time(value: datetime, text: str) -> SafeString:
    here = timezone.localtime(value)
    title = f"{formats.date_format(here, 'DATE_FORMAT')} {here:%H:%M:%S} {here.tzname()}"
    return format_html('<time datetime="{}" title="{}">{}</time>', value.isoformat(timespec="seconds"), title, text)


@register.simple_tag
def at(value: datetime | None) -> SafeString | str:
    """A time of day, absolute with its zone on hover."""
    return _time(value, clock(value)) if value else "–"


@register.simple_tag
def at_second(value: datetime) -> SafeString:
    """A time of day to the second, with the day where it is another."""
    here = timezone.localtime(value)
    day = "" if here.date() == timezone.localdate() else f"{formats.date_format(here, 'SHORT_DATE_FORMAT')} "
    return _time(value, f"{day}{here:%H:%M:%S}")


@register.simple_tag
def ago(value: datetime | None) -> SafeString | str:
    """How long ago, absolute on hover."""
    if value is None:
        return "–"
    past = timezone.now() - value
    if past < timedelta(seconds=5):
        return _time(value, _("just now"))
    if past < timedelta(days=30):
        # One unit is enough of the past.
        one = past if past < timedelta(minutes=1) else timedelta(minutes=past // timedelta(minutes=1))
        one = one if past < timedelta(hours=1) else timedelta(hours=past // timedelta(hours=1))
        one = one if past < timedelta(days=1) else timedelta(days=past.days)
        return _time(value, _("{duration} ago").format(duration=duration(one)))
    return _time(value, formats.date_format(timezone.localtime(value), "DATE_FORMAT"))


_FORM = re.compile(r"^(NVIDIA|AMD|Intel|Huawei)[-_ ]|[-_ ](SXM\d?|PCIe|OAM|HBM\d?e?)(?![^-_ ])", re.IGNORECASE)


@register.filter
def product(name: str) -> str:
    """What people call an accelerator: `NVIDIA-A800-SXM4-80GB` is an A800 80G."""
    return re.sub(r"(\d)GB$", r"\1G", re.sub(r"[-_ ]+", " ", _FORM.sub("", name)))


@register.filter
def gpus(count: int) -> str:
    """ "16 GPUs", in words of the reader."""
    return ngettext("{n} GPU", "{n} GPUs", count).format(n=grouped(count))


@register.simple_tag
def labelled(label: object, text: object, url: str) -> SafeString:
    """ "Steps: fill this in", the label a link to where it is mended."""
    return format_html(_("{label}: {text}"), label=format_html('<a href="{}">{}</a>', url, label), text=text)


@register.filter
def listed(parts: Iterable[object]) -> SafeString:
    """ "a, b, c", parted as the reader's language does."""
    return format_html_join(pgettext("between the parts of a list", ", "), "{}", ((part,) for part in parts))


@register.filter
def as_json(value: object) -> str:
    """A recorded value as it is stored; a text without its quotes."""
    return value if isinstance(value, str) else "–" if value is None else json.dumps(value, ensure_ascii=False)


@register.filter
def initials(name: str) -> str:
    """LN for Li Na, 陈 for 陈静."""
    parts = name.split()
    if not parts:
        return "?"
    if not parts[0][0].isascii() and len(parts) == 1 and not parts[0][0].isupper():
        return parts[0][0]
    return (parts[0][0] + (parts[-1][0] if len(parts) > 1 else "")).upper()


SPARK_POINTS = 20


@register.simple_tag
def spark(values: Iterable[float]) -> SafeString | str:
    """A small line of means of neighbouring values, as SVG; nothing for fewer than two."""
    finite = [value for value in values if math.isfinite(value)]
    bucket = max(1, len(finite) // SPARK_POINTS)
    series = [statistics.fmean(finite[start : start + bucket]) for start in range(0, len(finite), bucket)]
    if len(series) < 2:
        return ""
    low, high = min(series), max(series)
    points = [
        (f"{1 + 82 * index / (len(series) - 1):.1f}", f"{2 + 20 * ((high - value) / (high - low or 1)):.1f}")
        for index, value in enumerate(series)
    ]
    return format_html(
        '<svg class="spark" viewBox="0 0 84 24" aria-hidden="true" focusable="false"><polyline points="{}" fill="none"'
        ' stroke="currentColor" stroke-width="1.5" stroke-linejoin="round"/><circle cx="{}" cy="{}" r="2"'
        ' fill="currentColor"/></svg>',
        format_html_join(" ", "{},{}", points),
        *points[-1],
    )
