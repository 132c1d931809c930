"""The little that has to be asked of a control plane while it comes up."""

from __future__ import annotations

import json
import ssl
import threading
import time
from typing import Any, Self

import httpx

from deploy.local.program import Failed, NotReady

Object = dict[str, Any]
PATIENCE_SECONDS = 60.0


class Api:
    """One API server as its admin. What it answers with 429 or 503 while young, or not in time, is asked again."""

    def __init__(self, server: str, token: str, authority: str) -> None:
        self._http = httpx.Client(
            base_url=server,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cadata=authority),
            timeout=30,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ready(self) -> None:
        """Raises NotReady."""
        try:
            answer = self._http.get("/readyz")
        except httpx.TransportError as error:
            raise NotReady(str(error)) from error
        if answer.status_code != 200:
            raise NotReady(answer.text[-500:])

    def get(self, path: str) -> Object:
        """Raises Failed."""
        return self._ask("GET", path)

    def apply(self, path: str, manifest: Object | str) -> None:
        """Server-side apply, of an object or of YAML. Raises Failed."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        self._ask("PATCH", f"{path}?fieldManager=testbed&force=true", text)

    def delete(self, path: str) -> None:
        """Deletes an object or all of a collection. Raises Failed."""
        self._ask("DELETE", path)

    def _ask(self, method: str, path: str, body: str | None = None) -> Object:
        headers = {} if body is None else {"Content-Type": "application/apply-patch+yaml"}
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
        while True:
            late = time.monotonic() > deadline
            try:
                answer = self._http.request(method, path, content=body, headers=headers)
            except httpx.TransportError as error:  # a busy machine; whatever is asked here may be asked twice
                if late:
                    raise Failed(f"{method} {path}: {error}") from error
            else:
                if answer.is_success:
                    return dict(answer.json())
                if answer.status_code not in (429, 503) or late:
                    raise Failed(f"{method} {path} answers {answer.status_code}: {answer.text[:500]}")
            pause.wait(0.3)
