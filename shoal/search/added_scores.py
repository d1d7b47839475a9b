"""The named parts that a request adds to the score of a hybrid search: a decay by date, and boosts by filter.

    final = blend + weight * 0.5 ** (age / half life) + the weight of each boost that the passage meets

Both are added to matches alone: neither makes a result. The age is that of the newest date of the field; a
date after `now` has the age 0, and a document without a date gets nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.index.index import Index
from shoal.models.scores import BoostPart
from shoal.search.filtering.columns import NO_DATE, Column
from shoal.search.filtering.evaluation import Fields, FilterState
from shoal.search.filtering.fields import Kind
from shoal.search.filtering.reasons import shown
from shoal.search.filtering.reef_names import ReefNames
from shoal.search.order_arguments import Boost, Decay
from shoal.storage.database import Snapshot

Doubles = NDArray[np.float64]
MICROSECONDS_PER_DAY = 86_400_000_000.0


@dataclass(frozen=True)
class AddedScores:
    """What is added to the score of each chunk, by place in an index.

    decay     f64 (n,); None without a decay
    boosts    those of the request
    is_met    bool (n,) for each boost: whether the chunk meets its filter
    warnings  of what has no effect
    """

    decay: Doubles | None
    boosts: tuple[Boost, ...]
    is_met: tuple[NDArray[np.bool_], ...]
    warnings: tuple[str, ...] = ()

    def add_to(self, keys: Doubles, is_found: NDArray[np.bool_]) -> None:
        """Add all parts to the scores of the matches, one after the other."""
        if self.decay is not None:
            np.add(keys, self.decay, out=keys, where=is_found)
        for boost, is_met in zip(self.boosts, self.is_met, strict=True):
            np.add(keys, boost.weight, out=keys, where=is_found & is_met)

    def decay_of(self, place: int) -> float | None:
        """Return what the decay adds to a match; None without a decay."""
        return None if self.decay is None else float(self.decay[place])

    def boosts_of(self, place: int) -> tuple[BoostPart, ...]:
        """Return what each boost adds to a match."""
        return tuple(
            BoostPart(boost.name, boost.weight, boost.weight if is_met[place] else 0.0)
            for boost, is_met in zip(self.boosts, self.is_met, strict=True)
        )


def find_added_scores(
    snapshot: Snapshot,
    index: Index,
    fields: Fields,
    names: ReefNames | None,
    decay: Decay | None,
    boosts: tuple[Boost, ...],
) -> AddedScores | None:
    """Return what a decay and boosts add, or None without them. `names` are needed for boosts."""
    if decay is None and not boosts:
        return None
    warnings = []
    decayed: Doubles | None = None
    if decay is not None:
        table = fields.documents.of(snapshot)
        by_document = decayed_parts(table.column(snapshot, decay.field), decay)
        decayed = table.placed(index, by_document)
        if not by_document.any():
            warnings.append(f"the decay adds nothing: no document has a date in {decay.field.text[:60]}")
    is_met = []
    if boosts:
        assert names is not None, "filters were compiled with the boosts"
        state, live = FilterState(snapshot, index, fields, names), index.live()
        is_met = [state.met(boost.filter) for boost in boosts]
        warnings += [
            f"boosts[{number}] adds nothing: no passage meets {shown(boost.filter)}"
            for number, (boost, mask) in enumerate(zip(boosts, is_met, strict=True))
            if not np.any(mask & live)
        ]
    return AddedScores(decayed, boosts, tuple(is_met), tuple(warnings))


def decayed_parts(column: Column, decay: Decay) -> Doubles:
    """Return what a decay adds to the score of the passages of each document, f64 (n_documents,)."""
    newest = np.full(column.n, -np.inf)
    if decay.field.kind is Kind.date:
        has_date = ~np.isnan(column.numbers)
        moments = column.numbers
    else:
        dates = column.texts.dates()
        begins = np.append(dates, NO_DATE)[np.where(column.codes >= 0, column.codes, len(dates))]
        has_date, moments = begins != NO_DATE, begins.astype(np.float64)
    np.maximum.at(newest, column.rows[has_date], moments[has_date])
    ages = np.maximum(decay.now - newest, 0.0) / MICROSECONDS_PER_DAY
    return np.asarray(decay.weight * np.exp2(-ages / decay.half_life_days))
