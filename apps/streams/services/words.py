"""What static/js/logcard.js says."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

LOG_WORDS = {
    "rank": gettext_lazy("rank"),
    "older": gettext_lazy("Older lines"),
    "newer": gettext_lazy("{n} newer lines"),
    "found": gettext_lazy("{n} lines found, Enter for the next"),
    "fault": gettext_lazy("This is no regular expression."),
    "gap": gettext_lazy("Lines are missing here; how many is not known."),
    "gapOf": gettext_lazy("{n} lines are missing here."),
}
