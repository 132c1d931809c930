"""Label and field selectors: parsing, and whether a record fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver.errors import bad_request
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.store import Record

Object = dict[str, Any]
Test = Callable[[dict[str, str]], bool]

TOKEN = re.compile(r"\s*(==|!=|=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SYMBOLS = {"==", "!=", "=", "!", "(", ")", ",", "<", ">"}


def _fault(found: str, expected: str) -> Exception:
    return bad_request(f"unable to parse requirement: found '{found}', expected: {expected}")


def _value(key: str, value: str, index: int = 0) -> str:
    if len(value) > 63 or not LABEL_VALUE.fullmatch(value):
        raise bad_request(
            f'unable to parse requirement: values[{index}][{key}]: Invalid value: "{value}": {VALUE_RULE}'
        )
    return value


class _Labels:
    """A recursive-descent parser of the label selector grammar."""

    def __init__(self, text: str) -> None:
        self.tokens = [match[1] for match in TOKEN.finditer(text)]

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def next(self) -> str:
        return self.tokens.pop(0) if self.tokens else ""

    def parse(self) -> list[Test]:
        tests = []
        while self.tokens:
            tests.append(self.requirement())
            if self.tokens and self.next() != ",":
                raise _fault(self.peek(), "',' or 'end of string'")
        return tests

    def requirement(self) -> Test:
        negated = self.peek() == "!"
        if negated:
            self.next()
        key = self.next()
        if key in SYMBOLS or not LABEL_NAME.fullmatch(key.rpartition("/")[2]):
            raise _fault(key, "identifier")
        if negated:
            return lambda labels: key not in labels
        operator = self.peek()
        if operator in ("", ","):
            return lambda labels: key in labels
        self.next()
        if operator in ("in", "notin"):
            values = self.values(key)
            if operator == "in":
                return lambda labels: labels.get(key) in values
            return lambda labels: labels.get(key) not in values
        return self.comparison(key, operator)

    def comparison(self, key: str, operator: str) -> Test:
        if operator not in ("=", "==", "!=", ">", "<"):
            raise _fault(operator, "in, notin, =, ==, !=, gt, lt")
        value = self.peek()
        if value in SYMBOLS - {","}:
            raise _fault(value, "identifier")
        value = "" if value in ("", ",") else self.next()
        value = _value(key, value)
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        if operator in ("=", "=="):
            return lambda labels: labels.get(key) == value
        return _ordered(key, value, larger=operator == ">")

    def values(self, key: str) -> set[str]:
        if self.next() != "(":
            raise _fault(self.peek(), "'('")
        values: list[str] = []
        expect_value = True
        while True:
            word = self.next()
            if word == ")" or not word:
                if expect_value:
                    values.append("")
                return {_value(key, value, index) for index, value in enumerate(values)}
            if word == ",":
                if expect_value:
                    values.append("")
                expect_value = True
            else:
                values.append(word)
                expect_value = False


def _ordered(key: str, value: str, *, larger: bool) -> Test:
    if not re.fullmatch(r"-?\d+", value):
        raise bad_request(
            f"unable to parse requirement: values[0][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, "
            "the value must be an integer"
        )
    bound = int(value)

    def test(labels: dict[str, str]) -> bool:
        text = labels.get(key, "")
        if not re.fullmatch(r"-?\d+", text):
            return False
        return int(text) > bound if larger else int(text) < bound

    return test


def parse_labels(text: str) -> list[Test]:
    """Tests of a label selector, all of which must hold. Raises StatusError 400."""
    return _Labels(text).parse() if text.strip() else []


def matches_labels(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a LabelSelector object (matchLabels, matchExpressions) selects these labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for each in selector.get("matchExpressions") or ():
        present, value = each["key"] in labels, labels.get(each["key"])
        values = each.get("values") or ()
        fits = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": present,
            "DoesNotExist": not present,
        }.get(each["operator"], False)
        if not fits:
            return False
    return True


@dataclass(frozen=True)
class Selector:
    """What a list or watch asks for."""

    labels: tuple[Test, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()
    """(name, wanted equal, value)"""

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    @property
    def single_name(self) -> str:
        return next((value for name, equal, value in self.fields if name == "metadata.name" and equal), "")

    def matches(self, record: Record) -> bool:
        for name, equal, wanted in self.fields:
            if (_field(record, name) == wanted) != equal:
                return False
        return all(test(record.labels) for test in self.labels)


def _field(record: Record, name: str) -> str:
    if name == "metadata.name":
        return record.key[1]
    if name == "metadata.namespace":
        return record.key[0]
    if name in record.fields:
        return record.fields[name]
    return value_at(record.load(), name)


def value_at(item: Object, dotted: str) -> str:
    """A scalar at a dotted path as text, empty when there is none."""
    value: Any = item
    for part in dotted.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def parse_fields(text: str, kind: Kind) -> tuple[tuple[str, bool, str], ...]:
    """Terms of a field selector. Raises StatusError 400 for a field the kind does not offer."""
    terms = []
    for term in re.split(r"(?<!\\),", text):
        if not term.strip():
            continue
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
    return Selector(tuple(labels), parse_fields(query.get("fieldSelector", ""), kind))
