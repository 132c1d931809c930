"""The HTTP side: OpenAI's chat API, whether it works, and its figures."""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from deploy.workloads.charlm.log import Log
from deploy.workloads.charlm.serve.answer import Answer, Json
from deploy.workloads.charlm.serve.ask import ApiError, Ask
from deploy.workloads.charlm.serve.engine import Completion, Engine
from deploy.workloads.charlm.serve.metrics import Metrics

MOST_BYTES = 1 << 20
MOST_DISCARDED = 16 << 20
SILENCE = 75.0  # seconds: of an idle connection, or of a client that does not read


class ClientGone(Exception):
    """Nobody is there to read the answer."""


class Slots:
    """At most `at_once` answers are made at a time; `waiting` more requests wait for their turn."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self.at_once, self.most_waiting = at_once, waiting
        self.running = self.waiting = 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, gone: Callable[[], bool]) -> Iterator[None]:
        """Raises ApiError 503 when too many wait already, ClientGone when the client leaves while it waits."""
        with self._changed:
            if self.running + self.waiting >= self.at_once + self.most_waiting:
                raise ApiError(503, "The server is busy. Try again.", code="overloaded", retry_after=1)
            self.waiting += 1
            try:
                while self.running >= self.at_once:
                    if gone():
                        raise ClientGone
                    self._changed.wait(0.5)
                self.running += 1
            finally:
                self.waiting -= 1
        try:
            yield
        finally:
            with self._changed:
                self.running -= 1
                self._changed.notify()

    def idle(self) -> bool:
        with self._changed:
            return not self.running and not self.waiting


@dataclass
class Serving:
    """What the handlers share. `ending`: asked to end; what comes in is still answered, on connections that close."""

    name: str
    engine: Engine
    slots: Slots
    metrics: Metrics
    log: Log
    ending: bool = False

    def described(self) -> Json:
        return {"id": self.name, "object": "model", "created": self.engine.made, "owned_by": "maas"}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], serving: Serving) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.serving = serving
        super().__init__(address, Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has broken off is nothing to tell of; anything else is the base class's."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = SILENCE
    server: Server

    # --- which answer ---------------------------------------------------------------------------------------------

    def do_GET(self) -> None:
        serving, path = self.server.serving, self.path.partition("?")[0]
        if path == "/health":
            well = not serving.ending and serving.engine.well()
            self._send(200 if well else 503, {"status": "ok" if well else "ending" if serving.ending else "ill"})
        elif path == "/metrics":
            text = serving.metrics.text(serving.slots.running, serving.slots.waiting)
            self._send_bytes(200, "text/plain; version=0.0.4; charset=utf-8", text.encode())
        elif path == "/v1/models":
            self._send(200, {"object": "list", "data": [serving.described()]})
        elif path == f"/v1/models/{serving.name}":
            self._send(200, serving.described())
        else:
            self._refuse(ApiError(404, f"There is no {self.command} {path}.", code="not_found"))

    def do_POST(self) -> None:
        arrived = time.monotonic()
        path = self.path.partition("?")[0]
        try:
            body = self._body()  # in any case: the next request of this connection begins behind it
            if path != "/v1/chat/completions":
                raise ApiError(404, f"There is no {self.command} {path}.", code="not_found")
            ask = Ask.read(body, self.server.serving.name)
            with self.server.serving.slots.taken(self._gone):
                self._complete(ask, arrived)
        except ApiError as error:
            self._refuse(error)
        except (ClientGone, ConnectionError, TimeoutError):
            self.close_connection = True

    def _body(self) -> bytes:
        """Raises ApiError 413, after which the connection is closed, and 400."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise ApiError(400, "The Content-Length is not a number.")
        if int(length) > MOST_BYTES:
            self._take_no_more(int(length))
        return self.rfile.read(int(length))

    def _chunks(self) -> Iterator[bytes]:
        total = 0
        while True:
            try:
                size = int(self.rfile.readline(1000).partition(b";")[0], 16)
            except ValueError as error:
                self.close_connection = True
                raise ApiError(400, "The chunks of the body are malformed.") from error
            total += size
            if total > MOST_BYTES:
                self._take_no_more(size)
            yield self.rfile.read(size)
            self.rfile.readline(1000)
            if not size:
                return

    def _take_no_more(self, announced: int) -> None:
        self.close_connection = True
        # Read, or closing would reset the connection before the client has seen the answer.
        for _ in range(0, min(announced, MOST_DISCARDED), MOST_BYTES):
            if not self.rfile.read(min(announced, MOST_BYTES)):
                break
        raise ApiError(413, f"The body is larger than {MOST_BYTES} bytes.")

    # --- an answer ------------------------------------------------------------------------------------------------

    def _complete(self, ask: Ask, arrived: float) -> None:
        serving = self.server.serving
        completion = Completion(serving.engine, ask)
        answer = Answer(serving.name, completion, told_usage=ask.stream_usage)
        began = 0.0
        try:
            text = ""
            for piece in completion:
                if not began:
                    began = time.monotonic()
                    serving.metrics.first_token(began - arrived)
                    if ask.stream:
                        self._begin_stream()
                        self._event(answer.chunk({"role": "assistant", "content": ""}))
                if self._gone():
                    raise ClientGone
                text += piece
                if ask.stream and piece:
                    self._event(answer.chunk({"content": piece}))
            if ask.stream:
                self._end_stream(answer)
            else:
                self._send(200, answer.whole(text))
        finally:
            seconds = time.monotonic() - began if began else 0.0
            reason = completion.finish_reason or "abort"
            serving.metrics.finished(reason, completion.prompt_tokens, completion.made, seconds)
            serving.log.info(
                f"chat: {reason}, {completion.prompt_tokens} tokens in, {completion.made} out, "
                f"first after {(began or arrived) - arrived:.3f} s, all after {time.monotonic() - arrived:.3f} s"
            )

    def _gone(self) -> bool:
        """Whether the client has closed the connection. What it may have sent already stays to be read."""
        try:
            readable = select.select([self.connection], [], [], 0)[0]
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    # --- onto the wire --------------------------------------------------------------------------------------------

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self._chunked = self.request_version != "HTTP/1.0"
        if self._chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self._end_headers(close=not self._chunked)

    def _event(self, data: Json) -> None:
        self._piece(f"data: {json.dumps(data)}\n\n".encode())

    def _piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    def _end_stream(self, answer: Answer) -> None:
        for event in answer.last_chunks():
            self._event(event)
        self._piece(b"data: [DONE]\n\n")
        if self._chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, error: ApiError) -> None:
        self.server.serving.metrics.refused(error.status)
        headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
        self._send(error.status, error.body(), headers)

    def _send(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        self._send_bytes(status, "application/json", json.dumps(body).encode(), headers)

    def _send_bytes(self, status: int, kind: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self._end_headers(close=self.close_connection)
        self.wfile.write(data)

    def _end_headers(self, *, close: bool) -> None:
        if close or self.server.serving.ending:
            self.send_header("Connection", "close")
        self.end_headers()

    def version_string(self) -> str:
        return "charlm"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Answers are logged when they end; the rest is probes."""
