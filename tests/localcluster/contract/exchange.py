"""Sending recorded requests byte by byte: nothing is added, no path is tidied."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tests.localcluster.contract.rows import Row

READ_SECONDS = 70.0
STREAM_SECONDS = 900.0
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    wire: bytes

    @property
    def text(self) -> str:
        zipped = ("content-encoding", "gzip") in [(name.lower(), value) for name, value in self.headers]
        return (gzip.decompress(self.wire) if zipped else self.wire).decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        """None where it is no JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def refuses(self) -> bool:
        """405, 501, or a 404 about no object in particular: all of this is unknown here."""
        status = self.json
        about = (status.get("details") or {}).get("name") if isinstance(status, dict) else None
        return self.status in (405, 501) or (self.status == 404 and not about)

    def __str__(self) -> str:
        status = self.json
        return f"{self.status} {status.get('message') if isinstance(status, dict) else self.text[:200]}"


class Exchange:
    """Conversations with one cluster."""

    def __init__(self, row: Row) -> None:
        self.row = row
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=16)
        self._http = httpx.Client(verify=row.trust, trust_env=False, limits=limits)

    def close(self) -> None:
        self._http.close()

    def send(self, request: dict[str, Any], *, patient: bool = False) -> Answer:
        """`patient`: 429 is asked again, as a client should."""
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
        while True:
            response = self._http.send(self.build(request), stream=True)
            try:
                wire = b"".join(response.iter_raw())
            finally:
                response.close()
            if response.status_code != 429 or not patient or time.monotonic() > deadline:
                return Answer(response.status_code, response.headers.multi_items(), wire)
            pause.wait(0.3)

    def lines(self, request: dict[str, Any]) -> Iterator[str]:
        """Those of an answer that comes bit by bit."""
        response = self._http.send(self.build(request, read_seconds=STREAM_SECONDS), stream=True)
        try:
            yield from filter(None, response.iter_lines())
        finally:
            response.close()

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Answer:
        """A request that was not recorded: to make ready and to clear away."""
        request = {"method": method, "path": path, "headers": {"Content-Type": kind} if body is not None else {}}
        return self.send(request | ({} if body is None else {"body": body}), patient=True)

    def events(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of a watch, until the server ends it or the caller has enough."""
        response = self._http.send(self.build(request), stream=True)
        try:
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                yield json.loads(line)
        finally:
            response.close()

    def build(self, request: dict[str, Any], read_seconds: float = READ_SECONDS) -> httpx.Request:
        headers = {name: _written_out(value).strip() for name, value in request.get("headers", {}).items()}
        content = _content(request)
        if "body" in request or "body_template" in request:
            headers.setdefault("Content-Type", "application/json")
        if request.get("user") != "none":
            headers["Authorization"] = f"Bearer {request.get('user', self.row.token)}"
        target = request["path"]
        if "query" in request:
            query = {name: _every_written_out(value) for name, value in request["query"].items()}
            target += ("&" if "?" in target else "?") + urllib.parse.urlencode(query, doseq=True)
        return httpx.Request(
            request["method"],
            self.row.server,
            headers=headers,
            content=content,
            extensions={
                "target": urllib.parse.quote(target, safe="%/:=&?~+!$,;'@()*[]|").encode(),
                "timeout": httpx.Timeout(read_seconds, connect=15).as_dict(),
            },
        )


def _content(request: dict[str, Any]) -> bytes | None:
    if "body" in request:
        return json.dumps(request["body"], ensure_ascii=False).encode()
    if "body_template" in request:
        template = request["body_template"]
        return str(template["before"] + template["repeat"] * template["times"] + template["after"]).encode()
    if "body_bytes" in request:
        return str(request["body_bytes"]).encode("latin-1")
    return str(request["body_text"]).encode() if "body_text" in request else None


def _every_written_out(value: Any) -> list[str]:
    return [_written_out(str(each)) for each in (value if isinstance(value, list) else [value])]


def _written_out(text: str) -> str:
    """Values too long to record are described: `a in (v0000000,v0000001,…) with N values`, `N times x`."""
    if found := re.fullmatch(r"(.*)\(v0000000,v0000001,…\) with (\d+) values", text):
        return f"{found[1]}({','.join(f'v{number:07d}' for number in range(int(found[2])))})"
    if found := re.fullmatch(r"([\d,]+) times (\S)", text):
        return found[2] * int(found[1].replace(",", ""))
    return text
