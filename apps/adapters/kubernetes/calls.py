"""Calls on one API server through the official client: JSON dicts in and out, every call with a timeout.

The client's own models are not used: reading 2,000 pods through them costs 1.8 s and 340 MB.
"""

from __future__ import annotations

import json
import re
import time
from copy import copy
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client.api_client import ApiClient
from kubernetes.client.configuration import Configuration
from kubernetes.client.exceptions import ApiException

from apps.adapters.errors import NotFound, OutsideError, Unavailable, outside_transaction
from apps.adapters.kubernetes import answers, objects
from apps.adapters.kubernetes.endpoint import CONNECT_SECONDS, READ_SECONDS, Endpoint, TokenSource
from apps.adapters.kubernetes.objects import FIELD_MANAGER, Object
from apps.adapters.kubernetes.pacing import Pace

BODY_SECONDS = 30.0
"""A server that trickles bytes is given up after this long; a read timeout alone would never end."""
PAGE = 500
CONNECTIONS = 16

Objects = list[Object]

_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Applied:
    """What the server stored, and the texts of its Warning headers."""

    object: Object
    warnings: list[str]


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    query: list[tuple[str, str]]
    body: Object | None = None
    content_type: str = "application/json"


@dataclass(frozen=True)
class _Response:
    code: int
    headers: Any  # urllib3's HTTPHeaderDict
    body: bytes

    @property
    def object(self) -> Object:
        try:
            document = json.loads(self.body)
        except ValueError:
            raise Unavailable("The API server's answer is not JSON.", code=self.code) from None
        if not isinstance(document, dict):
            raise Unavailable("The API server's answer is not an object.", code=self.code)
        return document


class KubeApi:
    """One API server, for any number of threads.

    Raises Unavailable (no answer, or come back later), Refused (and its kinds NotFound, Conflict, NotInstalled,
    AnotherObject), InsideTransaction.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        configuration = Configuration(
            host=endpoint.server,
            ca_cert_data=endpoint.ca_pem or None,
            retries=False,
            connection_pool_maxsize=CONNECTIONS,
        )
        configuration.proxy = None
        configuration.keep_alive = True
        self._client = ApiClient(configuration)
        self._pace = Pace()

    def speaking_with(self, token_source: TokenSource) -> KubeApi:
        """The same server and the same connections, for somebody else."""
        other = copy(self)
        other._endpoint = replace(self._endpoint, token_source=token_source)
        return other

    def close(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]

    def version(self) -> str:
        """The server's version, such as `v1.36.1`."""
        return str(self._send(_Request("GET", "/version", [])).object.get("gitVersion", ""))

    def get(self, path: str, **params: str | int) -> Object:
        """One object. Raises NotFound when it is not there, NotInstalled when its kind is not."""
        return self._send(_Request("GET", objects.checked(path), objects.query(**params))).object

    def list(self, path: str, label_selector: str = "", field_selector: str = "") -> Objects:
        """All objects of a collection, read in pages. A snapshot that expired on the way is read again from nothing."""
        for _ in range(3):
            try:
                return self._pages(objects.checked(path), label_selector, field_selector)
            except Unavailable as error:
                # 410 carries a token that goes on with a newer, inconsistent view; it is not used.
                if error.code != 410:
                    raise
        raise Unavailable("The list changed too fast to be read.", code=410)

    def apply(self, path: str, body: Object, *, force: bool = False, dry_run: bool = False) -> Applied:
        """Server-side apply as `maas-portal`. The body names the object of the path; with a uid in it, an object that
        was deleted meanwhile is not brought back (AnotherObject)."""
        metadata = body["metadata"]
        if metadata.get("name") != path.rpartition("/")[2] or "managedFields" in metadata:
            raise ValueError("An applied body names the object of its path and has no managedFields.")
        query = objects.query(field_manager=FIELD_MANAGER, field_validation="Strict", force=force, dry_run=dry_run)
        return self._write(_Request("PATCH", path, query, body, "application/apply-patch+yaml"))

    def create(self, path: str, body: Object, *, dry_run: bool = False, strict: bool = False) -> Applied:
        """POST to a collection. `strict` refuses unknown fields and names all of them (an apply names one)."""
        validation = "Strict" if strict else "Warn"
        query = objects.query(field_manager=FIELD_MANAGER, field_validation=validation, dry_run=dry_run)
        return self._write(_Request("POST", path, query, body))

    def merge_patch(self, path: str, patch: Object) -> Object:
        """JSON merge patch; `metadata.resourceVersion` in it makes it conditional (Conflict when stale).

        Not for Secrets: an error would quote the whole stored object.
        """
        if objects.is_secret(path):
            raise ValueError("Secrets are written by apply only.")
        query = objects.query(field_manager=FIELD_MANAGER)
        return self._write(_Request("PATCH", path, query, patch, "application/merge-patch+json")).object

    def delete(self, path: str, *, uid: str = "", propagation: str = "Background", grace: int | None = None) -> bool:
        """Delete one object; False when it was gone, or when the name now belongs to an object with another uid."""
        if not objects.names_object(objects.checked(path)):
            raise ValueError(f"A delete names one object: {path}.")
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            self._send(_Request("DELETE", path, [], options))
        except (NotFound, answers.AnotherObject):
            return False
        return True

    def pod_log(self, path: str, container: str, **params: str | int | bool) -> bytes | None:
        """The log of a container as it stands; `path` is the pod's. None when the pod has no node yet.

        `params`: previous, since_time, tail_lines, limit_bytes, timestamps. Raises NodeGone too.
        """
        query = objects.query(container=container, **params)
        response = self._send(_Request("GET", f"{objects.checked(path)}/log", query))
        return None if response.code == 204 else response.body

    def _pages(self, path: str, label_selector: str, field_selector: str) -> Objects:
        found: Objects = []
        token = ""
        while True:
            query = objects.query(
                label_selector=label_selector, field_selector=field_selector, limit=PAGE, continue_=token
            )
            page = self._send(_Request("GET", path, query)).object
            # Items of a list carry no kind of their own.
            common = {"apiVersion": page.get("apiVersion"), "kind": str(page.get("kind", "")).removesuffix("List")}
            found += [common | item for item in page.get("items") or []]
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    def _write(self, request: _Request) -> Applied:
        objects.checked(request.path)
        response = self._send(request)
        stored = response.object
        if objects.is_secret(request.path):  # to write is to read: the answer carries the data
            stored.pop("data", None)
            stored.pop("stringData", None)
        texts = [match for header in response.headers.getlist("Warning") for match in _WARNING.findall(header)]
        return Applied(stored, [answers.cut(text.replace('\\"', '"')) for text in texts])

    def _send(self, request: _Request) -> _Response:
        """Send with the token at hand; when the server does not accept it, read it again and try once more."""
        outside_transaction()
        token = self._endpoint.token_source()
        response = self._exchange(request, token)
        if response.code < 300:
            return response
        answer = answers.read(response.code, response.headers, response.body, request.path)
        if answers.is_credential_fault(answer):
            newer = self._endpoint.token_source(fresh=True)
            if newer != token:
                response = self._exchange(request, newer)
                answer = answers.read(response.code, response.headers, response.body, request.path)
        if response.code >= 300:
            self._pace.bucket.heed(answer)
            raise answers.failure(answer)
        return response

    def _exchange(self, request: _Request, token: str) -> _Response:
        url = self._endpoint.server.rstrip("/") + request.path
        if request.query:
            url += "?" + urlencode(request.query)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": FIELD_MANAGER}
        body: Object | bytes | None = request.body
        if body is not None:
            headers["Content-Type"] = request.content_type
            if not request.content_type.endswith("json"):
                body = json.dumps(body, allow_nan=False).encode()  # JSON is YAML without its booleans `n` and `on`
        try:
            with self._pace.turn():
                answer = self._client.call_api(
                    request.method,
                    url,
                    header_params=headers,
                    body=body,
                    _request_timeout=(CONNECT_SECONDS, READ_SECONDS),
                )
                raw = answer.response
                return _Response(raw.status, raw.headers, _read(raw))
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
            raise _silence(error) from error


def _read(raw: urllib3.BaseHTTPResponse) -> bytes:
    end = time.monotonic() + BODY_SECONDS
    chunks = []
    for chunk in raw.stream(1 << 16):
        chunks.append(chunk)
        if time.monotonic() > end:
            raw.close()
            raise Unavailable("The API server's answer did not end.")
    return b"".join(chunks)


def _silence(error: Exception) -> OutsideError:
    """No answer: refused, unreachable, cut off, too slow, or a certificate we do not trust."""
    return Unavailable(answers.cut(f"The API server did not answer ({type(error).__name__}): {error}"))
