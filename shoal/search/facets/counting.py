"""Facets counted over the places of an index: of the results of a search, or of a library.

The counts of a facet are of what meets all conditions but its own, so that they say what another value would
find.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.errors import FilterError
from shoal.filters.columns import Mask
from shoal.filters.condition_checks import Limits, condition
from shoal.filters.evaluation import FilterState
from shoal.filters.fields import Field, Kind
from shoal.filters.reasons import missing_key
from shoal.filters.reef_names import ReefNames
from shoal.filters.tree import Node, Op, Scalar, joined, text_of
from shoal.index.matching import Matches
from shoal.models.facets import Facet, FacetValue
from shoal.search.facets.intervals import Interval
from shoal.search.facets.own_conditions import is_selected, selected_values, without_own
from shoal.search.facets.requests import FacetRequest
from shoal.search.facets.value_rows import NULLS, Key, ValueRows, value_rows
from shoal.search.filters import CompiledFilters
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import Term
from shoal.storage.database import Snapshot

FILE_TYPE = Field("file_type")
SUFFIX = "."
"""What a suffix begins with, and no other type of file."""
MAX_SHOWN_CHARS = 1_000
"""Of a text in a response; a longer one is shortened, and no filter is given for it."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Counted:
    """What facets count. `places`: bool (n,), the live places of the index."""

    state: FilterState
    places: Mask

    @functools.cached_property
    def chunks_of(self) -> Ints:
        """The number of places of each document of the table."""
        counts = np.zeros(len(self.state.table), dtype=np.int64)
        for part, own in self.state.index.by_part(self.places):
            sums = np.concatenate([[0], np.cumsum(own)])
            of_part = np.diff(sums[part.segment.document_starts])
            rows = self.state.table.rows_of(part.segment)[of_part > 0]
            counts[rows] += of_part[of_part > 0]
        return counts

    @functools.cached_property
    def n_documents(self) -> int:
        return int(np.count_nonzero(self.chunks_of))

    @functools.cached_property
    def n_chunks(self) -> int:
        return int(np.count_nonzero(self.places))


@dataclass(frozen=True)
class Counts:
    """Documents and places by key, and how many documents have none."""

    keys: Sequence[Key]
    documents: Ints
    chunks: Ints
    n_missing: int


class FacetCounter:
    """Counts facets of one snapshot.

    is_found   bool (n,): what there is without filters
    is_result  bool (n,): what meets the filters
    matches    of terms of the query that were looked up already
    """

    def __init__(
        self,
        snapshot: Snapshot,
        library: LibraryIndex,
        filters: CompiledFilters,
        names: ReefNames,
        is_found: Mask,
        is_result: Mask,
        matches: Mapping[Term, Matches] | None = None,
    ) -> None:
        self._snapshot, self._library, self._filters = snapshot, library, filters
        self._matches = matches
        self._state = FilterState(snapshot, library.index, library.fields, names)
        self._is_found = is_found
        self.all = Counted(self._state, is_result & library.index.live())

    def facet(self, request: FacetRequest) -> Facet:
        """Return a facet."""
        counted = self._counted_for(request.field)
        counts = self._chunk_counts(request, counted) if request.field.of_chunk else None
        if counts is None:
            counts = self._document_counts(request, counted)
        if request.field == FILE_TYPE:
            counts = self._without_suffixes(counts)
        listed = _most_frequent(counts.documents, request.limit)
        if request.interval is not None:
            listed = np.sort(listed)
        values = tuple(self._value(request, counts, place) for place in listed.tolist())
        return Facet(
            field=request.field.text,
            interval=None if request.interval is None else request.interval.shown,
            values=values,
            n_values=int(np.count_nonzero(counts.documents)),
            n_other=int(counts.documents.sum()) - sum(value.count for value in values),
            n_missing=counts.n_missing,
            n_documents=counted.n_documents,
            n_chunks=counted.n_chunks,
        )

    def warning(self, request: FacetRequest) -> str | None:
        """Return a warning if no document has the key of the metadata that a facet names."""
        return missing_key(self._state, request.field)

    def _counted_for(self, field: Field) -> Counted:
        others = without_own(self._filters, field)
        if others is None:
            return self.all
        met = others.met_by(self._snapshot, self._library, self._matches)
        return Counted(self._state, self._is_found & met & self._library.index.live())

    def _document_counts(self, request: FacetRequest, counted: Counted) -> Counts:
        column = self._state.table.column(self._snapshot, request.field)
        values = value_rows(column, request.field.kind, request.interval)
        documents, chunks, with_value = values.count(counted.chunks_of)
        n_with_value = _n_different(with_value, len(self._state.table))
        return Counts(values.keys, documents, chunks, counted.n_documents - n_with_value)

    def _without_suffixes(self, counts: Counts) -> Counts:
        """A suffix says again what the type of the file says. One that the filter names is counted."""
        selected = selected_values(self._filters.tree, FILE_TYPE)
        is_counted = [not key[1].startswith(SUFFIX) or key[1] in selected for key in counts.keys]
        documents = np.where(np.array(is_counted, dtype=np.bool_), counts.documents, 0)
        return dataclasses.replace(counts, documents=documents)

    def _chunk_counts(self, request: FacetRequest, counted: Counted) -> Counts:
        keys, of_parts = self._columns_of_chunks(request.field, request.interval)
        documents, chunks = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
        n_missing = counted.n_documents
        for (part, own), (values, places) in zip(
            self._state.index.by_part(counted.places), of_parts, strict=True
        ):
            of_part, chunks_of_part, with_value = values.count(own)
            documents[places] += of_part
            chunks[places] += chunks_of_part
            n_missing -= _n_different(with_value, part.segment.n_documents)
        return Counts(keys, documents, chunks, n_missing)

    def _columns_of_chunks(
        self, field: Field, interval: Interval | None
    ) -> tuple[list[Key], list[tuple[ValueRows, Ints]]]:
        """(all keys of the index, for each part its values and where its keys are among all)."""
        index, names = self._state.index, self._state.names
        asked = ("facet", field, interval, names.label_threshold)
        held: tuple[list[Key], list[tuple[ValueRows, Ints]]] | None = index.cached.get(asked)
        if held is None:
            parts = [
                value_rows(column, field.kind, interval, part.segment.document_of)
                for part, column in zip(index.parts, self._state.chunk_columns(field), strict=True)
            ]
            keys = sorted(set().union(*(part.keys for part in parts)))
            place_of = {key: place for place, key in enumerate(keys)}
            held = (
                keys,
                [(part, np.array([place_of[key] for key in part.keys], dtype=np.int64)) for part in parts],
            )
            index.cached[asked] = held
        return held

    def _value(self, request: FacetRequest, counts: Counts, place: int) -> FacetValue:
        field, stored = request.field, _scalar(counts.keys[place])
        name = self._state.names.names.get(field.name, {}).get(stored) if field.kind is Kind.named else None  # type: ignore[arg-type]
        value: Scalar = stored
        if request.interval is not None:
            value = request.interval.begin(int(stored or 0))
        elif isinstance(stored, str) and len(stored) > MAX_SHOWN_CHARS:
            value = f"{stored[:MAX_SHOWN_CHARS]}…"
        chosen = condition_of(field, stored, request.interval, self._state.names)
        return FacetValue(
            value=value,
            name=name,
            count=int(counts.documents[place]),
            n_chunks=int(counts.chunks[place]),
            filter=None if chosen is None else text_of(chosen),
            is_selected=chosen is not None and is_selected(self._filters.tree, chosen, (stored,)),
        )


def condition_of(field: Field, stored: Scalar, interval: Interval | None, names: ReefNames) -> Node | None:
    """Return the condition that is met by what has a value, or by what is in a bucket; None if no filter can
    have it."""
    if isinstance(stored, str) and len(stored) > MAX_SHOWN_CHARS:
        return None
    try:
        if interval is None:
            by_value = condition(field, Op.eq, (stored,), Limits())
            name = names.names.get(field.name, {}).get(stored) if field.kind is Kind.named else None  # type: ignore[arg-type]
            by_name = dataclasses.replace(by_value, values=(name,))
            # A name is for people, but another reef may have it, too.
            return by_name if name and names.with_ids(by_name) == by_value else by_value
        first, end = interval.bounds(int(stored or 0))
        bounds: list[Node] = [condition(field, Op.ge, (first,), Limits())]
        if end is not None:
            bounds.append(condition(field, Op.lt, (end,), Limits()))
        return joined(tuple(bounds))
    except FilterError:
        return None


def _scalar(key: Key) -> Scalar:
    scalar: Scalar = None if key[0] == NULLS else key[1]
    return scalar


def _n_different(numbers: NDArray[np.int32], n: int) -> int:
    """Count the different numbers, each below `n`."""
    is_present = np.zeros(n, dtype=np.bool_)
    is_present[numbers] = True
    return int(np.count_nonzero(is_present))


def _most_frequent(counts: Ints, limit: int) -> Ints:
    """Return the places of the greatest counts above 0, greatest first, equal ones ascending."""
    n = len(counts)
    # One number for count and place, so that none are equal; counts are less than 2^31, and places too.
    order = counts * n + (n - 1 - np.arange(n))
    chosen = np.argpartition(order, n - limit)[n - limit :] if limit < n else np.arange(n)
    chosen = chosen[np.argsort(-order[chosen])]
    return np.asarray(chosen[counts[chosen] > 0])


def find_facets(
    counter: FacetCounter, requests: Sequence[FacetRequest]
) -> tuple[tuple[Facet, ...], list[str]]:
    """Return (facets, warnings), in the order of the requests."""
    warnings = [warning for request in requests if (warning := counter.warning(request))]
    return tuple(map(counter.facet, requests)), list(dict.fromkeys(warnings))
