"""Filters by name (`tags`, `min_confidence` and others) as trees of conditions, and the names of reefs."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.declared.filters import SearchFilters
from shoal.errors import FilterError
from shoal.filters.fields import METADATA, Field, Kind
from shoal.filters.tree import Condition, Node, Op, Scalar, Some, conditions_of, joined
from shoal.models.search import TagsMatch
from shoal.scorer import Scorer

_COMPARISONS = (
    ("min_confidence", "confidence", Op.ge),
    ("min_coverage", "coverage", Op.ge),
    ("reef_ids", "reef", Op.any_of),
    ("island_ids", "island", Op.any_of),
    ("archipelago", "archipelago", Op.eq),
    ("document_ids", "id", Op.any_of),
    ("format", "format", Op.eq),
    ("created_after", "created", Op.ge),
    ("created_before", "created", Op.lt),
    ("source_path", "source_path", Op.any_of),
    ("file_type", "file_type", Op.eq),
)
"""Filters that compare one field: the name of the filter, the field, and how they compare."""


def conditions_by_filter(filters: SearchFilters) -> Iterator[tuple[str, Node]]:
    """Yield (name, condition) of each filter; each key of the metadata has its own, `metadata.KEY`."""
    if filters.tags_match is TagsMatch.any and filters.tags:
        yield "tags", _compared("tags", Op.any_of, *filters.tags)
    elif has_all := joined([_compared("tags", Op.eq, tag) for tag in filters.tags]):
        yield "tags", has_all
    for name, field_name, op in _COMPARISONS:
        value = getattr(filters, name)
        if value is not None:
            yield name, _compared(field_name, op, *(value if op is Op.any_of else (value,)))
    if filters.name_contains is not None:
        fields = "title", "source_path"
        yield (
            "name_contains",
            Some(tuple(_compared(each, Op.contains, filters.name_contains) for each in fields)),
        )
    for key, value in (filters.metadata or {}).items():
        yield f"{METADATA}.{key}", Condition(Field(METADATA, (key,)), Op.eq, (value,))


def _compared(name: str, op: Op, *values: Scalar) -> Condition:
    return Condition(Field(name), op, values)


SHOWN_CHARS = 60


@dataclass(frozen=True)
class ReefNames:
    """What filters need to know of the scorer.

    names            by field: the name of each id
    island_of        the island of each reef
    label_threshold  lowest probability of a reef that is a label
    """

    names: Mapping[str, Mapping[int, str]]
    island_of: Mapping[int, int]
    label_threshold: float

    @classmethod
    def of(cls, scorer: Scorer, label_threshold: float) -> ReefNames:
        named = {
            "reef": scorer.reefs,
            "island": scorer.islands,
            "archipelago": getattr(scorer, "archipelagos", ()),
        }
        names = {
            field: {each.id: getattr(each, "name", "") for each in some} for field, some in named.items()
        }
        return cls(names, {reef.id: reef.island_id for reef in scorer.reefs}, label_threshold)

    def check(self, tree: Node) -> None:
        """Raise FilterError if a condition names a reef, island or archipelago that does not exist."""
        for condition in conditions_of(tree):
            self.with_ids(condition)

    def with_ids(self, condition: Condition) -> Condition:
        """Return a condition with ids in place of names. Raises FilterError."""
        if condition.field.kind is not Kind.named or condition.op is Op.exists:
            return condition
        ids = []
        for number, value in enumerate(condition.values):
            try:
                ids.append(self._id(condition.field.name, value))
            except FilterError as error:
                raise condition.origin.error(str(error), number) from None
        return dataclasses.replace(condition, values=tuple(ids))

    def _id(self, field: str, value: Any) -> int:
        names = self.names[field]
        if isinstance(value, int):
            if value not in names:
                raise FilterError(f"there is no {field} {str(value)[:SHOWN_CHARS]}")
            return value
        wanted = value.casefold()
        for each, name in names.items():
            if name.casefold() == wanted:
                return each
        close = difflib.get_close_matches(value[:SHOWN_CHARS], names.values(), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise FilterError(f"there is no {field} {value[:SHOWN_CHARS]!r}{hint}")
