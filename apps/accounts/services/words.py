"""What the audit page says for the codes that the entries of this app carry."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext

from apps.accounts.domain import Role
from apps.accounts.types import ROLE_NAMES

_REFUSALS = {
    "access_denied": _("the identity provider did not let them in"),
    "disabled": _("the account is switched off"),
    "no_refresh_token": _("the identity provider gave no refresh token"),
    "suspicious": _("the answer did not belong to a sign-in of this browser"),
}
_ROLES = {role.value: ROLE_NAMES[role] for role in Role}


def refusal(code: Any) -> str:
    """Why somebody was not let in; a fault of the provider's claims by its own name."""
    return str(_REFUSALS.get(code, code))


def roles(recorded: Any) -> str:
    """Roles as they are recorded, parted by ", ", in words."""
    named = [str(_ROLES.get(each, each)) for each in str(recorded).split(", ")]
    return pgettext("between the parts of a list", ", ").join(named)
