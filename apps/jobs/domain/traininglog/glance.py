"""Which of many lines may tell a figure or a mark, found without reading them one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import re2

from apps.jobs.domain.traininglog.formats import Format
from apps.jobs.domain.traininglog.readers import Pattern
from apps.jobs.domain.traininglog.values import SERIES

_SPACE = r"[\x00-\x09\x0b-\x20\x7f-\xff]*"
"""As much white space as may be, and any letter that is not ASCII: some of those are spaces too."""
_NAMES = "|".join(sorted({re2.escape(name.rpartition(" ")[2]) for name in SERIES} | {"step", "iter", "iteration"}))


def _signs() -> re2._Regexp[bytes]:
    """Something of which every line has one that a form takes a figure or a mark from."""
    options = re2.Options()
    options.encoding, options.log_errors = re2.Options.Encoding.LATIN1, False
    signs = (
        rf"(?i:(?:{_NAMES}){_SPACE}[:=])",
        rf"iteration{_SPACE}[0-9\x80-\xff]+/",
        r"\(train\)",
        r"(?i:epoch time:)",
        rf"\{{{_SPACE}[\"'}}]",
        r"(?i:checkpoint|global_step)",
        r"NCCL INFO",
    )
    found: re2._Regexp[bytes] = re2.compile("|".join(signs).encode(), options)
    return found


_SIGNS = _signs()


def glance(texts: bytes, more: Iterable[Format]) -> Sequence[int] | None:
    """Places in all lines of `texts` that our forms, or `more`, may take something from; None where every line has to
    be read."""
    for form in more:
        if not isinstance(form, Pattern) or form.may_be_among(texts):
            return None
    return [match.start() for match in _SIGNS.finditer(texts)]
