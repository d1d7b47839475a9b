"""Names of reefs, islands and archipelagos in filters."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.errors import FilterError
from shoal.filters.fields import Kind
from shoal.filters.tree import Condition, Node, Op, conditions_of
from shoal.scorer import Scorer

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
