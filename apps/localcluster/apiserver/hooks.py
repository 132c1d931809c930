"""Admission webhooks: which of the configured ones a write concerns, and the calls (AdmissionReview v1)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from apps.localcluster.apiserver.admission import Operation
from apps.localcluster.apiserver.errors import StatusError, bad_request
from apps.localcluster.apiserver.patches import PatchFailed, json_patch
from apps.localcluster.apiserver.selectors import matches_labels
from apps.localcluster.apiserver.store import Store, decode, encode

Object = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = f"mutatingwebhookconfigurations.{GROUP}", f"validatingwebhookconfigurations.{GROUP}"
OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class CallFailed(Exception):
    """A webhook that gave no usable answer."""


@dataclass(frozen=True)
class Hook:
    """One webhook of one configuration."""

    name: str
    url: str
    authority: str
    spec: Object

    def concerns(self, operation: Operation, namespace_labels: dict[str, str] | None) -> bool:
        """Whether rules and selectors take this write in. `namespace_labels` is None outside namespaces."""
        if not any(_rule_fits(rule, operation) for rule in self.spec.get("rules") or ()):
            return False
        if namespace_labels is not None and not matches_labels(
            self.spec.get("namespaceSelector") or {}, namespace_labels
        ):
            return False
        chosen = self.spec.get("objectSelector") or {}
        items = [item for item in (operation.item, operation.old) if item]
        return any(matches_labels(chosen, item.get("metadata", {}).get("labels") or {}) for item in items)


def _rule_fits(rule: Object, operation: Operation) -> bool:
    kind, below = operation.request.kind, operation.request.target.subresource
    wanted = {
        "operations": {"*", operation.name},
        "apiGroups": {"*", kind.group},
        "apiVersions": {"*", kind.version},
        "resources": {"*/*", f"{kind.plural}/*", f"*/{below}", f"{kind.plural}/{below}"}
        if below
        else {"*", "*/*", kind.plural},
    }
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return rule.get("scope", "*") in ("*", scope) and all(
        not words.isdisjoint(rule.get(field) or ()) for field, words in wanted.items()
    )


class Webhooks:
    """Calls the webhooks of the cluster; their configurations are read again after they change."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._bells = {resource: store.listen(resource) for resource in (MUTATING, VALIDATING)}
        self._hooks: dict[str, list[Hook]] = {}
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def mutate(self, operation: Operation) -> None:
        """Every mutating webhook in turn; each sees what the one before has made."""
        for hook in self._concerned(MUTATING, operation):
            response = await self._ask(hook, operation)
            if response.get("patch"):
                operation.item = _patched(hook, operation, response)

    async def validate(self, operation: Operation) -> None:
        """Every validating webhook, all at once."""
        hooks = self._concerned(VALIDATING, operation)
        if hooks:
            answers = await asyncio.gather(*(self._ask(hook, operation) for hook in hooks), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer

    def _concerned(self, resource: str, operation: Operation) -> list[Hook]:
        kind = operation.request.kind
        if kind.group == GROUP:
            return []  # a webhook cannot stand in the way of its own removal
        if self._bells[resource].is_set() or resource not in self._hooks:
            self._bells[resource].clear()
            self._hooks[resource] = [
                hook for record in self.store.select(resource) for hook in _hooks_of(record.load())
            ]
        hooks = self._hooks[resource]
        return [hook for hook in hooks if hook.concerns(operation, self._labels(operation))] if hooks else []

    def _labels(self, operation: Operation) -> dict[str, str] | None:
        """Labels of the namespace that a write happens in, or is about; None for other kinds outside namespaces."""
        request = operation.request
        if request.kind.namespaced:
            record = self.store.get("namespaces", ("", request.namespace))
            return record.labels if record else {}
        item = operation.item or operation.old or {}
        return (item["metadata"].get("labels") or {}) if request.kind.resource == "namespaces" else None

    async def _ask(self, hook: Hook, operation: Operation) -> Object:
        """The `response` of a webhook's answer. Raises StatusError when it refuses, or fails and must not."""
        if operation.request.dry_run and hook.spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            response = await self._call(hook, operation)
        except CallFailed as error:
            if hook.spec.get("failurePolicy") == "Ignore":
                return {}
            raise _internal(f'failed calling webhook "{hook.name}": failed to call webhook: {error}') from error
        operation.warnings.extend(str(text) for text in response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denial(hook, response.get("status") or {})
        return response

    async def _call(self, hook: Hook, operation: Operation) -> Object:
        seconds = hook.spec.get("timeoutSeconds", 10)
        url, request = f"{hook.url}?timeout={seconds}s", _review(operation)
        body = encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        try:
            client = self._client(hook.authority)
            async with asyncio.timeout(seconds):
                answer = await client.post(url, content=body, headers={"Content-Type": "application/json"})
        except TimeoutError as error:
            raise CallFailed(f'Post "{url}": context deadline exceeded') from error
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, ValueError) as error:
            raise CallFailed(f'Post "{url}": {_told(error, hook.url)}') from error
        if answer.status_code != 200:
            raise CallFailed(f"the server responded with status code {answer.status_code}")
        try:
            response: Object = decode(answer.content)["response"]
            same = response["uid"] == request["uid"]
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise CallFailed(f"the answer is no AdmissionReview: {error}") from error
        if not same:
            raise CallFailed("the answer is for another request")
        return response

    def _client(self, authority: str) -> httpx.AsyncClient:
        if authority not in self._clients:
            context = ssl.create_default_context()
            if authority:
                context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
            self._clients[authority] = httpx.AsyncClient(verify=context, trust_env=False, timeout=None)  # noqa: S113
        return self._clients[authority]


def _hooks_of(configuration: Object) -> Iterator[Hook]:
    for spec in configuration.get("webhooks") or ():
        client = spec.get("clientConfig") or {}
        service = client.get("service") or {}
        inside = f"https://{service.get('name')}.{service.get('namespace')}.svc{service.get('path', '')}"
        yield Hook(spec.get("name", ""), client.get("url") or inside, client.get("caBundle") or "", spec)


def _review(operation: Operation) -> Object:
    """The `request` of an AdmissionReview."""
    request, kind = operation.request, operation.request.kind
    named = {"kind": kind.kind, "apiVersion": kind.api_version}
    item = operation.item or operation.old or {}
    group_kind = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    body: Object = {
        "uid": str(uuid.uuid4()),
        "kind": group_kind,
        "resource": resource,
        "requestKind": group_kind,
        "requestResource": resource,
        "name": request.name or item.get("metadata", {}).get("name", ""),
        "namespace": request.namespace,
        "operation": operation.name,
        "userInfo": {"username": request.user.name, "uid": request.user.uid, "groups": list(request.user.groups)},
        "object": named | operation.item if operation.item else None,
        "oldObject": named | operation.old if operation.old else None,
        "dryRun": request.dry_run,
        "options": {"kind": OPTIONS[operation.name], "apiVersion": "meta.k8s.io/v1"},
    }
    if request.target.subresource:
        body["subResource"] = body["requestSubResource"] = request.target.subresource
    return body


def _patched(hook: Hook, operation: Operation, response: Object) -> Object:
    try:
        operations = decode(base64.b64decode(response["patch"]))
        named = {"kind": operation.request.kind.kind, "apiVersion": operation.request.kind.api_version}
        item = json_patch(named | operation.item, operations)
    except (binascii.Error, msgspec.DecodeError, PatchFailed, AttributeError, TypeError) as error:
        raise _internal(f'webhook "{hook.name}" sent a patch that does not apply: {error}') from error
    return {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}


def _internal(message: str) -> StatusError:
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def _denial(hook: Hook, status: Object) -> StatusError:
    text = status.get("message") or status.get("reason")
    message = f'admission webhook "{hook.name}" denied the request' + (f": {text}" if text else " without explanation")
    code = status.get("code") or 400
    return StatusError(code, status.get("reason") or "", message, status.get("details"))


def _told(error: Exception, url: str) -> str:
    """A failed connection in the words of a Go client."""
    if isinstance(error, httpx.ConnectError) and "certificate" not in str(error).lower():
        address = httpx.URL(url)
        return f"dial tcp {address.host}:{address.port or 443}: connect: connection refused"
    return str(error) or type(error).__name__
