"""Where an API server is, and who speaks to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Protocol

CONNECT_SECONDS = 3.0
READ_SECONDS = 10.0


class TokenSource(Protocol):
    """Gives the bearer token. `fresh` asks for one newer than was given before: the server did not accept that."""

    def __call__(self, *, fresh: bool = False) -> str: ...


@dataclass(frozen=True)
class Endpoint:
    """`ca_pem` is the authority that signed the server's certificate; None trusts the machine's own."""

    server: str
    ca_pem: str | None
    token_source: TokenSource

    def tls(self) -> ssl.SSLContext | None:
        """The context for https, None for plain http. Raises ssl.SSLError for a text that holds no certificate."""
        if not self.server.startswith("https:"):
            return None
        return ssl.create_default_context(cadata=self.ca_pem or None)
