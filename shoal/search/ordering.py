"""The order of results: by sort levels if there are any, then greater keys first, equal keys by chunk id.

The number of results of one document can be limited, or the best few of each can come before all others.
Documents can be grouped under others: the attachments of a mail under the mail. Pages that begin after a
given result cost hardly more with their depth.

Sort keys order the values of a column: of a field with several values, the one that comes first counts. False
comes before true, truth values before numbers, numbers before texts; texts are compared without regard to
case. A document without a value, or with null or an object, has 0, so it comes last in both directions.

A decay by date and boosts by filter add named parts to the score of a hybrid search:

    final = blend + weight * 0.5 ** (age / half life) + the weight of each boost that the passage meets

Both are added to matches alone: neither makes a result. The age is that of the newest date of the field; a
date after `now` has the age 0, and a document without a date gets nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import blaming
from shoal.filters.columns import EXACT, FALSE, NO_DATE, NUMBER, TRUE, Column
from shoal.filters.evaluation import Fields, FilterState
from shoal.filters.parsing import ReefNames
from shoal.filters.tree import Field, Kind, moment_of
from shoal.filters.warnings import shown
from shoal.index import kernels
from shoal.index.index import Index
from shoal.models.scores import BoostPart
from shoal.models.search import SortValue
from shoal.search.library_index import LibraryIndex
from shoal.search.order_arguments import Boost, Decay, SortKey
from shoal.storage.database import Snapshot

FIRST_DEPTH = 100
"""Best chunks sorted in the first round. For a page of ten, the limit per document rarely needs more."""
DEPTH_FACTOR = 4
"""Growth of the depth per round when a round yields too few results."""


RUN = 64
"""Neighbouring places; at first only the best of them is compared; divides `PLACES_TOGETHER`."""
Keys = NDArray[Any]
_ALL = np.empty(0, dtype=np.bool_)
GROWTH = 4
"""Growth of the number of candidates per round when documents that are used up hide too many."""
Ints = NDArray[np.int64]
_RANKS: weakref.WeakKeyDictionary[Column, Ranks] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()
Doubles = NDArray[np.float64]
MICROSECONDS_PER_DAY = 86_400_000_000.0
PARENTS = "SELECT document_id, parent_id FROM document_parents ORDER BY document_id, parent_id"
_MAX_STEPS = 16
"""Attachments of attachments are followed over 2^16 documents; links may form a circle."""


class BestFirst(NamedTuple):
    """The `n` best results of each document come first, then all others in the same order."""

    n: int


DocumentLimit = int | BestFirst | None
"""Most results of one document, or those of it that come first; None: documents do not matter."""


class Places(NamedTuple):
    """Places of results in their order. The first `n_within` are within the limit per document."""

    places: NDArray[np.int64]
    n_within: int


@dataclass(frozen=True)
class Order:
    """Chunks with a sort key each, which is not negative.

    keys       i64 or f64 (n,), by place in the index
    is_result  bool (n,): whether the chunk may be a result
    levels     i64 (n,) each, not negative: what chunks are ordered by before their keys, greater first
    families   what documents are grouped under others; None: each is a group of its own
    """

    index: Index
    keys: Keys
    is_result: NDArray[np.bool_]
    levels: tuple[NDArray[np.int64], ...] = ()
    families: Families | None = None

    def groups(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the documents that chunks at some places are grouped under."""
        document_ids = self.index.document_ids(places)
        return document_ids if self.families is None else self.families.of(document_ids)

    def first(self, n: int, limit: DocumentLimit) -> Places:
        """Return the first `n` results, best first. Sorts only as many chunks as necessary."""
        n_best = per_document(limit, n)
        depth = max(FIRST_DEPTH, 2 * n)
        while True:
            places = self._best_places(depth)
            levels = [-level[places] for level in reversed(self.levels)]
            places = places[np.lexsort((self.index.chunk_ids(places), -self.keys[places], *levels))]
            is_within = _places_in_document(self.groups(places)) < n_best
            results: NDArray[np.int64] = places[is_within][:n]
            n_within = len(results)
            if n_within == n or len(places) < depth:
                if isinstance(limit, BestFirst):
                    results = np.concatenate([results, places[~is_within][: n - n_within]])
                return Places(results, n_within)
            depth *= DEPTH_FACTOR

    def rank(self, place: int, limit: DocumentLimit, *, among: NDArray[np.bool_] | None = None) -> int | None:
        """Return the rank, from 1, that a chunk has or would have among the results, or among `among`.

        None if as many better chunks of its document come before it as the limit allows.
        """
        own = np.array([place])
        among = self.is_result if among is None else among
        ahead = self._not_behind(place, among)
        is_tied = np.logical_and.reduce([each[ahead] == each[place] for each in (*self.levels, self.keys)])
        ahead = ahead[~is_tied | (self.index.chunk_ids(ahead) < self.index.chunk_ids(own))]
        if limit is None:
            return 1 + len(ahead)
        n_best = per_document(limit, len(ahead))
        documents, counts = np.unique(self.groups(ahead), return_counts=True)
        if counts[documents == self.groups(own)].sum() < n_best:
            return 1 + int(np.minimum(counts, n_best).sum())
        if not isinstance(limit, BestFirst):
            return None
        _, of_all = np.unique(self.groups(np.flatnonzero(among)), return_counts=True)
        return 1 + int(np.minimum(of_all, n_best).sum() + np.maximum(counts - n_best, 0).sum())

    def _best_places(self, n: int) -> NDArray[np.int64]:
        """The places of the first `n` results and of those that are equal to the last, in any order."""
        chosen: list[NDArray[np.int64]] = []
        is_left = self.is_result
        for level in self.levels:
            places = best_places(level, n, is_left)
            if len(places) <= n:
                return np.concatenate([*chosen, places])
            # Too many have the last value: of these, the next level or the key chooses.
            found = level[places]
            last = int(found.min())
            chosen.append(places[found > last])
            n -= len(chosen[-1])
            is_left = is_left & (level == last)
        best = None if self.levels else self._best_of_runs
        return np.concatenate([*chosen, best_places(self.keys, n, is_left, best_of_runs=best)])

    @functools.cached_property
    def _best_of_runs(self) -> Keys:
        """The best key of a result in each run, for all rounds."""
        return find_best_of_runs(self.keys, self.is_result)

    def _not_behind(self, place: int, among: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The places of chunks that come before one, and of those that are equal to it."""
        ahead, is_tied = np.zeros_like(among), among
        for each in (*self.levels, self.keys):
            ahead |= is_tied & (each > each[place])
            is_tied = is_tied & (each == each[place])
        return np.flatnonzero(ahead | is_tied)


def per_document(limit: DocumentLimit, most: int) -> int:
    """Return the results of a document that a limit concerns; `most` without one."""
    if limit is None:
        return most
    return limit.n if isinstance(limit, BestFirst) else limit


def find_best_of_runs(keys: Keys, is_eligible: NDArray[np.bool_] | None = None) -> Keys:
    """Return the best key in each run of RUN places, -1 for a run without an eligible one."""
    return kernels.active().best_of_runs(keys, _ALL if is_eligible is None else is_eligible, RUN)


def best_places(
    keys: Keys,
    n: int,
    is_eligible: NDArray[np.bool_] | None = None,
    *,
    least: int = 0,
    best_of_runs: Keys | None = None,
) -> NDArray[np.int64]:
    """Return the places of the `n` best keys and of those tied with the last, ascending; all if there are
    fewer.

    Only keys of at least `least` count, and only where `is_eligible` holds. If n runs have a key of at least
    t, n keys are at least t, so runs whose best key is below need no look. `best_of_runs`: these keys, if
    already known.
    """
    best = find_best_of_runs(keys, is_eligible) if best_of_runs is None else best_of_runs
    is_chosen = best >= least
    if n < len(best):
        is_chosen &= best >= np.partition(best, len(best) - n)[len(best) - n]
    runs = np.flatnonzero(is_chosen)
    places: NDArray[np.int64] = (runs[:, None] * RUN + np.arange(RUN)).ravel()
    places = places[: np.searchsorted(places, len(keys))]
    if is_eligible is not None:
        places = places[is_eligible[places]]
    places = places[keys[places] >= least]
    if n < len(places):
        chosen = keys[places]
        places = places[chosen >= np.partition(chosen, len(chosen) - n)[len(chosen) - n]]
    return places


def _places_in_document(document_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count, for each element, the elements before it with the same value."""
    by_document = np.argsort(document_ids, kind="stable")
    in_order = document_ids[by_document]
    firsts = np.searchsorted(in_order, in_order, side="left")
    places = np.empty(len(document_ids), dtype=np.int64)
    places[by_document] = np.arange(len(document_ids)) - firsts
    return places


def first_after(order: Order, place: int, n: int, limit: DocumentLimit) -> Places:
    """Return the first `n` results that come after the one at `place`, best first.

    The limit per document counts the results up to `place`, too.
    """
    is_ahead = _up_to(order, place)
    behind = dataclasses.replace(order, is_result=order.is_result & ~is_ahead)
    if limit is None:
        return behind.first(n, None)
    n_best = per_document(limit, n)
    used = np.sort(order.groups(np.flatnonzero(is_ahead & order.is_result)))
    own = order.groups(np.array([place]))
    if not isinstance(limit, BestFirst):
        page = _within_after(behind, used, n, n_best)
        return Places(page, len(page))
    if np.count_nonzero(used == own) <= n_best:
        page = _within_after(behind, used, n, n_best)
        if len(page) == n:
            return Places(page, n)
    # The page has results beyond the limit, which begin after all others.
    everything = order.first(int(np.count_nonzero(order.is_result)), limit)
    at = 1 + int(np.flatnonzero(everything.places == place)[0])
    page = everything.places[at : at + n]
    return Places(page, min(max(0, everything.n_within - at), len(page)))


def _within_after(behind: Order, used: NDArray[np.int64], n: int, n_best: int) -> NDArray[np.int64]:
    """The first `n` results of `behind` that are among the `n_best` of their documents. `used`: the documents
    of the results before them, ascending."""
    wanted = n
    while True:
        found = behind.first(wanted, n_best).places
        left = _left_of(behind.groups(found), used, n_best)
        if np.count_nonzero(left) >= n or len(found) < wanted:
            return found[left][:n]
        wanted *= GROWTH


def _left_of(document_ids: NDArray[np.int64], used: NDArray[np.int64], limit: int) -> NDArray[np.bool_]:
    """Whether each result is among the first `limit` of its document, `used` ones before it included."""
    n_used = np.searchsorted(used, document_ids, "right") - np.searchsorted(used, document_ids, "left")
    seen: dict[int, int] = {}
    left = np.zeros(len(document_ids), dtype=np.bool_)
    for i, (document_id, before) in enumerate(zip(document_ids.tolist(), n_used.tolist(), strict=True)):
        left[i] = before + seen.get(document_id, 0) < limit
        seen[document_id] = seen.get(document_id, 0) + 1
    return left


def _up_to(order: Order, place: int) -> NDArray[np.bool_]:
    """Whether each place comes before `place` or is `place` itself."""
    # What the order compares before its keys, if anything.
    levels: tuple[NDArray[Any], ...] = getattr(order, "levels", ())
    is_ahead = np.zeros(len(order.keys), dtype=np.bool_)
    is_tied = np.ones(len(order.keys), dtype=np.bool_)
    for each in (*levels, order.keys):
        is_ahead |= is_tied & (each > each[place])
        is_tied &= each == each[place]
    tied = np.flatnonzero(is_tied)
    own = order.index.chunk_ids(np.array([place]))
    is_ahead[tied[order.index.chunk_ids(tied) <= own]] = True
    return is_ahead


class Sorting:
    """The sort keys of a search on one state of the library."""

    def __init__(self, snapshot: Snapshot, index: Index, fields: Fields, keys: Sequence[SortKey]) -> None:
        self._table = fields.documents.of(snapshot)
        self._index = index
        self._keys = tuple(keys)
        with blaming("sort"):
            self._columns = [self._table.column(snapshot, key.field) for key in keys]

    def levels(self) -> tuple[Ints, ...]:
        """Return, for each sort key, i64 (n_places,): greater for what comes earlier, 0 without a value."""
        return tuple(
            self._table.placed(self._index, _ranks(column).levels(is_descending=key.is_descending))
            for key, column in zip(self._keys, self._columns, strict=True)
        )

    def values(self, document_id: int) -> tuple[SortValue, ...]:
        """Return the value of a document that each sort key compares."""
        row = int(np.searchsorted(self._table.ids, document_id))
        return tuple(
            _value(column, key.field, _ranks(column).place_of(row, is_descending=key.is_descending))
            for key, column in zip(self._keys, self._columns, strict=True)
        )

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for each field that no document has a value of."""
        pairs = zip(self._keys, self._columns, strict=True)
        return tuple(
            f"nothing is sorted by {key.field.text[:60]}: no document has a value there"
            for key, column in pairs
            if not self._table.is_alive[_ranks(column).rows].any()
        )


class Ranks:
    """The order of the values of a column, ascending.

    rows    i32 (m,): the row of each value that can be compared
    places  i64 (m,): its place in the column
    ranks   i64 (m,): from 0; equal values have the same
    """

    def __init__(self, column: Column) -> None:
        codes = column.codes
        self._n = column.n
        self.places = np.flatnonzero((codes >= 0) | (codes == NUMBER) | (codes == TRUE) | (codes == FALSE))
        codes = codes[self.places]
        self.rows = column.rows[self.places]
        self.ranks = np.zeros(len(codes), dtype=np.int64)
        self.ranks[codes == TRUE] = 1
        is_number, is_text = codes == NUMBER, codes >= 0
        if is_number.any():
            ranks = _number_ranks(column, self.places[is_number])
            self.ranks[is_number] = 2 + ranks
            first_text = 3 + int(ranks.max())
        else:
            first_text = 2
        if is_text.any():
            used, numbers_of = np.unique(codes[is_text], return_inverse=True)
            texts = [column.texts.texts[code] for code in used.tolist()]
            folded = [text.casefold() for text in texts]
            rank_of = {text: rank for rank, text in enumerate(sorted(set(folded)))}
            ranks = np.array([rank_of[text] for text in folded], dtype=np.int64)
            self.ranks[is_text] = first_text + ranks[numbers_of]

    def levels(self, *, is_descending: bool) -> Ints:
        """Return, for each row, i64 (n,): greater for what comes earlier, 0 without a value."""
        levels = np.zeros(self._n, dtype=np.int64)
        own = self.ranks + 1 if is_descending else self.ranks.max(initial=0) + 1 - self.ranks
        np.maximum.at(levels, self.rows, own)
        return levels

    def place_of(self, row: int, *, is_descending: bool) -> int | None:
        """Return the place in the column of the value that counts for a row; None without one."""
        own = np.flatnonzero(self.rows == row)
        if not len(own):
            return None
        ranks = self.ranks[own]
        return int(self.places[own[int(np.argmax(ranks) if is_descending else np.argmin(ranks))]])


def _number_ranks(column: Column, places: Ints) -> Ints:
    """The ranks of the numbers at some places of a column, from 0."""
    if not column.exact:
        return np.asarray(np.unique(column.numbers[places], return_inverse=True)[1], dtype=np.int64)
    numbers = [column.exact.get(place, float(column.numbers[place])) for place in places.tolist()]
    rank_of = {number: rank for rank, number in enumerate(sorted(set(numbers)))}
    return np.array([rank_of[number] for number in numbers], dtype=np.int64)


def _ranks(column: Column) -> Ranks:
    """The order of a column; sorting the texts of 100,000 documents takes a fifth of a second, once."""
    ranks = _RANKS.get(column)
    if ranks is None:
        with _LOCK:
            ranks = _RANKS.get(column)
            if ranks is None:
                ranks = _RANKS[column] = Ranks(column)
    return ranks


def _value(column: Column, field: Field, place: int | None) -> SortValue:
    if place is None:
        return None
    code = int(column.codes[place])
    if code >= 0:
        return column.texts.texts[code]
    if code in (TRUE, FALSE):
        return code == TRUE
    number = column.exact.get(place, float(column.numbers[place]))
    if field.kind is Kind.date:
        return moment_of(int(number))
    if isinstance(number, int):
        return number
    return int(number) if number.is_integer() and abs(number) <= EXACT else number


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
        with blaming("decay.field"):
            column = table.column(snapshot, decay.field)
        by_document = decayed_parts(column, decay)
        decayed = table.placed(index, by_document)
        if not by_document[table.is_alive].any():
            warnings.append(f"the decay adds nothing: no document has a date in {decay.field.text[:60]}")
    is_met = []
    if boosts:
        assert names is not None, "filters were compiled with the boosts"
        state, live = FilterState(snapshot, index, fields, names), index.live()
        for number, boost in enumerate(boosts):
            with blaming(f"boosts[{number}].filter"):
                is_met.append(state.met(boost.filter))
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


@dataclass(frozen=True)
class Families:
    """The documents that attached ones are grouped under: the outermost, by the parent that was stored first.

    attached  i64 (n,), ascending
    heads     i64 (n,)
    """

    attached: NDArray[np.int64]
    heads: NDArray[np.int64]

    @classmethod
    def read(cls, snapshot: Snapshot, library: LibraryIndex) -> Families:
        """Read the links between documents of a library, for a viewer between visible ones."""
        is_whole = library.viewer is None
        first: dict[int, int] = {}
        for attached, parent in snapshot.tuples(PARENTS):
            if is_whole or all(library.sees_document(snapshot, each) for each in (attached, parent)):
                first.setdefault(attached, parent)
        rows = list(first.items())
        attached, heads = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        families = cls(attached, heads)
        for _ in range(_MAX_STEPS):
            further = families.of(families.heads)
            if np.array_equal(further, families.heads):
                break
            families = cls(attached, further)
        return families

    def of(self, document_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the head of each document; itself if it is attached to none."""
        if not len(self.attached):
            return document_ids
        at = np.minimum(np.searchsorted(self.attached, document_ids), len(self.attached) - 1)
        return np.where(self.attached[at] == document_ids, self.heads[at], document_ids)

    def members(self, heads: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the documents of these families, their heads among them."""
        return np.concatenate([heads, self.attached[np.isin(self.heads, heads)]])
