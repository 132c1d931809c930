"""An HTTP API that an operator registered, and that tells of a cluster: asked with limits, and nowhere else than there.

Redirects are not followed and no proxy of the environment is used: what is asked is the address that was entered.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from apps.adapters.errors import OutsideError, Refused, Unavailable, outside_transaction
from apps.adapters.retrying import retry_after

CONNECT_SECONDS, READ_SECONDS = 3.0, 10.0
BODY_SECONDS = 20.0
"""An answer that trickles is given up after this long; a read timeout alone would never end."""
MOST_BYTES = 16 << 20
TEXT_LIMIT = 300

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")

TokenSource = Callable[[], str]


@dataclass(frozen=True)
class Address:
    """`url` has no slash at its end. `ca_pem` is the authority that signed its certificate, "" for the machine's own;
    `token` gives the bearer token, None where none is sent; `headers` go along with each question."""

    url: str
    ca_pem: str = ""
    token: TokenSource | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class TooLarge(Refused):
    """The answer is larger than what is taken in at once: ask for less."""


class Source:
    """One such API, for one thread at a time. `name` is what people call it.

    Raises Unavailable (no answer, busy, or one that cannot be read) and Refused.
    """

    def __init__(self, name: str, address: Address) -> None:
        self.name, self._address = name, address
        try:
            verify = ssl.create_default_context(cadata=address.ca_pem or None)
        except ssl.SSLError as error:
            raise Refused(f"The certificate authority cannot be read: {error}") from error
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        # Not compressed: what is small on the way may be without bounds here.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "maas-portal"}
        headers |= address.headers
        self._client = httpx.Client(verify=verify, timeout=timeout, headers=headers, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def ask(self, path: str, fields: Mapping[str, str], *, post: bool = False) -> bytes:
        """The body of a good answer."""
        outside_transaction()
        url, token = f"{self._address.url}{path}", self._address.token
        headers = {"Authorization": f"Bearer {token()}"} if token else {}
        asked = {"data": dict(fields)} if post else {"params": dict(fields)}
        try:
            with self._client.stream("POST" if post else "GET", url, headers=headers, **asked) as response:  # type: ignore[arg-type]
                body = self._read(response)
        except httpx.HTTPError as error:
            # Without the request, which holds the token.
            raise self.away(f"did not answer ({type(error).__name__}): {error}") from None
        if response.status_code != httpx.codes.OK:
            raise self.failure(response, body)
        return body

    def away(self, text: str, *, code: int | None = None, wait: float | None = None) -> Unavailable:
        wait = 1.0 if wait is None else wait
        return Unavailable(self._said(text), code=code, retry_after=wait, system=self.name)

    def refused(self, text: str, *, code: int | None = None) -> Refused:
        return Refused(self._said(text), code=code)

    def _said(self, text: str) -> str:
        return _CONTROL.sub(" ", f"{self.name} {text}")[:TEXT_LIMIT]

    def _read(self, response: httpx.Response) -> bytes:
        end, chunks, size = time.monotonic() + BODY_SECONDS, [], 0
        for chunk in response.iter_raw():
            chunks.append(chunk)
            size += len(chunk)
            if size > MOST_BYTES:
                raise TooLarge(self._said(f"answered with more than {MOST_BYTES >> 20} MiB."))
            if time.monotonic() > end:
                raise self.away("began an answer and did not end it.")
        return b"".join(chunks)

    def failure(self, response: httpx.Response, body: bytes) -> OutsideError:
        """What an answer other than a good one is."""
        code = response.status_code
        if response.is_redirect:
            return self.refused(f"answered with a redirect (HTTP {code}), which is not followed.", code=code)
        if code in (401, 403):
            return self.refused(f"did not accept the token (HTTP {code}).", code=code)
        text = body[: 4 * TEXT_LIMIT].decode("utf-8", "replace").strip()
        said = f"answered HTTP {code}: {text}"
        if code in (408, 429) or code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return self.away(said, code=code, wait=retry_after(response.headers))
        return self.refused(said, code=code)
