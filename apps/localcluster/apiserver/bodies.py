"""Request bodies: JSON or YAML into plain objects, with what strict field validation finds on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from apps.localcluster.apiserver import protobuf
from apps.localcluster.apiserver.errors import StatusError, bad_request
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.requests import Request
from apps.localcluster.apiserver.store import decode

Object = dict[str, Any]

YAML_TYPES = ("application/yaml", "application/apply-patch+yaml")
UNKNOWN_FORMAT = (
    "the body of the request was in an unknown format - accepted media types include: application/json, "
    "application/yaml, application/vnd.kubernetes.protobuf"
)


@dataclass
class Body:
    """An object as sent; `faults` are what field validation says about it."""

    item: Object
    faults: list[str] = field(default_factory=list)


class _Pairs:
    """Notes keys that come twice while JSON is read; objects are finished from the inside out."""

    def __init__(self) -> None:
        self.doubled: dict[int, list[str]] = {}

    def take(self, pairs: list[tuple[str, Any]]) -> Object:
        item = dict(pairs)
        if len(item) != len(pairs):
            seen: set[str] = set()
            twice = [name for name, _ in pairs if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
            self.doubled[id(item)] = twice
        return item

    def faults(self, value: Any, path: str = "") -> list[str]:
        if isinstance(value, dict):
            found = [f'duplicate field "{path}{name}"' for name in self.doubled.get(id(value), ())]
            for name, child in value.items():
                found += self.faults(child, f"{path}{name}.")
            return found
        if isinstance(value, list):
            return [f for index, each in enumerate(value) for f in self.faults(each, f"{path[:-1]}[{index}].")]
        return []


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"invalid character '{text[0]}' looking for beginning of value")


def parse(request: Request) -> Body:
    """Read a body by its Content-Type. Raises StatusError 400 or 415."""
    kind, raw = request.kind, request.body
    if request.content_type in YAML_TYPES:
        return Body(_mapping(_yaml(raw), kind, raw))
    if request.content_type == protobuf.MEDIA_TYPE:
        return Body(read_protobuf(raw))
    if request.content_type not in ("", "application/json"):
        raise StatusError(415, "UnsupportedMediaType", UNKNOWN_FORMAT)
    try:
        item = _mapping(decode(raw), kind, raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(kind, raw, f"json parse error: {error}") from error
    if request.query.get("fieldValidation") == "Ignore":
        return Body(item)
    pairs = _Pairs()
    try:
        again = json.loads(raw, object_pairs_hook=pairs.take, parse_constant=_refuse_constant)
    except ValueError as error:
        raise _unreadable(kind, raw, f"json parse error: {error}") from error
    return Body(item, pairs.faults(again) if pairs.doubled else [])


def read_protobuf(raw: bytes) -> Object:
    """A body that kubectl has sent for one of its typed calls. Raises StatusError 415."""
    try:
        return protobuf.decode(raw)
    except protobuf.Unreadable as error:
        raise StatusError(415, "UnsupportedMediaType", f"{UNKNOWN_FORMAT}; {error}") from error


def _yaml(raw: bytes) -> Any:
    """The first document of a YAML body; JSON is YAML and much faster to read."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        # YAML documents are few and small here; the loader gives no Python objects.
        return _text_keys(next(iter(yaml.load_all(raw, Loader=_TextDates)), None))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"yaml: {error}") from error


class _TextDates(yaml.CSafeLoader):
    """Leaves timestamps as the text they are, as Kubernetes does."""


# In YAML 1.1 a bare `y` or `n` is a boolean too; the Go library that Kubernetes uses holds to that.
_TextDates.bool_values = yaml.CSafeLoader.bool_values | {"y": True, "n": False}
_TextDates.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_TextDates.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))


def _mapping(value: Any, kind: Kind, raw: bytes) -> Object:
    if isinstance(value, dict):
        return value
    raise _unreadable(kind, raw, "json parse error: json: cannot unmarshal array into Go value of type struct")


def _text_keys(value: Any) -> Any:
    """Keys as JSON has them: a bare `n` is a boolean in YAML 1.1 and becomes "false"."""
    if isinstance(value, dict):
        return {
            str(name).lower() if isinstance(name, bool) else str(name): _text_keys(child)
            for name, child in value.items()
        }
    return [_text_keys(each) for each in value] if isinstance(value, list) else value


def _unreadable(kind: Kind, raw: bytes, why: str) -> StatusError:
    shown = raw[:32].decode("utf-8", "replace") or "<empty>"
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; {why} ({shown})"
    )


def check_faults(request: Request, faults: list[str], warn: Callable[[str], None]) -> None:
    """Refuse, tell or pass over what field validation found, as the request asks."""
    mode = request.query.get("fieldValidation") or "Warn"
    if not faults or mode == "Ignore":
        return
    if mode == "Strict":
        kind = request.kind
        told = ", ".join(faults)
        message = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
        raise bad_request(message + told)
    for fault in faults:
        warn(fault)


def check_type(request: Request, item: Object) -> None:
    """Refuse an object of another kind or version. A built-in kind may be left out."""
    kind = request.kind
    sent, version = item.get("kind"), item.get("apiVersion")
    if kind.custom and not (sent and version):
        missing = "Kind" if not sent else "apiVersion"
        raise bad_request(f"Object '{missing}' is missing in '{request.body[:64].decode('utf-8', 'replace')}'")
    if sent and sent != kind.kind:
        raise bad_request(
            f'{sent} in version "{kind.version}" cannot be handled as a {kind.kind}: converting '
            f"({kind.version}.{sent}) to (core.{kind.kind}): unknown conversion"
        )
    if version and version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    if not isinstance(item.get("metadata", {}) or {}, dict):
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: cannot unmarshal into '
            "Go struct field .metadata of type v1.ObjectMeta"
        )
