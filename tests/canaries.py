"""Values that must turn up nowhere: planted as secrets, tokens and credentials, then searched for in whatever is kept.

    canaries = Canaries()
    value = canaries.plant("hub token")
    …
    canaries.expect_none(database=database_dump(), redis=redis_dump(url), log=caplog.text, answer=response.content)

Each value is looked for as it is, in Base64 (at each of the three places a byte can have in it), URL-encoded, in hex,
and by its SHA-256.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

import redis
from django.db import connection

Haystack = bytes | str


def forms(value: str) -> dict[str, bytes]:
    """What a value may look like where somebody wrote it down, by the name of the form."""
    raw = value.encode()
    found = {
        "plain": raw,
        "url-encoded": quote(value, safe="").encode(),
        "form-encoded": quote_plus(value).encode(),
        "hex": binascii.hexlify(raw),
        "sha-256": hashlib.sha256(raw).hexdigest().encode(),
    }
    for offset in range(3):
        # Characters at both ends depend on what stands beside the value, so they are left out.
        encoded = base64.b64encode(b"\0" * offset + raw).rstrip(b"=")
        inner = encoded[(offset * 8 + 5) // 6 : -1]
        found[f"base64 at {offset}"] = inner
        found[f"base64url at {offset}"] = inner.translate(bytes.maketrans(b"+/", b"-_"))
    return {name: needle for needle, name in {needle: name for name, needle in reversed(found.items())}.items()}


@dataclass
class Canaries:
    """Planted values by what they were planted as."""

    planted: dict[str, str] = field(default_factory=dict)

    def plant(self, what: str, prefix: str = "") -> str:
        """A new value, random and of a kind that no two places make by chance; `prefix` gives it a shape (`hf_`)."""
        return self.planted.setdefault(what, prefix + secrets.token_hex(24))

    def hits(self, **places: Haystack) -> list[str]:
        """Where any of them is, as "what, in which form, in which place"; their values are not in it."""
        found = []
        for place, content in places.items():
            raw = content.encode(errors="replace") if isinstance(content, str) else content
            for what, value in self.planted.items():
                found += [f"{what} ({form}) in {place}" for form, needle in forms(value).items() if needle in raw]
        return found

    def expect_none(self, **places: Haystack) -> None:
        """Fail if any is anywhere. A place without content is a search that searched nothing: that fails too."""
        assert self.planted, "no canary was planted"
        assert [place for place, content in places.items() if not content] == []
        assert self.hits(**places) == []


def database_dump() -> bytes:
    """Every row of every table as text, as this connection sees it (a test's own transaction included)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
                       " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")  # fmt: skip
        tables = [name for (name,) in cursor.fetchall()]
        parts = []
        for table in tables:
            cursor.execute(f"SELECT t::text FROM {table} t")
            parts += [f"{table}: {row}" for (row,) in cursor.fetchall()]
    return "\n".join(parts).encode()


def redis_dump(url: str) -> bytes:
    """Every key with its value, of every type; `b"empty"` for a server that holds nothing."""
    client = redis.Redis.from_url(url)
    try:
        return b"\n".join(_entries(client)) or b"empty"
    finally:
        client.close()


def _entries(client: redis.Redis) -> Iterator[bytes]:
    for key in client.scan_iter(count=1000):
        yield key
        match client.type(key):
            case b"string":
                yield client.get(key) or b""
            case b"list":
                yield from client.lrange(key, 0, -1)
            case b"set":
                yield from client.smembers(key)
            case b"hash":
                yield from (part for pair in client.hgetall(key).items() for part in pair)
            case b"zset":
                yield from client.zrange(key, 0, -1)
            case b"stream":
                yield from (part for _id, entry in client.xrange(key) for pair in entry.items() for part in pair)
