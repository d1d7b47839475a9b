"""Facets: the values of fields, counted over the places of an index that a search or a library has.

The counts of a facet are of what meets all conditions but its own, so that they say what another value would
find. A condition belongs to a facet if it is one of those joined by AND at the top of the filter, and
compares with the field of the facet alone. `tags = "sea" AND (tags = "wind" OR year > 2000)` has one of the
facet `tags`. A person who chooses a value gets a filter with another condition of the facet.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from shoal.errors import FilterError, blaming
from shoal.facets.requests import NO_BUCKET, FacetRequest, Interval
from shoal.filters.columns import EXACT, FALSE, NO_DATE, NULL, NUMBER, TRUE, Column, Mask
from shoal.filters.evaluation import FilterState
from shoal.filters.parsing import ReefNames
from shoal.filters.tree import (
    RANGES,
    All,
    Condition,
    Field,
    Kind,
    Limits,
    Node,
    Op,
    Scalar,
    condition,
    conditions_of,
    joined,
    text_of,
)
from shoal.filters.warnings import missing_key
from shoal.models.search import Facet, FacetValue

Ints = NDArray[np.int64]
Key = tuple[int, Any]
"""A value, or the number of a bucket, after the rank of its type. Keys sort as values do in a response: truth
values, numbers, texts, null."""
TRUTHS, NUMBERS, TEXTS, NULLS = range(4)
_HELD: weakref.WeakKeyDictionary[Column, dict[Hashable, ValueRows]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()
FILE_TYPE = Field("file_type")
SUFFIX = "."
"""What a suffix begins with, and no other type of file."""
MAX_SHOWN_CHARS = 1_000
"""Of a text in a response; a longer one is shortened, and no filter is given for it."""
_EQUALITIES = (Op.eq, Op.any_of)


@dataclass(frozen=True, eq=False)
class ValueRows:
    """The rows of each value; a row is at most once with a value. A group is the rows of one key and one
    document.

    keys          ascending
    rows          i32 (m,), ordered by key, then row
    group_starts  i32 (g + 1,): the first row of each group, and m
    key_groups    i32 (k + 1,): the first group of each key, and g
    documents     i32 (g,): the document of each group; without documents, the row
    """

    keys: list[Key]
    rows: NDArray[np.int32]
    group_starts: NDArray[np.int32]
    key_groups: NDArray[np.int32]
    documents: NDArray[np.int32]

    def count(self, weights: NDArray[Any]) -> tuple[Ints, Ints, NDArray[np.int32]]:
        """Return (documents of each key, sum of weights of each key, the documents with any key), given the
        weight of each row, whole numbers (n,). A row of weight 0 does not count."""
        sums = _sums(weights[self.rows])[self.group_starts]
        is_hit = sums[1:] > sums[:-1]
        n_documents, n_chunks = (np.diff(each[self.key_groups]) for each in (_sums(is_hit), sums))
        return n_documents, n_chunks, self.documents[is_hit]


def _sums(numbers: NDArray[Any]) -> Ints:
    """Return the sums of the first 0, 1, ... numbers: one pass in order, which `bincount` is not."""
    sums = np.zeros(len(numbers) + 1, dtype=np.int64)
    np.cumsum(numbers, out=sums[1:])
    return sums


def value_rows(column: Column, kind: Kind, interval: Interval | None, document_of: Any = None) -> ValueRows:
    """Return the rows of each value, or of each bucket. `document_of`: (n,), ascending, the document of each
    row."""
    asked = (kind, interval)
    with _LOCK:
        held = _HELD.get(column, {}).get(asked)
    if held is None:
        keys, codes, places = _values(column) if interval is None else _buckets(column, kind, interval)
        held = _grouped(keys, codes, column.rows[places], column.n, document_of)
        with _LOCK:
            _HELD.setdefault(column, {})[asked] = held
    return held


def _values(column: Column) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int64]]:
    """(keys, the key of each value, its place in the column). Objects and empty lists are no values."""
    code_of: dict[Key, int] = {}

    def code(key: Key) -> int:
        return code_of.setdefault(key, len(code_of))

    codes = np.full(len(column.codes), -1, dtype=np.int64)
    is_text = column.codes >= 0
    if is_text.any():
        # A text is looked up once, however many rows have it.
        new = np.full(len(column.texts), -1, dtype=np.int64)
        used = np.zeros(len(column.texts), dtype=np.bool_)
        used[column.codes[is_text]] = True
        texts = column.texts.texts
        for each in np.flatnonzero(used).tolist():
            new[each] = code((TEXTS, texts[each]))
        codes[is_text] = new[column.codes[is_text]]
    is_number = column.codes == NUMBER
    if is_number.any():
        # First, so that an integer is shown as one if a float equals it.
        of_exact = {place: code((NUMBERS, number)) for place, number in column.exact.items()}
        distinct, places = np.unique(column.numbers[is_number], return_inverse=True)
        new = np.array([code((NUMBERS, _short(number))) for number in distinct.tolist()], dtype=np.int64)
        codes[is_number] = new[places]
        for place, own in of_exact.items():
            codes[place] = own
    for stored, key in ((TRUE, (TRUTHS, True)), (FALSE, (TRUTHS, False)), (NULL, (NULLS, 0))):
        is_stored = column.codes == stored
        if is_stored.any():
            codes[is_stored] = code(key)
    keys = list(code_of)
    places = np.flatnonzero(codes >= 0)
    in_order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = np.empty(len(keys), dtype=np.int64)
    rank[in_order] = np.arange(len(keys))
    return [keys[each] for each in in_order], rank[codes[places]], places


def _buckets(
    column: Column, kind: Kind, interval: Interval
) -> tuple[list[Key], NDArray[np.int64], NDArray[np.int64]]:
    """The same for the buckets of values; what is no date or no number is in none."""
    is_number = column.codes == NUMBER
    if interval.unit is None:
        buckets = interval.of_values(np.where(is_number, column.numbers, np.nan))
    elif kind is Kind.date:
        buckets = np.full(len(column.codes), NO_BUCKET)
        buckets[is_number] = interval.of_moments(column.numbers[is_number].astype(np.int64))
    else:
        dates = column.texts.dates()
        moments = np.full(len(column.codes), NO_DATE)
        is_text = column.codes >= 0
        moments[is_text] = dates[column.codes[is_text]]
        buckets = np.full(len(column.codes), NO_BUCKET)
        buckets[moments != NO_DATE] = interval.of_moments(moments[moments != NO_DATE])
    places = np.flatnonzero(buckets != NO_BUCKET)
    distinct, codes = np.unique(buckets[places], return_inverse=True)
    return [(NUMBERS, bucket) for bucket in distinct.tolist()], codes.astype(np.int64), places


def _grouped(
    keys: list[Key], codes: NDArray[np.int64], rows: NDArray[np.int32], n: int, document_of: Any
) -> ValueRows:
    pairs = np.unique(codes * max(n, 1) + rows)
    key_of, in_order = (each.astype(np.int32) for each in np.divmod(pairs, max(n, 1)))
    documents = in_order if document_of is None else np.asarray(document_of)[in_order].astype(np.int32)
    is_first = np.ones(len(in_order), dtype=np.bool_)
    is_first[1:] = (key_of[1:] != key_of[:-1]) | (documents[1:] != documents[:-1])
    starts = np.flatnonzero(is_first)
    key_groups = np.searchsorted(key_of[starts], np.arange(len(keys) + 1))
    bounds = np.append(starts, len(in_order))
    return ValueRows(keys, in_order, bounds.astype(np.int32), key_groups.astype(np.int32), documents[starts])


def _short(number: float) -> float:
    """The integer that a number is, if it is a short one."""
    return int(number) if number.is_integer() and abs(number) <= EXACT else number


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

    by_filter, tree  the conditions of the search
    is_found         bool (n,): what there is without filters
    is_result        bool (n,): what meets the filters
    met              returns which places meet other conditions of the same two forms, and all that the query
                     itself sets, bool (n,)
    """

    def __init__(
        self,
        state: FilterState,
        by_filter: Mapping[str, Node],
        tree: Node | None,
        is_found: Mask,
        is_result: Mask,
        met: Callable[[Mapping[str, Node], Node | None], Mask],
    ) -> None:
        self._state, self._by_filter, self._tree = state, by_filter, tree
        self._is_found, self._met = is_found, met
        self.all = Counted(state, is_result & state.index.live())

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
        others = without_own(self._by_filter, self._tree, field)
        if others is None:
            return self.all
        return Counted(self._state, self._is_found & self._met(*others) & self._state.index.live())

    def _document_counts(self, request: FacetRequest, counted: Counted) -> Counts:
        column = self._state.table.column(self._state.snapshot, request.field)
        values = value_rows(column, request.field.kind, request.interval)
        documents, chunks, with_value = values.count(counted.chunks_of)
        n_with_value = _n_different(with_value, len(self._state.table))
        return Counts(values.keys, documents, chunks, counted.n_documents - n_with_value)

    def _without_suffixes(self, counts: Counts) -> Counts:
        """A suffix says again what the type of the file says. One that the filter names is counted."""
        selected = selected_values(self._tree, FILE_TYPE)
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
        cached = (index.whole or index).cached
        held: tuple[list[Key], list[tuple[ValueRows, Ints]]] | None = cached.get(asked)
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
            cached[asked] = held
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
            is_selected=chosen is not None and is_selected(self._tree, chosen, (stored,)),
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
    facets, warnings = [], []
    for number, request in enumerate(requests):
        with blaming(f"facets[{number}]"):
            warnings.append(counter.warning(request))
            facets.append(counter.facet(request))
    return tuple(facets), list(dict.fromkeys(filter(None, warnings)))


def parts_of(tree: Node | None) -> tuple[Node, ...]:
    """Return what is joined by AND at the top of a tree."""
    if isinstance(tree, All):
        return tuple(part for each in tree.parts for part in parts_of(each))
    return () if tree is None else (tree,)


def is_own(part: Node, field: Field) -> bool:
    """Whether a part of the top of a tree belongs to the facet of a field."""
    return all(condition.field == field for condition in conditions_of(part))


def without_own(
    by_filter: Mapping[str, Node], tree: Node | None, field: Field
) -> tuple[dict[str, Node], Node | None] | None:
    """Return conditions by their filter, and a tree, without those that belong to a facet; None if there are
    none."""
    kept = {name: part for name, part in by_filter.items() if not is_own(part, field)}
    parts = parts_of(tree)
    others = tuple(part for part in parts if not is_own(part, field))
    if len(kept) == len(by_filter) and len(others) == len(parts):
        return None
    return kept, joined(others)


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
