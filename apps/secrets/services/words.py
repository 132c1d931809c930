"""Kinds and faults in words for people."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from apps.secrets.domain import Bad, Kind

KINDS: dict[Kind, tuple[Promise, str, tuple[str, ...]]] = {
    Kind.GENERIC: (_("Anything else"), "key", ("value",)),
    Kind.TOKEN: (_("Token or API key"), "ticket", ("token",)),
    Kind.SSH: (_("SSH key"), "terminal-2", ("id_ed25519",)),
    Kind.REGISTRY: (_("Registry login"), "package", ("username", "password")),
}
"""Its name, its icon, and the keys it usually has."""

FAULTS: dict[str, Promise] = {
    "required": _("Fill this in."),
    "name": _("Use up to 40 lower-case letters, digits, “.”, “_” and “-”: the name is a folder in the job."),
    "kind": _("There is no such kind."),
    "note": _("At most {maximum} characters on one line."),
    "keys": _("At most {maximum} keys fit into one secret."),
    "key": _("A key is a file name: letters, digits, “.”, “_” and “-”, and it does not begin with “.” or “-”."),
    "twice": _("The key {key} stands here twice."),
    "empty": _("The key {key} has no value."),
    "binary": _("The value of {key} has a NUL character. Encode it as Base64 first."),
    "too-large": _("All values together may have {maximum} KiB."),
}


def fault_text(bad: Bad) -> str:
    """What is wrong, as a sentence in the reader's language."""
    return str(FAULTS[bad.code]).format_map({key: str(value) for key, value in bad.params.items()})
