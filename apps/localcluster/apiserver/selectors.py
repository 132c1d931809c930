"""Label and field selectors: parsing, and whether a record fits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver.errors import bad_request
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.store import Record

Object = dict[str, Any]

WORD = r"[^\s=!(),<>]+"
REQUIREMENT = re.compile(
    rf"\s*(?P<absent>!\s*)?(?P<key>{WORD})\s*"
    rf"((?P<operator>==|!=|=|<|>)\s*(?P<value>{WORD})?|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?\s*"
)
TOKEN = re.compile(rf"\s*(==|!=|[=!(),<>]|{WORD})?")
OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}
INTEGER = re.compile(r"-?\d+")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
UNPARSED = "unable to parse requirement: "


@dataclass(frozen=True)
class Requirement:
    """One term of a label selector, by the names that LabelSelector objects use for operators."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: dict[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        if value is None or not INTEGER.fullmatch(value):
            return False
        (bound,) = map(int, self.values)
        return int(value) > bound if self.operator == "Gt" else int(value) < bound


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Terms of a label selector, all of which must hold. Raises StatusError 400."""
    found, at, text = [], 0, text.strip()
    while at < len(text):
        match = REQUIREMENT.match(text, at)
        if match is None or not LABEL_NAME.fullmatch(match["key"].rpartition("/")[2]):
            raise _fault(text, at, "identifier")
        found.append(_requirement(match))
        at = match.end()
        if at < len(text) and text[at] != ",":
            raise _fault(text, at, _expected(match))
        at += 1
    return tuple(found)


def _requirement(match: re.Match[str]) -> Requirement:
    key, operator = match["key"], match["operator"] or match["set"]
    if match["absent"]:
        return Requirement(key, "DoesNotExist")
    if operator is None:
        return Requirement(key, "Exists")
    values = [each.strip() for each in match["values"].split(",")] if match["set"] else [match["value"] or ""]
    for index, value in enumerate(values):
        rule = "" if len(value) <= 63 and LABEL_VALUE.fullmatch(value) else VALUE_RULE
        if operator in ("<", ">") and not INTEGER.fullmatch(value):
            rule = "for 'Gt', 'Lt' operators, the value must be an integer"
        if rule:
            raise bad_request(f'{UNPARSED}values[{index}][{key}]: Invalid value: "{value}": {rule}')
    return Requirement(key, OPERATORS[operator], frozenset(values))


def _expected(match: re.Match[str]) -> str:
    if match["operator"] and not match["value"]:
        return "identifier"
    if match["operator"] or match["set"] or match["absent"]:
        return "',' or 'end of string'"
    return "in, notin, =, ==, !=, gt, lt"


def _fault(text: str, at: int, expected: str) -> Exception:
    token = TOKEN.match(text, at)
    return bad_request(f"{UNPARSED}found '{(token and token[1]) or ''}', expected: {expected}")


def matches_labels(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector object (matchLabels, matchExpressions) selects these labels."""
    wanted = selector.get("matchLabels") or {}
    terms = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        Requirement(term["key"], term["operator"], frozenset(term.get("values") or ())).holds(labels) for term in terms
    )


@dataclass(frozen=True)
class Selector:
    """What a list or watch asks for."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()
    """(name, wanted equal, value)"""

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    def matches(self, record: Record) -> bool:
        fits = all((_field(record, name) == wanted) == equal for name, equal, wanted in self.fields)
        return fits and all(term.holds(record.labels) for term in self.labels)


def _field(record: Record, name: str) -> str:
    """A field as text, empty when there is none. The store keeps those that selectors of the built-in kinds name."""
    own = {"metadata.namespace": record.key[0], "metadata.name": record.key[1]} | record.fields
    if name in own:
        return own[name]
    value: Any = record.load()
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def parse_fields(text: str, kind: Kind) -> tuple[tuple[str, bool, str], ...]:
    """Terms of a field selector. Raises StatusError 400 for a field the kind does not offer."""
    terms = []
    for term in filter(str.strip, re.split(r"(?<!\\),", text)):
        match = re.fullmatch(r"\s*([^=!]+?)\s*(!=|==|=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = match.groups()
        if name not in kind.field_names():
            raise bad_request(_unknown_field(name, kind))
        terms.append((name, operator != "!=", re.sub(r"\\(.)", r"\1", value)))
    return tuple(terms)


def _unknown_field(name: str, kind: Kind) -> str:
    if kind.group and not kind.custom and not kind.selectable:
        return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    return f"field label not supported: {name}"


def selector_of(query: dict[str, str], kind: Kind) -> Selector:
    """The selector of a list, watch or deletecollection. Raises StatusError 400."""
    labels = parse_labels(query.get("labelSelector", ""))
    return Selector(labels, parse_fields(query.get("fieldSelector", ""), kind))
