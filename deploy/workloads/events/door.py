"""Speaking to the portal: one request at a time, patient with outages, quick to believe a refusal."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TIMEOUT = 30.0
LONGEST_PAUSE = 10.0
LIMIT = 1 << 20
AWAY = (0, 429, 500, 502, 503, 504)
MOVED_ON = 409


class GaveUp(Exception):
    """The portal refused, or was away for too long."""


@dataclass(frozen=True)
class Door:
    """`url` is the portal's address, `token_file` is read anew for each request: it may be replaced. An outage is sat
    out for `patience` seconds."""

    url: str
    job: str
    token_file: Path
    patience: float
    say: Callable[[str], None]

    def ask(self, method: str, document: Any = None) -> dict[str, Any]:
        """The portal's answer, also where it says that it stands elsewhere (409). Raises GaveUp."""
        deadline, pause = time.monotonic() + self.patience, 0.5
        while True:
            try:
                status, body = self._once(method, b"" if document is None else json.dumps(document).encode())
            except (OSError, http.client.HTTPException) as error:
                status, body = 0, repr(error).encode()
            if 200 <= status < 300 or status == MOVED_ON:
                return self._read(body)
            told = f"{status} {body[:200].decode('utf-8', 'replace')}"
            if status not in AWAY or time.monotonic() > deadline:
                raise GaveUp(told)
            self.say(f"The portal does not answer ({told}); again in {pause} s")
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _read(self, body: bytes) -> dict[str, Any]:
        try:
            document = json.loads(body)
        except ValueError as error:
            raise GaveUp("The portal's answer is no JSON") from error
        if not isinstance(document, dict):
            raise GaveUp("The portal's answer is no object")
        return document

    def _once(self, method: str, body: bytes) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
        headers = {
            "Authorization": f"Bearer {self.token_file.read_text().strip()}",
            "Content-Type": "application/json",
        }
        try:
            connection.request(method, f"{parts.path}/artifacts/events/{self.job}", body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(LIMIT)
        finally:
            connection.close()
