"""Request bodies: JSON or YAML into plain objects, with what strict field validation finds on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from apps.localcluster.apiserver import protobuf
from apps.localcluster.apiserver.errors import StatusError, bad_request
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.requests import APPLY, Request
from apps.localcluster.apiserver.store import decode

Object = dict[str, Any]

UNKNOWN_FORMAT = (
    "the body of the request was in an unknown format - accepted media types include: application/json, "
    "application/yaml, application/vnd.kubernetes.protobuf"
)


@dataclass
class Body:
    """An object as sent; `faults` are what field validation says about it."""

    item: Object
    faults: list[str] = field(default_factory=list)


def parse(request: Request) -> Body:
    """Read a body by its Content-Type. Raises StatusError 400 or 415."""
    kind, raw = request.kind, request.body
    if request.content_type in ("application/yaml", APPLY):
        return Body(_mapping(_yaml(raw), kind, raw))
    if request.content_type == protobuf.MEDIA_TYPE:
        return Body(read_protobuf(raw))
    if request.content_type not in ("", "application/json"):
        raise StatusError(415, "UnsupportedMediaType", UNKNOWN_FORMAT)
    try:
        item = _mapping(decode(raw), kind, raw)
        if request.query.get("fieldValidation") == "Ignore":
            return Body(item)
        again = json.loads(raw, object_pairs_hook=_noting_doubles)
    except (msgspec.DecodeError, ValueError) as error:
        raise _unreadable(kind, raw, f"json parse error: {error}") from error
    return Body(item, [f'duplicate field "{name}"' for name in _doubles(again)])


class _Doubled(dict[str, Any]):
    """An object with keys that came twice."""

    names: list[str]


def _noting_doubles(pairs: list[tuple[str, Any]]) -> Object:
    item = dict(pairs)
    if len(item) == len(pairs):
        return item
    doubled, names = _Doubled(item), [name for name, _ in pairs]
    doubled.names = [name for index, name in enumerate(names) if name in names[:index]]
    return doubled


def _doubles(value: Any, path: str = "") -> Iterator[str]:
    """Paths of keys that came twice."""
    if isinstance(value, dict):
        yield from (path + name for name in getattr(value, "names", ()))
        for name, child in value.items():
            yield from _doubles(child, f"{path}{name}.")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _doubles(child, f"{path[:-1]}[{index}].")


def read_protobuf(raw: bytes) -> Object:
    """A body that kubectl has sent for one of its typed calls. Raises StatusError 415."""
    try:
        return protobuf.decode(raw)
    except protobuf.Unreadable as error:
        raise StatusError(415, "UnsupportedMediaType", f"{UNKNOWN_FORMAT}; {error}") from error


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes' Go library reads it: times stay text, bare `y` and `n` are booleans, keys become text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        pairs = super().construct_mapping(node, deep).items()
        return {str(key).lower() if isinstance(key, bool) else str(key): value for key, value in pairs}


_Loader.bool_values = yaml.CSafeLoader.bool_values | {"y": True, "n": False}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))


def _yaml(raw: bytes) -> Any:
    """The first document of a YAML body; JSON is YAML and much faster to read."""
    try:
        return decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return next(iter(yaml.load_all(raw, Loader=_Loader)), None)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"yaml: {error}") from error


def _mapping(value: Any, kind: Kind, raw: bytes) -> Object:
    if isinstance(value, dict):
        return value
    raise _unreadable(kind, raw, "json parse error: json: cannot unmarshal array into Go value of type struct")


def _unreadable(kind: Kind, raw: bytes, why: str) -> StatusError:
    shown = raw[:32].decode("utf-8", "replace") or "<empty>"
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; {why} ({shown})"
    )


def check_faults(request: Request, faults: list[str], warn: Callable[[str], None]) -> None:
    """Refuse, tell or pass over what field validation found, as the request asks."""
    mode = request.query.get("fieldValidation") or "Warn"
    if faults and mode == "Strict":
        raise bad_request(_unusable(request.kind, "strict decoding error: " + ", ".join(faults)))
    if mode != "Ignore":
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
        why = f"converting ({kind.version}.{sent}) to (core.{kind.kind}): unknown conversion"
        raise bad_request(_unusable(kind, why, sent))
    if version and version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    if not isinstance(item.get("metadata", {}) or {}, dict):
        raise bad_request(
            _unusable(kind, "json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
        )


def _unusable(kind: Kind, why: str, sent: str = "") -> str:
    return f'{sent or kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'
