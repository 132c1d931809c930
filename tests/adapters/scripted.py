"""An HTTP server that does exactly what a test says, well or badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Exchange(BaseHTTPRequestHandler):
    """One request, with helpers to answer it."""

    protocol_version = "HTTP/1.1"

    def answer(self, code: int, body: Any = b"", **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def begin(self, code: int = 200) -> None:
        """Headers of a chunked answer; then `chunk`s."""
        self.send_response(code)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(2)

    def log_message(self, *_: object) -> None: ...

    def _run(self) -> None:
        server: Any = self.server
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        server.scripted.requests.append(Request(self.command, self.path, dict(self.headers), body))
        try:
            server.scripted.script(self)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _run  # noqa: N815


@dataclass
class Scripted:
    """`script` answers each request; `requests` keeps them."""

    script: Callable[[Exchange], None]
    url: str = ""
    requests: list[Request] = field(default_factory=list)


@contextmanager
def scripted(script: Callable[[Exchange], None]) -> Iterator[Scripted]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exchange)
    server.daemon_threads = True
    it = Scripted(script, f"http://127.0.0.1:{server.server_address[1]}")
    server.scripted = it  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield it
    finally:
        server.shutdown()
        server.server_close()
