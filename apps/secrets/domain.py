"""What a secret may be called and hold, and values that no repr, pickle or error gives away."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NoReturn

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
"""A secret's name is a folder in every rank that is given it."""
KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
"""A key is the name of a file in that folder."""

MOST_KEYS = 20
MOST_BYTES = 64 * 1024
"""All values of one secret together, in UTF-8. A Kubernetes Secret ends at 1 MiB."""
LONGEST_NOTE = 300


class Kind(StrEnum):
    """What a secret is for. It suggests keys and picks an icon, nothing else depends on it."""

    GENERIC = "generic"
    TOKEN = "token"  # noqa: S105 (the name of a kind)
    SSH = "ssh"
    REGISTRY = "registry"


class Values(Mapping[str, str]):
    """The values of one secret by key. They show in no repr, and cannot be pickled into a message or a cache."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Values of {len(self)} keys>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Values of a secret are not to be pickled.")


class Bad(ValueError):
    """What was entered cannot be a secret. `field` is "name", "kind", "note", "keys" or "values"; `code` names a
    message, whose operands are `params`. None of them holds a value."""

    def __init__(self, field: str, code: str, **params: str | int) -> None:
        super().__init__(f"{field}: {code}")
        self.field, self.code, self.params = field, code, params


def check_name(name: str) -> None:
    """Raise Bad unless it can be a secret's name."""
    if not NAME.fullmatch(name):
        raise Bad("name", "name" if name else "required")


def check(kind: str, note: str, values: Mapping[str, str]) -> None:
    """Raise Bad for the first thing that cannot be stored."""
    if kind not in list(Kind):
        raise Bad("kind", "kind")
    if len(note) > LONGEST_NOTE or not note.isprintable():
        raise Bad("note", "note", maximum=LONGEST_NOTE)
    if not 1 <= len(values) <= MOST_KEYS:
        raise Bad("keys", "keys" if values else "required", maximum=MOST_KEYS)
    for key, value in values.items():
        if not KEY.fullmatch(key):
            raise Bad("keys", "key")
        if not value:
            raise Bad("values", "empty", key=key)
        if "\0" in value:
            raise Bad("values", "binary", key=key)
    if sum(len(value.encode(errors="replace")) for value in values.values()) > MOST_BYTES:
        raise Bad("values", "too-large", maximum=MOST_BYTES // 1024)


def tidied(kind: str, values: Mapping[str, str]) -> Values:
    """Values as programs expect them: lines end as on Unix, a private key in a newline, a token has no space around."""
    found = {}
    for key, value in values.items():
        text = value.replace("\r\n", "\n")
        if kind == Kind.TOKEN:
            text = text.strip()
        elif "-----BEGIN " in text and not text.endswith("\n"):
            text += "\n"  # OpenSSH refuses a key without it
        found[key] = text
    return Values(found)


def path_of(tenant_id: int, secret_id: int) -> str:
    """Where the store keeps a secret: ids, so that no name is a path and none is used twice."""
    return f"tenants/{tenant_id}/{secret_id}"


def policy_name(tenant_id: int) -> str:
    return f"maas-tenant-{tenant_id}"


def policy_of(tenant_id: int, mount: str) -> str:
    """Who holds this policy may read the secrets of one tenant, and nothing else."""
    return f'path "{mount}/data/tenants/{tenant_id}/*" {{ capabilities = ["read"] }}\n'
