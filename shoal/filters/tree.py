"""The syntax tree of a filter, and its text.

A condition compares the values of one field. It is met or not, never unknown: a document without the field
does not meet it, so it meets its negation.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.errors import FilterError
from shoal.filters.fields import Field

Scalar = str | int | float | bool | None


class Op(enum.StrEnum):
    """How a condition compares."""

    eq = "="
    lt = "<"
    le = "<="
    gt = ">"
    ge = ">="
    any_of = "IN"
    exists = "EXISTS"
    prefix = "STARTS WITH"
    contains = "CONTAINS"


RANGES = frozenset({Op.lt, Op.le, Op.gt, Op.ge})
TEXT_SEARCHES = frozenset({Op.prefix, Op.contains})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a condition stands in what was given: a part of an expression, or a path in an object.

    `values`: the parts of its values in the expression, [start, end) in code points.
    """

    expression: str = ""
    start: int = 0
    end: int = 0
    values: tuple[tuple[int, int], ...] = ()
    path: str = ""

    def error(self, message: str, blamed: int | None = None) -> FilterError:
        """Return an error that points at the condition, or at one of its values."""
        if not self.expression:
            return FilterError(f"{self.path}: {message}" if self.path else message)
        start, end = self.start, self.end
        if blamed is not None and blamed < len(self.values):
            start, end = self.values[blamed]
        error = FilterError(message, start, end)
        error.expression = self.expression
        return error


@dataclass(frozen=True, slots=True)
class Condition:
    """A field compared with values: several for `IN`, none for `EXISTS`, else one. `origin`: where it was
    given; no part of what it means."""

    field: Field
    op: Op
    values: tuple[Scalar, ...] = ()
    origin: Origin = dataclasses.field(default=Origin(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class All:
    """Met if all parts are; at least two."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """Met if at least one part is; at least two."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Met if its part is not."""

    part: Node


Node = Condition | All | Some | Not


def text_of(node: Node) -> str:
    """Return the expression that is parsed to this tree."""
    match node:
        case All(parts):
            return " AND ".join(_inside(part, All | Some) for part in parts)
        case Some(parts):
            return " OR ".join(_inside(part, Some) for part in parts)
        case Not(part):
            return f"NOT {_inside(part, All | Some)}"
        case Condition(field, Op.exists):
            return f"{field.text} EXISTS"
        case Condition(field, Op.any_of, values):
            return f"{field.text} IN [{', '.join(map(literal, values))}]"
        case Condition(field, op, (value,)):
            return f"{field.text} {op} {literal(value)}"
    raise AssertionError(f"a condition without values: {node}")


def _inside(node: Node, enclosed: type[Node] | object) -> str:
    text = text_of(node)
    return f"({text})" if isinstance(node, enclosed) else text  # type: ignore[arg-type]


def literal(value: Scalar) -> str:
    """Return a value as an expression has it; texts in quotation marks."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return json.dumps(value)


def conditions_of(node: Node) -> Iterator[Condition]:
    """Yield the conditions of a tree, from left to right."""
    match node:
        case Condition():
            yield node
        case Not(part):
            yield from conditions_of(part)
        case All(parts) | Some(parts):
            for part in parts:
                yield from conditions_of(part)


def joined(parts: Sequence[Node]) -> Node | None:
    """Return the tree that is met where all parts are; None for no parts."""
    return All(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def both(left: Node | None, right: Node | None) -> Node | None:
    """Return the tree that is met where both are; None is no condition."""
    if left is None or right is None:
        return right if left is None else left
    return All((left, right))
