"""Rules in CEL (`x-kubernetes-validations`), so far as they compare fields and join that with `&&`, `||` and `!`.

A definition with a rule that says more is refused: better no definition than a rule that nobody holds.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
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


Value = Callable[[Object], Any]


class NotUnderstood(ValueError):
    """A rule that says more than is understood here."""


@dataclass(frozen=True)
class Rule:
    """One rule. Such as are about what was before say nothing about a new value."""

    value: Value
    about_old: bool

    def holds(self, new: Any, old: Any) -> bool:
        """Raises KeyError where the rule reads a field that is not there."""
        return bool(self.value({"self": new, "oldSelf": old}))


@cache
def parse(rule: str) -> Rule:
    """Raises NotUnderstood."""
    try:
        tree = ast.parse(WORDS.sub(lambda found: found[1] or PYTHON[found[2]], rule).strip(), mode="eval")
    except SyntaxError as error:
        raise NotUnderstood(rule) from error
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return Rule(_compiled(tree.body), "oldSelf" in names)


def _compiled(node: ast.expr) -> Value:
    match node:
        case ast.Constant(value=value):
            return lambda names: value
        case ast.Name(id="self" | "oldSelf" as name):
            return lambda names: names[name]
        case ast.List(elts=parts):
            items = [_compiled(part) for part in parts]
            return lambda names: [item(names) for item in items]
        case ast.Attribute(value=inner, attr=field):
            owner = _compiled(inner)
            return lambda names: owner(names)[field]
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            denied = _compiled(inner)
            return lambda names: not denied(names)
        case ast.Call(func=ast.Name(id="has"), args=[ast.Attribute(value=inner, attr=field)], keywords=[]):
            holder = _compiled(inner)
            return lambda names: field in holder(names)
        case ast.Call(func=ast.Name(id="size"), args=[inner], keywords=[]):
            sized = _compiled(inner)
            return lambda names: len(sized(names))
        case ast.Compare(left=left, ops=[comparison], comparators=[right]) if type(comparison) in COMPARISONS:
            compare, first, second = COMPARISONS[type(comparison)], _compiled(left), _compiled(right)
            return lambda names: compare(first(names), second(names))
        case ast.BoolOp(op=op, values=parts):
            return partial(_joined, [_compiled(part) for part in parts], isinstance(op, ast.Or))
    raise NotUnderstood(ast.unparse(node))


def _joined(parts: list[Value], decisive: bool, names: Object) -> bool:
    """One part with the decisive value decides, whatever the others are, be they errors."""
    failed: KeyError | None = None
    for part in parts:
        try:
            if part(names) == decisive:
                return decisive
        except KeyError as error:
            failed = error
    if failed:
        raise failed
    return not decisive
