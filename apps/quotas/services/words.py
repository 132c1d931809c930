"""Codes of the domain in words for people."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

BAD_QUANTITY: dict[str, Promise] = {
    "number": _("it does not begin with a number such as 8, 0.5 or 1e3."),
    "suffix": _("the suffix is unknown; there are n, u, m, k, M, G, T, P, E and Ki, Mi, Gi, Ti, Pi, Ei."),
    "exponent": _("the exponent is too large."),
}
