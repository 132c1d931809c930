"""Bodies in protobuf, which kubectl sends with its typed calls. Answers are JSON, which it takes as well.

`protobuf.yaml` lists the messages: field number, name and type, as in the .proto files of Kubernetes.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
TYPE, RAW = 1, 2
VARINT, BYTES = 0, 2


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
        envelope = dict(_fields(data[len(MAGIC) :]))
        type_ = dict(_fields(envelope[TYPE]))
        version, kind = type_[1].decode(), type_[2].decode()
        return {"kind": kind, "apiVersion": version} | _message(kind, envelope.get(RAW, b""))
    except (IndexError, KeyError, AttributeError, UnicodeDecodeError, TypeError) as error:
        raise Unreadable(f"a message or field that is read in JSON only: {error!r}") from error


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values: int for numbers, bytes for everything else. No kind here has other sizes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, at = _varint(data, at)
        if tag & 7 not in (VARINT, BYTES) or (tag & 7 == BYTES and at + number > len(data)):
            raise Unreadable("malformed message")
        if tag & 7 == VARINT:
            yield tag >> 3, number
        else:
            yield tag >> 3, data[at : at + number]
            at += number


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
        field, type_ = _messages()[name][number]
        if type_.startswith("map:"):
            pair = dict(_fields(raw))
            item.setdefault(field, {})[pair.get(1, b"").decode()] = _value(type_[4:], pair.get(2, b""))
        elif type_.startswith("list:"):
            item.setdefault(field, []).append(_value(type_[5:], raw))
        elif (value := _value(type_, raw)) not in ("", {}):
            item[field] = value
    return item


SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": bytes.decode,
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "bool": bool,
    "int": int,
    "quantity": lambda raw: dict(_fields(raw))[1].decode(),
    # What Go always writes out, and JSON only when it is not empty.
    "count": lambda number: number or "",
    "flag": lambda number: bool(number) or "",
    "number_or_text": lambda raw: _number_or_text(dict(_fields(raw))),
}


def _number_or_text(parts: dict[int, Any]) -> int | str:
    return str(parts[3].decode()) if parts.get(1) else int(parts.get(2, 0))


def _value(type_: str, raw: Any) -> Any:
    return SCALARS[type_](raw) if type_ in SCALARS else _message(type_, raw)
