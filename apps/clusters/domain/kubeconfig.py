"""Reading a kubeconfig that somebody pastes: the address, the authority and a token, and nothing that runs or reads."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

import yaml

MOST_BYTES = 64 * 1024


class Bad(ValueError):
    """What was pasted cannot be used. `code` names a message, whose operands are `params`; none of them is secret."""

    def __init__(self, code: str, **params: str) -> None:
        super().__init__(code)
        self.code, self.params = code, params


@dataclass(frozen=True)
class Kubeconfig:
    """One context of the file. `ca_pem` is "" where the file names no authority."""

    server: str
    ca_pem: str
    token: str = field(repr=False)


_CLUSTER_REFUSED = {
    "insecure-skip-tls-verify": "insecure",
    "certificate-authority": "ca-file",
    "proxy-url": "proxy",
    "tls-server-name": "server-name",
}
_USER_REFUSED = {
    "exec": "exec",
    "auth-provider": "exec",
    "tokenFile": "token-file",
    "client-certificate": "certificate",
    "client-certificate-data": "certificate",
    "client-key": "certificate",
    "client-key-data": "certificate",
    "username": "password",
    "password": "password",
    "as": "impersonate",
    "as-uid": "impersonate",
    "as-groups": "impersonate",
    "as-user-extra": "impersonate",
}


def read(text: str, context: str = "") -> Kubeconfig:
    """The named context, else the current one, else the only one. Raises Bad."""
    document = _document(text)
    wanted = context or _text(document.get("current-context"))
    contexts = _named(document, "contexts", "context")
    if not wanted and len(contexts) == 1:
        (wanted,) = contexts
    if wanted not in contexts:
        raise Bad("context" if contexts else "empty", contexts=", ".join(sorted(contexts))[:200])
    chosen = contexts[wanted]
    cluster = _named(document, "clusters", "cluster").get(_text(chosen.get("cluster")))
    user = _named(document, "users", "user").get(_text(chosen.get("user")))
    if cluster is None or user is None:
        raise Bad("dangling", context=wanted[:80])
    for found, refused in ((cluster, _CLUSTER_REFUSED), (user, _USER_REFUSED)):
        for key, code in refused.items():
            if found.get(key):
                raise Bad(code, key=key)
    token = _text(user.get("token")).strip()
    if not token:
        raise Bad("no-token")
    return Kubeconfig(_text(cluster.get("server")).strip(), _authority(cluster), token)


def _document(text: str) -> dict[str, Any]:
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise Bad("too-large", maximum=str(MOST_BYTES // 1024))
    try:
        document = yaml.load(text, Loader=yaml.CSafeLoader)  # the one in Python takes seconds for a page of brackets
    except yaml.MarkedYAMLError as error:
        # Only where, never what: the line may hold the token.
        raise Bad("yaml", line=str(error.problem_mark.line + 1 if error.problem_mark else 1)) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise Bad("yaml", line="1") from None
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise Bad("kind")
    return document


def _named(document: dict[str, Any], plural: str, single: str) -> dict[str, dict[str, Any]]:
    """The entries of a list of `{name, <single>}`, by name; what has another shape is left out."""
    rows = document.get(plural)
    found: dict[str, dict[str, Any]] = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("name"), str) and isinstance(row.get(single), dict):
            found.setdefault(row["name"], row[single])
    return found


def _authority(cluster: dict[str, Any]) -> str:
    data = cluster.get("certificate-authority-data")
    if not data:
        return ""
    try:
        return base64.b64decode(_text(data), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise Bad("ca-data") from None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
