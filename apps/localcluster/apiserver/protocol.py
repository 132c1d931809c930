"""uvicorn's HTTP protocol with the bounds and refusals of the HTTP server that Kubernetes stands on."""

from __future__ import annotations

import sys

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from apps.localcluster.apiserver.errors import no_method
from apps.localcluster.apiserver.store import encode

LARGEST_HEAD = 1024 * 1024 + 4096  # bytes of an address and its headers
TEXT, JSON = b"text/plain; charset=utf-8", b"application/json"


class HeadTooLarge(Exception):
    """More than LARGEST_HEAD bytes before the body."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    too_large = False

    def on_headers_complete(self) -> None:
        whole = self.url
        self.too_large = len(whole) + sum(len(name) + len(value) for name, value in self.headers) > LARGEST_HEAD
        if self.too_large:
            raise HeadTooLarge
        # The parser of addresses takes 64 kB at most; a selector may be longer.
        self.url, _, query = whole.partition(b"?")
        super().on_headers_complete()
        self.url, self.scope["query_string"] = whole, query  # a WebSocket's own protocol reads the address again

    def send_400_response(self, msg: str) -> None:
        """The answer to what is no HTTP, or too much of it; called while the parser's error is being handled."""
        status, kind, body = b"400 Bad Request", TEXT, msg.encode()
        if self.too_large:
            status = body = b"431 Request Header Fields Too Large"
        elif isinstance(sys.exception(), HttpParserInvalidMethodError):
            status, kind, body = b"405 Method Not Allowed", JSON, encode(no_method().status())
        head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        self.transport.write(head % (status, kind, len(body)) + body)
        self.transport.close()
