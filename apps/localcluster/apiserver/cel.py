"""Rules in CEL (`x-kubernetes-validations`), so far as they compare fields and join that with `&&`, `||` and `!`.

A definition with a rule that says more is refused: better no definition than a rule that nobody holds.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

Object = dict[str, Any]

WORDS = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(&&|\|\||!(?!=)|\btrue\b|\bfalse\b|\bnull\b)""")
# Python's `~` binds as CEL's `!` does; its `not` does not.
PYTHON = {"&&": " and ", "||": " or ", "!": "~", "true": "True", "false": "False", "null": "None"}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, values: bool(value in values),
}


class NotUnderstood(ValueError):
    """A rule that says more than is understood here."""


@cache
def parse(rule: str) -> ast.expr:
    """Raises NotUnderstood."""
    try:
        tree = ast.parse(WORDS.sub(lambda found: found[1] or PYTHON[found[2]], rule).strip(), mode="eval").body
    except SyntaxError as error:
        raise NotUnderstood(rule) from error
    if not _understood(tree):
        raise NotUnderstood(rule)
    return tree


def _understood(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.Name(id="self" | "oldSelf"):
            return True
        case ast.Attribute(value=inner) | ast.UnaryOp(op=ast.Invert(), operand=inner):
            return _understood(inner)
        case ast.Call(func=ast.Name(id="has"), args=[ast.Attribute(value=inner)], keywords=[]):
            return _understood(inner)
        case ast.Call(func=ast.Name(id="size"), args=[inner], keywords=[]):
            return _understood(inner)
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            return type(comparison) in COMPARISONS and _understood(left) and _understood(right)
        case ast.BoolOp(values=parts) | ast.List(elts=parts):
            return all(map(_understood, parts))
    return False


def concerns_old(rule: str) -> bool:
    """Whether it compares with what was before; such a rule says nothing about a new value."""
    return any(isinstance(node, ast.Name) and node.id == "oldSelf" for node in ast.walk(parse(rule)))


def holds(rule: str, value: Any, old: Any) -> bool:
    """Raises KeyError where the rule reads a field that is not there."""
    return bool(_value(parse(rule), {"self": value, "oldSelf": old}))


def _value(node: ast.expr, names: Object) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.List(elts=parts):
            return [_value(part, names) for part in parts]
        case ast.Attribute(value=inner, attr=field):
            return _value(inner, names)[field]
        case ast.UnaryOp(operand=inner):
            return not _value(inner, names)
        case ast.Call(func=ast.Name(id="has"), args=[ast.Attribute(value=inner, attr=field)]):
            return field in _value(inner, names)
        case ast.Call(args=[inner]):
            return len(_value(inner, names))
        case ast.Compare(left=left, ops=[comparison], comparators=[right]):
            return COMPARISONS[type(comparison)](_value(left, names), _value(right, names))
        case ast.BoolOp(op=op, values=parts):
            return _joined(parts, names, decisive=isinstance(op, ast.Or))
    raise NotUnderstood(ast.dump(node))


def _joined(parts: Iterable[ast.expr], names: Object, *, decisive: bool) -> bool:
    """One part with the decisive value decides, whatever the others are, be they errors."""
    failed: KeyError | None = None
    for part in parts:
        try:
            if _value(part, names) == decisive:
                return decisive
        except KeyError as error:
            failed = error
    if failed:
        raise failed
    return not decisive
