"""The hash by which a Deployment names the ReplicaSet of a template."""

from __future__ import annotations

from typing import Any

from apps.localcluster.apiserver.store import encode

Object = dict[str, Any]

LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Object, collisions: int | None) -> str:
    """Up to ten letters. `collisions`: how often the hash was another template's already."""
    data = encode(template)
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    digest = 2166136261
    for byte in data:
        digest = (digest ^ byte) * 16777619 % 2**32
    return "".join(LETTERS[ord(each) % len(LETTERS)] for each in str(digest))
