"""The filters of a search as trees of conditions by name: `tags`, `min_confidence` and the others."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.declared.filters import SearchFilters
from shoal.filters.fields import METADATA, Field
from shoal.filters.tree import Condition, Node, Op, Scalar, Some, joined
from shoal.models.search import TagsMatch

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
