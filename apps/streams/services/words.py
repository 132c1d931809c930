"""What the scripts of the log card say."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

LOG_WORDS = {
    "rank": gettext_lazy("rank"),
    "allRanks": gettext_lazy("merged · all {all} ranks"),
    "someRanks": gettext_lazy("merged · {n} of {all} ranks"),
    "line": gettext_lazy("line {n}"),
    "newer": gettext_lazy("{n} newer lines"),
    "found": gettext_lazy("{n} lines found among those loaded; Enter goes to the one before"),
    "foundAll": gettext_lazy("{n} lines found"),
    "searching": gettext_lazy("Searching the kept log …"),
    "searched": gettext_lazy("Searched as far as line {n}."),
    "searchOn": gettext_lazy("Search on"),
    "noMore": gettext_lazy("No other line of the kept log has this."),
    "fault": gettext_lazy("Write step:120, line:4210 or time:15:32."),
    "since": gettext_lazy("from {t}"),
    "until": gettext_lazy("until {t}"),
    "badTime": gettext_lazy("Enter a time such as 15:32 or 2026-03-02 15:32."),
    "badOrder": gettext_lazy("Choose a time after the beginning."),
    "badPattern": gettext_lazy("RE2, which searches the log, knows no look-around and no reference back to a group."),
    "noStep": gettext_lazy("No kept line is of step {n}."),
    "noLine": gettext_lazy("No line like that is kept."),
    "noneFits": gettext_lazy("No line fits what is chosen."),
    "loading": gettext_lazy("Reading the log …"),
    "failed": gettext_lazy("The log cannot be read now. Try again in a moment."),
    "again": gettext_lazy("Try again"),
    "end": gettext_lazy("The job has ended here."),
    "gap": gettext_lazy("Lines are missing here; how many is not known."),
    "gapOf": gettext_lazy("{n} lines are missing here."),
    "elsewhere": gettext_lazy("Look in Loki"),
    "passed": gettext_lazy("{n} lines went by faster than they could be shown."),
    "showThem": gettext_lazy("Show them"),
    "showAll": gettext_lazy("show all {n} bytes"),
    "notCopied": gettext_lazy("Your browser did not let the portal copy this."),
}
