"""The admission server: HTTPS on loopback, with a certificate made at start and told to the API server."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from apps.localcluster.client import KubeClient
from apps.localcluster.volcano.admission import jobs, queues, schema
from apps.localcluster.volcano.cache import Cache
from apps.localcluster.volcano.objects import name

log = logging.getLogger(__name__)

Object = dict[str, Any]

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
HOST = "127.0.0.1"
LARGEST_BODY = 8 * 1024 * 1024

# Path: (group, version, resource, operations).
HOOKS: dict[str, tuple[str, str, str, list[str]]] = {
    "jobs/mutate": ("batch.volcano.sh", "v1alpha1", "jobs", ["CREATE"]),
    "jobs/validate": ("batch.volcano.sh", "v1alpha1", "jobs", ["CREATE", "UPDATE"]),
    "queues/mutate": ("scheduling.volcano.sh", "v1beta1", "queues", ["CREATE"]),
    "queues/validate": ("scheduling.volcano.sh", "v1beta1", "queues", ["CREATE", "UPDATE", "DELETE"]),
    "podgroups/validate": ("scheduling.volcano.sh", "v1beta1", "podgroups", ["CREATE"]),
    "hypernodes/validate": ("topology.volcano.sh", "v1alpha1", "hypernodes", ["CREATE", "UPDATE"]),
}


def certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate for 127.0.0.1 and its key, both PEM."""
    command = [sys.executable, "-m", "apps.localcluster.volcano.keys", "certificate"]
    signed, key, _ = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split(b"\0")
    return signed, key


@dataclass(frozen=True)
class Admission:
    """Answers admission reviews. What it knows of queues is what its own cache has seen."""

    queues: Cache

    def answer(self, path: str, review: Object) -> Object:
        request = review["request"]
        patch: list[Object] = []
        invalid = refusal = ""
        try:
            if path == "jobs/mutate":
                patch = jobs.defaults(request["object"])
            elif path == "queues/mutate":
                patch = queues.defaults(request["object"])
            else:
                invalid = schema.refusal(request.get("object") or {})
                refusal = "" if invalid else self._refusal(path, request)
        except ValueError as error:
            refusal = str(error)
        response: Object = {"uid": request["uid"], "allowed": not (invalid or refusal)}
        if invalid:
            response["status"] = {"message": invalid, "code": 422, "reason": "Invalid"}
        elif refusal:
            response["status"] = {"message": refusal}
        elif patch:
            encoded = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    def _refusal(self, path: str, request: Object) -> str:
        known = {key[1]: queue for key, queue in self.queues.store.items()}
        new: Object = request.get("object") or {}
        old: Object = request.get("oldObject") or {}
        operation = request["operation"]
        decide: dict[tuple[str, str], Callable[[], str]] = {
            ("jobs/validate", "CREATE"): lambda: jobs.refuse_create(new, known),
            ("jobs/validate", "UPDATE"): lambda: jobs.refuse_update(old, new),
            ("queues/validate", "CREATE"): lambda: queues.refuse_create(new, known),
            ("queues/validate", "UPDATE"): lambda: queues.refuse_update(old, new, known),
            ("queues/validate", "DELETE"): lambda: queues.refuse_delete(request.get("name") or name(old), known),
            ("podgroups/validate", "CREATE"): lambda: queues.refuse_group(new, known),
            ("hypernodes/validate", "CREATE"): lambda: queues.refuse_hypernode(new),
            ("hypernodes/validate", "UPDATE"): lambda: queues.refuse_hypernode(new),
        }
        return decide[path, operation]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            return
        path, body = scope["path"].strip("/"), b""
        while len(body) <= LARGEST_BODY:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status, answer = 404, b""
        if path in HOOKS and len(body) <= LARGEST_BODY:
            try:
                status, answer = 200, json.dumps(self.answer(path, json.loads(body))).encode()
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                log.warning("admission review for %s not understood: %r", path, error)
                status = 400
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the program as a whole ends on a signal, not this part of it


class Webhooks:
    """Serves admission reviews and keeps itself registered."""

    def __init__(self, client: KubeClient, known_queues: Cache, port: int = 0) -> None:
        self.client, self.admission = client, Admission(known_queues)
        self.socket = socket.create_server((HOST, port))
        self.certificate, key = certificate()
        with tempfile.TemporaryDirectory() as folder:  # ssl reads key pairs from files only
            for file, content in (("tls.crt", self.certificate), ("tls.key", key)):
                (Path(folder) / file).write_bytes(content)
            config = uvicorn.Config(
                self.admission,
                ssl_certfile=Path(folder) / "tls.crt",
                ssl_keyfile=Path(folder) / "tls.key",
                log_level="warning",
                lifespan="off",
                timeout_keep_alive=60,
                timeout_graceful_shutdown=1,
            )
            config.load()
        self.server = _Server(config)

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    async def serve(self) -> None:
        await self.server.serve(sockets=[self.socket])

    async def register(self) -> None:
        """Tell the API server where we are. From then on nothing of these kinds is made without us."""
        bundle = base64.b64encode(self.certificate).decode()
        for path, (group, version, resource, operations) in HOOKS.items():
            mutating = path.endswith("mutate")
            kind = f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration"
            called = f"volcano-admission-service-{path.replace('/', '-')}"
            hook = {
                "name": f"{'mutate' if mutating else 'validate'}{resource}.volcano.sh",
                "clientConfig": {"url": f"https://{HOST}:{self.port}/{path}", "caBundle": bundle},
                "rules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": [version],
                        "resources": [resource],
                        "operations": operations,
                        "scope": "*",
                    }
                ],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
            }
            body = {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": called},
                "webhooks": [hook],
            }
            await self.client.apply(f"{REGISTRATION}/{kind.lower()}s/{called}", body)
