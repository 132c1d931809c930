"""Refusals, each with the Status object a Kubernetes API server sends for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver.kinds import Kind

Object = dict[str, Any]


class StatusError(Exception):
    """A request that ends with a Status object. `reason` and `details` are left out of it when empty or None."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details
        self.metadata: Object = {}
        self.headers: list[tuple[str, str]] = []

    def status(self) -> Object:
        """The Status object."""
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}


class PlainError(Exception):
    """A refusal in plain text, as for paths outside the API."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(frozen=True)
class Cause:
    """One fault of one field: `reason` such as FieldValueInvalid, `message` with its own prefix."""

    reason: str
    message: str
    field: str


def required(field: str, text: str = "") -> Cause:
    return Cause("FieldValueRequired", "Required value" + (f": {text}" if text else ""), field)


def invalid_value(field: str, value: object, text: str) -> Cause:
    shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str) or value is None else _go(value)
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {text}", field)


def forbidden_value(field: str, text: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {text}", field)


def not_supported(field: str, value: str, supported: list[str]) -> Cause:
    options = ", ".join(json.dumps(each) for each in supported)
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {json.dumps(value)}: supported values: {options}", field
    )


def _go(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def details_of(kind: Kind, name: str = "", *, by_kind: bool = False) -> Object:
    """The `details` of a Status about one object; validation names the kind, everything else the resource."""
    details: Object = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return details | {"kind": kind.kind if by_kind else kind.plural}


def not_found(kind: Kind, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{kind.resource} "{name}" not found', details_of(kind, name))


def already_exists(kind: Kind, name: str, *, deleting: bool = False) -> StatusError:
    why = "object is being deleted: " if deleting else ""
    return StatusError(409, "AlreadyExists", f'{why}{kind.resource} "{name}" already exists', details_of(kind, name))


def conflict(kind: Kind, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, details_of(kind, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(kind: Kind, name: str, why: str) -> StatusError:
    subject = f'{kind.resource} "{name}" is forbidden' if name else f"{kind.resource} is forbidden"
    return StatusError(403, "Forbidden", f"{subject}: {why}", details_of(kind, name))


def invalid(kind: Kind | tuple[str, str], name: str, causes: list[Cause]) -> StatusError:
    """422 for one or more faulty fields; `kind` may be (group, kind) for things that are not stored."""
    group, title = (kind.group, kind.kind) if isinstance(kind, Kind) else kind
    texts = [f"{cause.field}: {cause.message}" for cause in dict.fromkeys(causes)]
    told = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{title}.{group}" if group else title
    details: Object = {"name": name} if name else {}
    if group:
        details["group"] = group
    if title:
        details["kind"] = title
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    quoted = json.dumps(name, ensure_ascii=False)
    return StatusError(422, "Invalid", f"{qualified} {quoted} is invalid: {told}", details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def gone(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def no_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def no_path() -> PlainError:
    return PlainError(404, "404 page not found\n")


def out_of_time() -> PlainError:
    """A Status, but neither named nor typed so: it stems from the HTTP server."""
    message = "Timeout: request did not complete within the allotted timeout"
    body = StatusError(504, "Timeout", message, {}).status()
    return PlainError(504, json.dumps({name: body[name] for name in body if name not in ("kind", "apiVersion")}))


def no_method() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_implemented(what: str) -> StatusError:
    return StatusError(501, "NotImplemented", f"{what} is not offered by this server", {})
