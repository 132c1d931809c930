"""What this app records."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.audit.services import action

ENTERED = action(
    "secret.entered", _("{actor} entered the secret {name} with the keys {keys}"), name=_("Enter a secret")
)
REPLACED = action(
    "secret.replaced",
    _("{actor} replaced the secret {name}: version {version}, keys {keys}"),
    name=_("Replace a secret"),
)
REMOVED = action("secret.removed", _("{actor} removed the secret {name}"), name=_("Remove a secret"))
LENT = action("secret.lent", _("{actor} gave {target} the secrets {names}"), name=_("Give secrets to a job"))
RETURNED = action(
    "secret.returned",
    _("{actor} revoked the token by which {target} held the secrets {names}"),
    name=_("Take secrets back from a job"),
)
