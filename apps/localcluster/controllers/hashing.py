"""The hash by which a Deployment names the ReplicaSet of a template.

It is Kubernetes' own, so that a ReplicaSet has the same name here and there: FNV-1a over the text that Go's spew prints
of the template's structures (structures.yaml). A template that uses one that is not in the table is hashed as JSON.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver.store import encode

Object = dict[str, Any]

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
NO_TIME = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"


def template_hash(template: Object, collisions: int | None) -> str:
    """Up to ten letters. `collisions`: how often the hash was another template's already."""
    try:
        data = _typed("v1.PodTemplateSpec", template).encode()
    except KeyError:
        data = encode(template)
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    digest = 2166136261
    for byte in data:
        digest = (digest ^ byte) * 16777619 % 2**32
    return "".join(LETTERS[ord(each) % len(LETTERS)] for each in str(digest))


@cache
def _structures() -> dict[str, list[tuple[str, str, str]]]:
    """Name to fields in order: name in Go, type, name in JSON (`-` for one whose parts stand in its place)."""
    table = yaml.load(Path(__file__).with_name("structures.yaml").read_text(), Loader=yaml.CSafeLoader)
    found = {}
    for name, fields in table.items():
        words = [field.split() for field in fields.split(", ")]
        found[name] = [(go, type_, rest[0] if rest else go[0].lower() + go[1:]) for go, type_, *rest in words]
    return found


def _typed(type_: str, value: Any) -> str:
    return f"({type_}){_printed(type_, value)}"


def _printed(type_: str, value: Any) -> str:
    """A value as spew prints it. Raises KeyError for a structure that is not in the table."""
    if type_ == "v1.ResourceList":
        type_ = "map[v1.ResourceName]resource.Quantity"
    if type_.startswith(("*", "[]", "map[")) and value is None:
        return "<nil>"
    if type_.startswith("*"):
        return _printed(type_[1:], value)
    if type_.startswith("[]"):
        return "[" + " ".join(_printed(type_[2:], each) for each in value) + "]"
    if type_.startswith("map["):
        inner = type_.partition("]")[2]
        return "map[" + " ".join(f"{name}:{_printed(inner, value[name])}" for name in sorted(value)) + "]"
    if type_ == "v1.Time":
        return NO_TIME
    if type_ == "resource.Quantity":
        return _quantity(value or "0")
    if type_ == "intstr.IntOrString":
        kind, number, text = (1, 0, value) if isinstance(value, str) else (0, value or 0, "")
        return f"{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"
    if type_ == "bool":
        return "true" if value else "false"
    if type_ in ("int32", "int64"):
        return str(value or 0)
    name = type_.removeprefix("v1.")
    if name in _structures() or isinstance(value, dict):
        return "{" + " ".join(_field(each, value or {}) for each in _structures()[name]) + "}"
    return str(value or "")


def _field(field: tuple[str, str, str], value: Object) -> str:
    name, type_, key = field
    return f"{name}:{_typed(type_, value if key == '-' else value.get(key))}"


def _quantity(text: str) -> str:
    """A canonical quantity. Go keeps the text where it is sure that it is canonical."""
    found = re.fullmatch(r"(-?)(\d+)([A-Za-z]*)", text)
    if found is None:
        raise KeyError(text)
    sign, digits, suffix = found.groups()
    number, scale, style = int(sign + digits), 0, "DecimalSI"
    if suffix in BINARY:
        style, kept = "BinarySI", int(digits) & 7 != 0
        number <<= 10 * (BINARY.index(suffix) + 1)
    else:
        scale = 3 * DECIMAL.index(suffix) - 9
        kept = text == "0" or not (digits.endswith("000") or digits[0] == "0")
    amount = f"(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}}"
    exact = "(resource.infDecAmount){Dec:(*inf.Dec)<nil>}"
    return f"{{i:{amount} d:{exact} s:(string){text if kept else ''} Format:(resource.Format){style}}}"
