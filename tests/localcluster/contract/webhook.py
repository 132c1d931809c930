"""An admission webhook on loopback that says what a case wants it to say."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deploy.testbed.certificates import serving


@dataclass(frozen=True)
class Webhook:
    port: int
    authority: str
    """Base64 of PEM, as `caBundle` wants it."""


@contextmanager
def webhook(answer: dict[str, Any] | None) -> Iterator[Webhook]:
    """One whose AdmissionResponse is `answer`; None accepts connections and says nothing."""
    with TemporaryDirectory() as folder:
        certificate, key = serving(Path(folder), "webhook")
        authority = base64.b64encode(certificate.read_bytes()).decode()
        if answer is None:
            with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
                yield Webhook(silent.getsockname()[1], authority)
            return
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        try:
            yield Webhook(server.server_address[1], authority)
        finally:
            server.shutdown()
            server.server_close()


def _handler(answer: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = {"uid": review["request"]["uid"], **answer}
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
