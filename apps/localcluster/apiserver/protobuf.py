"""Bodies in protobuf, which kubectl sends with its typed calls. Answers are JSON, which it takes as well.

`protobuf.yaml` lists the messages: field number, name and type, as in the .proto files of Kubernetes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
ENVELOPE_TYPE, ENVELOPE_RAW = 1, 2
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Unreadable(ValueError):
    """No protobuf of Kubernetes, or a kind that is not in the table."""


@cache
def _messages() -> dict[str, dict[int, tuple[str, str]]]:
    table = yaml.load(Path(__file__).with_name("protobuf.yaml").read_text(), Loader=yaml.CSafeLoader)
    return {name: {number: tuple(field.split()) for number, field in fields.items()} for name, fields in table.items()}


def decode(data: bytes) -> Object:
    """An object with kind and apiVersion. Raises Unreadable."""
    if not data.startswith(MAGIC):
        raise Unreadable("no magic number")
    try:
        parts = dict(_fields(data[len(MAGIC) :]))
        named = dict(_fields(parts[ENVELOPE_TYPE]))
        version, kind = named[1].decode(), named[2].decode()
        if kind not in _messages():
            raise Unreadable(f"{kind} is read in JSON only")
        return {"kind": kind, "apiVersion": version} | _message(kind, parts.get(ENVELOPE_RAW, b""))
    except (IndexError, KeyError, AttributeError, UnicodeDecodeError, TypeError) as error:
        raise Unreadable(f"malformed message: {error!r}") from error


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values: int for numbers, bytes for everything else."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(wire)
        if wire == BYTES:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise Unreadable("malformed message")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value - (1 << 64) if value >> 63 else value, at


def _message(name: str, data: bytes) -> Object:
    """Go writes out fields that are empty; as in JSON they are left away."""
    item: Object = {}
    for number, raw in _fields(data):
        if number not in _messages()[name]:
            raise Unreadable(f"field {number} of {name} is not known")
        field, type_ = _messages()[name][number]
        if type_.startswith("map:"):
            pair = dict(_fields(raw))
            item.setdefault(field, {})[pair.get(1, b"").decode()] = _value(type_[4:], pair.get(2, b""))
        elif type_.startswith("list:"):
            item.setdefault(field, []).append(_value(type_[5:], raw))
        elif (value := _value(type_, raw)) not in ("", {}):
            item[field] = value
    return item


def _value(type_: str, raw: Any) -> Any:
    if type_ == "string":
        return raw.decode()
    if type_ == "bytes":
        return base64.b64encode(raw).decode()
    if type_ == "bool":
        return bool(raw)
    if type_ == "int":
        return raw
    if type_ == "quantity":
        return dict(_fields(raw))[1].decode()
    return _message(type_, raw)
