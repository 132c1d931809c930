"""uvicorn's HTTP protocol with the bounds and refusals of the HTTP server that Kubernetes stands on."""

from __future__ import annotations

import sys

from httptools import HttpParserInvalidMethodError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from apps.localcluster.apiserver.errors import no_method
from apps.localcluster.apiserver.store import encode

LARGEST_HEAD = 1024 * 1024 + 4096  # bytes of a request line and its headers
TEXT, JSON = b"text/plain; charset=utf-8", b"application/json"
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
BAD = b"HTTP/1.1 400 Bad Request\r\n"
ODD_METHOD = b"HTTP/1.1 405 Method Not Allowed\r\n"


class HeadTooLarge(Exception):
    """A request line with headers of more than LARGEST_HEAD bytes."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    head = 0

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, size: int) -> None:
        self.head += size
        if self.head > LARGEST_HEAD:
            raise HeadTooLarge

    def on_headers_complete(self) -> None:
        # The parser of addresses takes 64 kB at most; a selector may be longer.
        whole = self.url
        self.url, _, query = whole.partition(b"?")
        super().on_headers_complete()
        self.url, self.scope["query_string"] = whole, query  # a WebSocket's own protocol reads the address again

    def send_400_response(self, msg: str) -> None:
        """The answer to what is no HTTP, or too much of it: what the parser says is being handled now."""
        line, kind, body = BAD, TEXT, msg.encode()
        if self.head > LARGEST_HEAD:
            line, body = TOO_LARGE, b"431 Request Header Fields Too Large"
        elif isinstance(sys.exception(), HttpParserInvalidMethodError):
            line, kind, body = ODD_METHOD, JSON, encode(no_method().status())
        head = b"Content-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (kind, len(body))
        self.transport.write(line + head + body)
        self.transport.close()
