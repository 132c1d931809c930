"""Pages around signing in, and a person's own settings."""

from apps.accounts.views.settings import (
    language,
    permissions,
    preferences,
    session_end,
    settings_page,
    theme,
    token_create,
    token_revoke,
)
from apps.accounts.views.signing import (
    AuthenticateView,
    CallbackView,
    backchannel_logout,
    sign_in,
    sign_out,
    signed_out,
)

__all__ = [
    "AuthenticateView",
    "CallbackView",
    "backchannel_logout",
    "language",
    "permissions",
    "preferences",
    "session_end",
    "settings_page",
    "sign_in",
    "sign_out",
    "signed_out",
    "theme",
    "token_create",
    "token_revoke",
]
