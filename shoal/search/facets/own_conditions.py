"""Which conditions of a filter belong to a facet, and the filter after a value of it is chosen.

A condition belongs to a facet if it is one of those joined by AND at the top of the filter, and compares with
the field of the facet alone. `tags = "sea" AND (tags = "wind" OR year > 2000)` has one of the facet `tags`.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from shoal.filters.fields import Field
from shoal.filters.tree import RANGES, All, Condition, Node, Op, Scalar, conditions_of, joined
from shoal.search.filters import CompiledFilters

_EQUALITIES = (Op.eq, Op.any_of)


def parts_of(tree: Node | None) -> tuple[Node, ...]:
    """Return what is joined by AND at the top of a tree."""
    if isinstance(tree, All):
        return tuple(part for each in tree.parts for part in parts_of(each))
    return () if tree is None else (tree,)


def is_own(part: Node, field: Field) -> bool:
    """Whether a part of the top of a tree belongs to the facet of a field."""
    return all(condition.field == field for condition in conditions_of(part))


def without_own(filters: CompiledFilters, field: Field) -> CompiledFilters | None:
    """Return filters without the conditions that belong to a facet; None if there are none."""
    by_filter = {name: part for name, part in filters.by_filter.items() if not is_own(part, field)}
    parts = parts_of(filters.tree)
    others = tuple(part for part in parts if not is_own(part, field))
    if len(by_filter) == len(filters.by_filter) and len(others) == len(parts):
        return None
    return dataclasses.replace(filters, by_filter=by_filter, tree=joined(others))


def selected_values(tree: Node | None, field: Field) -> tuple[Scalar, ...]:
    """Return the values of a field that a condition at the top of a tree accepts."""
    asking = (part for part in parts_of(tree) if _asks_for_values(part, field))
    return tuple(value for part in asking for value in part.values)


def _asks_for_values(part: Node, field: Field) -> TypeGuard[Condition]:
    return isinstance(part, Condition) and part.field == field and part.op in _EQUALITIES


def is_selected(tree: Node | None, chosen: Node, also: tuple[Scalar, ...] = ()) -> bool:
    """Whether the top of a tree has the condition of a facet's value or interval. `also`: other ways to write
    the value, such as the number of a reef."""
    if isinstance(chosen, Condition) and chosen.op is Op.eq:
        wanted = (*chosen.values, *also)
        return any(_is_among(each, wanted) for each in selected_values(tree, chosen.field))
    parts = parts_of(tree)
    return all(part in parts for part in parts_of(chosen))


def toggled(tree: Node | None, chosen: Node, also: tuple[Scalar, ...] = ()) -> Node | None:
    """Return the tree after a value or interval of a facet is chosen, or no longer chosen; `also` as above.

    Values of a field are alternatives: `tags = "sea"` becomes `tags IN ["sea", "wind"]`. An interval replaces
    the ranges of the field.
    """
    parts = parts_of(tree)
    if not (isinstance(chosen, Condition) and chosen.op is Op.eq):
        return _with_interval(parts, chosen)
    before = selected_values(tree, chosen.field)
    values = tuple(each for each in before if not _is_among(each, (*chosen.values, *also)))
    if len(values) == len(before):
        values = (*before, *chosen.values)
    others = tuple(part for part in parts if not _asks_for_values(part, chosen.field))
    if not values:
        return joined(others)
    op = Op.eq if len(values) == 1 else Op.any_of
    return joined((*others, Condition(chosen.field, op, values)))


def _with_interval(parts: tuple[Node, ...], chosen: Node) -> Node | None:
    bounds = parts_of(chosen)
    (field,) = {condition.field for condition in conditions_of(chosen)}
    others = tuple(
        part
        for part in parts
        if not (isinstance(part, Condition) and part.field == field and part.op in RANGES)
    )
    return joined(others if all(bound in parts for bound in bounds) else (*others, *bounds))


def _is_among(value: Scalar, others: tuple[Scalar, ...]) -> bool:
    """Whether a filter takes a value for one of others: 1 is 1.0, but not true."""
    return any(isinstance(value, bool) is isinstance(each, bool) and value == each for each in others)
