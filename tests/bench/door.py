"""What another process needs to speak to an API server."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import httpx

Request = tuple[str, str, dict[str, Any]]
"""Method, path, body."""


@dataclass(frozen=True)
class Door:
    """`authority` is the PEM text of who signed the server's certificate, "" for plain http."""

    server: str
    token: str = "token"
    authority: str = ""

    @classmethod
    def load(cls, text: str) -> Door:
        return cls(**json.loads(text))

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    def connect(self) -> http.client.HTTPSConnection:
        url = httpx.URL(self.server)
        trust = ssl.create_default_context(cadata=self.authority)
        return http.client.HTTPSConnection(url.host, url.port, timeout=60, context=trust)

    def ask(self, requests: Iterable[Request]) -> None:
        """Send these one after the other, each as it is drawn; a patch is merged. Raises RuntimeError for a refusal."""
        connection = self.connect()
        for method, path, body in requests:
            kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
            connection.request(method, path, json.dumps(body), self.headers | kind)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status not in (200, 201):
                raise RuntimeError(text.decode())
