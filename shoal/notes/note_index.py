"""The index of one owner's notes, in memory: which notes have a term or a reef, and what filters need.

An index is a value: an update returns a new one, which shares what did not change. A block holds some notes
in arrays. An update adds a block with the changed notes and hides their old places; blocks of similar size
are merged, so there are few, and a note is copied about log2(n) times.
"""

from __future__ import annotations

import functools
import itertools
import json
import threading
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedDatabaseError
from shoal.index.ragged import expand, firsts_of_runs, joined, starts_of
from shoal.index.scoring import Z_UNIT, reef_weights
from shoal.models.notes import TURN, TagRelevance
from shoal.notes.note_rows import IndexRow
from shoal.storage.profiles import MAX_REEFS, Profiles

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FACETS = (
    "kind", "prerequisites", "tags", "categories", "relevance", "domain", "is_pinned", "session",
    "is_question",
)  # fmt: skip
"""What a filter or a factor is decided by, and which notes follow each other. Notes with equal values share
one number, so each value is decided once per search."""
TIMES = ("said", "event_from", "event_to", "valid_from", "valid_to", "fact_id")
"""Days since 1 January of the year 1 (`date.toordinal`), and which notes replaced each other. NO_DAY: an
event that no text names, or a validity without an end; fact 0: a note that replaced none."""
NO_DAY = 4_000_000
"""After every day."""
PASSAGE_REACH = 4
"""Notes before and behind one in its session that are its passage."""
BYTES_PER_VALUE, BYTES_PER_PLACE = 200, 30
"""Memory of the objects that hold a value, and of what is derived for each place."""
NO_RELEVANCE = "[]"
PINNED = "yes"
"""The value of `is_pinned` of a note whose pin counts everywhere."""
BLOCK_FACTOR = 2
"""A block is merged with the next one if it has at most this many times its notes."""
SMALL_BLOCK = 256
"""A block of at most this many notes is merged with any later one, which takes less than a millisecond."""
BATCH = 10_000
"""Notes whose terms are in memory as texts at the same time, in 15 MB."""
SPARE_VALUES = 5_000
"""Values of facets that an index may have beside those of its active notes: every judgement makes a new
one."""


class TermNumbers:
    """Numbers of terms. One object serves all indexes of a process: most owners use the same words."""

    def __init__(self) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        self._names: list[str] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, terms: Sequence[str]) -> NDArray[np.uint32]:
        """Return the number of each term; a new term gets the next one."""
        # Without the lock, two threads could give one term two numbers.
        with self._lock:
            return np.fromiter(map(self._numbers.__getitem__, terms), dtype=np.uint32, count=len(terms))

    def names(self, numbers: NDArray[np.uint32]) -> list[str]:
        """Return the terms of some numbers."""
        with self._lock:
            self._names += itertools.islice(self._numbers, len(self._names), None)
        return [self._names[number] for number in numbers.tolist()]

    def find(self, term: str) -> int | None:
        """Return the number of a term, None if no note has it."""
        return self._numbers.get(term)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Block:
    """Some notes, ascending by id. A note's ordinal is its place in the block, a token's position its place
    among all tokens of the block, where each note has its title first.

    note_ids       i64 (n,)
    token_starts   i64 (n + 1,): the first position of each note, and the end
    title_ends     i64 (n,): the first position behind each title
    terms          u32 (t,), ascending
    term_starts    i64 (t + 1,): where the tokens of each term start in `positions` and `notes`
    positions      i32 (n_tokens,), ascending within a term
    notes          i32 (n_tokens,): ordinal of the note of each
    reef_starts    i64 (MAX_REEFS + 1,): where the notes of each reef start
    reef_notes     i32 (p,): ordinals, ascending within a reef
    reef_weights   u16 (p,), in units of 1 / REEF_UNIT
    facets         i32 (len(FACETS), n)
    times          i64 (len(TIMES), n)
    """

    note_ids: Ints
    token_starts: Ints
    title_ends: Ints
    terms: NDArray[np.uint32]
    term_starts: Ints
    positions: NDArray[np.int32]
    notes: NDArray[np.int32]
    reef_starts: Ints
    reef_notes: NDArray[np.int32]
    reef_weights: NDArray[np.uint16]
    facets: NDArray[np.int32]
    times: Ints

    def __len__(self) -> int:
        return len(self.note_ids)

    @property
    def n_bytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.__dataclass_fields__)

    def facet(self, name: str) -> NDArray[np.int32]:
        """Return the number of each note's value of a facet."""
        numbers: NDArray[np.int32] = self.facets[FACETS.index(name)]
        return numbers

    def tokens_of(self, term: int) -> slice:
        """Return where the tokens of a term are in `positions` and `notes`."""
        place = int(np.searchsorted(self.terms, np.uint32(term)))
        if place == len(self.terms) or self.terms[place] != term:
            return slice(0, 0)
        return slice(int(self.term_starts[place]), int(self.term_starts[place + 1]))


class _Columns(NamedTuple):
    """Notes in arrays that can be joined and sorted; a block is built from them.

    counts, title_counts   i64 (n,): tokens of each note, and of its title
    tokens                 u32: term of each token
    reef_counts            i64 (n,)
    reef_ids, weights      of each posting
    """

    note_ids: Ints
    counts: Ints
    title_counts: Ints
    tokens: NDArray[np.uint32]
    reef_counts: Ints
    reef_ids: NDArray[np.uint8]
    weights: NDArray[np.uint16]
    facets: NDArray[np.int32]
    times: Ints


class TagSets(NamedTuple):
    """Sets of tags, in a form for all of them at once.

    tags            distinct tags
    set_of, tag_of  i64 (m,): each tag of each set: the number of the set and the place in `tags`
    """

    tags: tuple[str, ...]
    set_of: Ints
    tag_of: Ints


class Totals(NamedTuple):
    """The number of notes, and of the terms of their texts and of their titles."""

    n_notes: int
    n_text: int
    n_title: int


NONE = Totals(0, 0, 0)


class Occurrences(NamedTuple):
    """The active notes with a term, i64 (m,) each: distinct places, how often it is in the text and in the
    title, and the terms of text and title."""

    places: Ints
    in_text: Ints
    in_title: Ints
    text: Ints
    title: Ints


_NOTHING = np.empty(0, dtype=np.int64)
NO_OCCURRENCES = Occurrences(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)


@dataclass(frozen=True, eq=False)
class Sessions:
    """The active notes that have a session, one session after the other, by id.

    places    i64 (m,)
    numbers   i32 (m,): the session of each
    position  i64 (n,): where the note at each place is in `places`; -1 without a session
    """

    places: Ints
    numbers: NDArray[np.int32]
    position: Ints

    @functools.cached_property
    def passage_starts(self) -> Ints:
        """The first position of the passage of each note, by position."""
        firsts = firsts_of_runs(self.numbers)
        starts = np.repeat(firsts, np.diff(firsts, append=len(self.places)))
        return np.maximum(np.arange(len(self.places)) - PASSAGE_REACH, starts)

    @functools.cached_property
    def passage_ends(self) -> Ints:
        """The position behind the passage of each note, by position."""
        firsts = firsts_of_runs(self.numbers)
        ends = np.append(firsts[1:], len(self.places))
        behind = np.repeat(ends, np.diff(firsts, append=len(self.places)))
        ends_of_passages: Ints = np.minimum(np.arange(len(self.places)) + PASSAGE_REACH + 1, behind)
        return ends_of_passages

    def beside(self, places: Ints, distance: int) -> tuple[Ints, Ints]:
        """Return which of some places have a note at this distance in their session, by number, and the place
        of that note. Before: a negative distance."""
        own = self.position[places]
        other = np.clip(own + distance, 0, len(self.places) - 1)
        is_there = (own >= 0) & (other == own + distance) & (self.numbers[other] == self.numbers[own])
        return np.flatnonzero(is_there), self.places[other[is_there]]


class Facets:
    """The distinct values of each facet of one owner's notes, by number."""

    def __init__(self) -> None:
        self._tags: dict[str, int] = {}
        self._set_of = array("q")
        self._tag_of = array("q")
        self.n_bytes = 2_000
        """Memory of the values, about."""
        self._values: tuple[list[str], ...] = tuple([] for _ in FACETS)
        self._numbers: tuple[dict[str, int], ...] = tuple({} for _ in FACETS)

    def numbers(self, facet: int, values: Sequence[str]) -> NDArray[np.int32]:
        """Return the number of each value; a new value gets the next one."""
        numbers = self._numbers[facet]
        for value in dict.fromkeys(values):
            if value not in numbers:
                self._add(facet, value)
        return np.fromiter(map(numbers.__getitem__, values), dtype=np.int32, count=len(values))

    def _add(self, facet: int, value: str) -> None:
        number = self._numbers[facet][value] = len(self._values[facet])
        self._values[facet].append(value)
        self.n_bytes += BYTES_PER_VALUE + len(value)
        if FACETS[facet] == "tags":
            for tag in json.loads(value):
                self._set_of.append(number)
                self._tag_of.append(self._tags.setdefault(tag, len(self._tags)))

    @property
    def n_values(self) -> int:
        """The number of all values."""
        return sum(map(len, self._values))

    def tag_sets(self) -> TagSets:
        """Return the values of `tags`."""
        # Copies, because an array cannot grow while it is shared.
        return TagSets(tuple(self._tags), np.array(self._set_of), np.array(self._tag_of))

    def values(self, facet: str) -> Sequence[str]:
        """Return all values of a facet, by number."""
        return self._values[FACETS.index(facet)]


@dataclass(frozen=True, eq=False)
class LiveBlock:
    """A block without its hidden notes: those that are no longer active, or are in a later block.

    live   bool (n,); None if no note is hidden
    """

    block: Block
    live: Bools | None = None

    def __len__(self) -> int:
        return len(self.block)

    @functools.cached_property
    def totals(self) -> Totals:
        block, live = self.block, slice(None) if self.live is None else self.live
        text = int((block.token_starts[1:] - block.title_ends)[live].sum())
        title = int((block.title_ends - block.token_starts[:-1])[live].sum())
        return Totals(len(block.note_ids[live]), text, title)

    def compacted(self) -> LiveBlock:
        """Return the part without the places of hidden notes, if these are the majority."""
        return self if 2 * self.totals.n_notes >= len(self) else LiveBlock(_block(_live_columns(self)))

    def without(self, note_ids: Ints) -> LiveBlock:
        """Return the part with more hidden notes, given by ids that need not be in it."""
        block = self.block
        ordinals = np.searchsorted(block.note_ids, note_ids)
        ordinals[ordinals == len(block)] = 0
        ordinals = ordinals[block.note_ids[ordinals] == note_ids]
        if not len(ordinals):
            return self
        live = np.ones(len(block), dtype=np.bool_) if self.live is None else self.live.copy()
        live[ordinals] = False
        return LiveBlock(block, live)


@dataclass(frozen=True, eq=False)
class NoteIndex:
    """The active notes of one owner after a change. A place counts the notes of all parts, one after the
    other, hidden notes included."""

    change_number: int
    parts: tuple[LiveBlock, ...]
    terms: TermNumbers
    facets: Facets

    @classmethod
    def empty(cls, terms: TermNumbers) -> NoteIndex:
        return cls(0, (), terms, Facets())

    def updated(self, rows: Iterable[IndexRow], change_number: int, data_checksum: str) -> NoteIndex:
        """Return the index after these changes; the last one has this number.

        Profiles by other data than that of the checksum are left out: their reefs cannot be compared.
        """
        newest = {row.id: row for row in rows}
        changed = np.fromiter(newest, dtype=np.int64, count=len(newest))
        parts = [part.without(changed) for part in self.parts]
        parts = [part.compacted() for part in parts if part.totals.n_notes]
        active = [row for row in newest.values() if row.is_active]
        if active:
            parts.append(LiveBlock(_block(self._columns(active, data_checksum))))
        while len(parts) > 1 and len(parts[-2]) <= max(BLOCK_FACTOR * len(parts[-1]), SMALL_BLOCK):
            parts[-2:] = [LiveBlock(_block(_joined([_live_columns(part) for part in parts[-2:]])))]
        return NoteIndex(change_number, tuple(parts), self.terms, self.facets)

    def _columns(self, rows: Sequence[IndexRow], data_checksum: str) -> _Columns:
        batches = [_terms(rows[i : i + BATCH], self.terms) for i in range(0, len(rows), BATCH)]
        tokens, title_counts, text_counts = map(np.concatenate, zip(*batches, strict=True))
        profiles = Profiles.of([row.profile if row.data_checksum == data_checksum else b"" for row in rows])
        weights = reef_weights(profiles.records["z_score"].astype(np.int64), profiles.bounds)
        return _Columns(
            np.array([row.id for row in rows], dtype=np.int64),
            title_counts + text_counts,
            title_counts,
            tokens,
            np.diff(profiles.bounds),
            profiles.reef_ids,
            weights.astype(np.uint16),
            np.stack(
                [
                    self.facets.numbers(facet, [getattr(row, name) for row in rows])
                    for facet, name in enumerate(FACETS)
                ]
            ),
            np.array([_times(row) for row in rows], dtype=np.int64).T,
        )

    # Places

    @functools.cached_property
    def starts(self) -> Ints:
        """The first place of each part, and the end."""
        return starts_of(np.array([len(part) for part in self.parts], dtype=np.int64))

    def __len__(self) -> int:
        """Return the number of places."""
        return int(self.starts[-1])

    @functools.cached_property
    def totals(self) -> Totals:
        """Numbers of the active notes."""
        return (
            Totals(*map(sum, zip(*(part.totals for part in self.parts), strict=True))) if self.parts else NONE
        )

    @property
    def n_active(self) -> int:
        return self.totals.n_notes

    @functools.cached_property
    def note_ids(self) -> Ints:
        """The id of the note at each place."""
        return np.concatenate([_NOTHING, *(part.block.note_ids for part in self.parts)])

    @property
    def has_too_many_values(self) -> bool:
        """Whether facets have so many former values that the index should be read anew."""
        return self.facets.n_values > len(FACETS) * self.n_active + SPARE_VALUES

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays and of the values of facets, about."""
        blocks = sum(part.block.n_bytes for part in self.parts)
        return self.facets.n_bytes + BYTES_PER_PLACE * len(self) + blocks

    @functools.cached_property
    def sessions(self) -> Sessions | None:
        """Which notes follow each other; None if no active note has a session."""
        if not any(self.facets.values("session")):
            return None
        has_name = np.array([bool(name) for name in self.facets.values("session")], dtype=np.bool_)
        numbers = self.facet("session")
        is_in_one = has_name[numbers]
        for part, (start, end) in zip(self.parts, itertools.pairwise(self.starts.tolist()), strict=True):
            if part.live is not None:
                is_in_one[start:end] &= part.live
        places = np.flatnonzero(is_in_one)
        if not len(places):
            return None
        places = places[np.lexsort((self.note_ids[places], numbers[places]))]
        position = np.full(len(self), -1, dtype=np.int64)
        position[places] = np.arange(len(places))
        return Sessions(places, numbers[places], position)

    def place_of(self, note_id: int) -> int | None:
        """Return the place of an active note, or None."""
        for part, start in zip(self.parts, self.starts.tolist(), strict=False):
            note_ids = part.block.note_ids
            ordinal = int(np.searchsorted(note_ids, note_id))
            is_here = ordinal < len(part) and note_ids[ordinal] == note_id
            if is_here and (part.live is None or part.live[ordinal]):
                return int(start) + ordinal
        return None

    def times(self, name: str) -> Ints:
        """Return one of `TIMES` of the note at each place."""
        number = TIMES.index(name)
        return np.concatenate([_NOTHING, *(part.block.times[number] for part in self.parts)])

    @functools.cached_property
    def is_live(self) -> Bools:
        """Whether the note at each place is not hidden."""
        parts = [
            np.ones(len(part), dtype=np.bool_) if part.live is None else part.live for part in self.parts
        ]
        return np.concatenate([np.empty(0, dtype=np.bool_), *parts])

    @functools.cached_property
    def holds(self) -> Bools:
        """Whether no other note has replaced the note at each place."""
        holds: Bools = self.times("valid_to") == NO_DAY
        return holds

    @functools.cached_property
    def is_comparable(self) -> Bools:
        """Whether the note at each place holds and is no turn, so that others may repeat or change it."""
        is_turn = np.array([value == TURN for value in self.facets.values("kind")], dtype=np.bool_)
        return self.holds & ~is_turn[self.facet("kind")] if len(self) else np.empty(0, dtype=np.bool_)

    def passages(self, values: Ints) -> Ints:
        """Return for each place the sum of values over its passage: the notes around it in its session, or
        the note alone."""
        sessions = self.sessions
        if sessions is None:
            return values
        sums = starts_of(values[sessions.places])
        totals = values.copy()
        totals[sessions.places] = sums[sessions.passage_ends] - sums[sessions.passage_starts]
        return totals

    @functools.cached_property
    def passage_lengths(self) -> Ints:
        """The terms of the passage of each place."""
        lengths = [_NOTHING]
        for part in self.parts:
            own = np.diff(part.block.token_starts)
            lengths.append(own if part.live is None else own * part.live)
        return self.passages(np.concatenate(lengths))

    def is_one_of(self, note_ids: Sequence[int]) -> Bools:
        """Return, for each place, whether its note is one of these."""
        return np.isin(self.note_ids, np.array(note_ids, dtype=np.int64))

    # Terms

    def occurrences(self, term: str, following: str | None = None) -> Occurrences:
        """Return where a term is in the active notes; if one is given, with this term directly behind it."""
        numbers = [self.terms.find(each) for each in (term, following) if each is not None]
        if None in numbers:
            return NO_OCCURRENCES
        found = [
            _occurrences(part, numbers, start)  # type: ignore[arg-type]
            for part, start in zip(self.parts, self.starts.tolist(), strict=False)
        ]
        found = [each for each in found if len(each.places)]
        if len(found) < 2:
            return found[0] if found else NO_OCCURRENCES
        return Occurrences(*map(np.concatenate, zip(*found, strict=True)))

    def n_with(self, term: str) -> int:
        """Return about how many notes have a term: hidden notes and repetitions count too."""
        number = self.terms.find(term)
        if number is None:
            return 0
        slices = (part.block.tokens_of(number) for part in self.parts)
        return sum(tokens.stop - tokens.start for tokens in slices)

    # Reefs

    def overlaps(self, query_z: Mapping[int, float]) -> Ints:
        """Return the overlap of each note's reefs with the z-scores of a query by reef id, in units of
        1 / `shoal.index.scoring.OVERLAP_UNIT`; 0 for hidden notes."""
        totals = np.zeros(len(self), dtype=np.int64)
        for part, (start, end) in zip(self.parts, itertools.pairwise(self.starts.tolist()), strict=True):
            block, own = part.block, totals[start:end]
            for reef_id, z in query_z.items():
                first, last = block.reef_starts[reef_id : reef_id + 2].tolist()
                products = block.reef_weights[first:last].astype(np.int64)
                products *= round(z * Z_UNIT)
                # With indices of this type, twice as fast as `+=`, which reads, adds and writes in turn.
                np.add.at(own, block.reef_notes[first:last].astype(np.intp), products)
            if part.live is not None:
                own *= part.live
        return totals

    # Facets

    def facet(self, name: str) -> NDArray[np.int32]:
        """Return the number of each note's value of a facet."""
        return np.concatenate([np.empty(0, dtype=np.int32), *(part.block.facet(name) for part in self.parts)])

    @property
    def is_judged(self) -> bool:
        """Whether any note has or had a relevance."""
        return any(value != NO_RELEVANCE for value in self.facets.values("relevance"))

    @property
    def tag_sets(self) -> TagSets:
        """The sets of tags that notes have or had."""
        return self.facets.tag_sets()

    @functools.cached_property
    def notes_by_tag(self) -> dict[str, int]:
        """Count the active notes that have each tag."""
        sets = self.tag_sets
        numbers = [part.block.facet("tags")[_shown(part)] for part in self.parts]
        n_notes = np.bincount(joined(numbers), minlength=len(self.facets.values("tags")))
        counts = np.bincount(sets.tag_of, weights=n_notes[sets.set_of], minlength=len(sets.tags))
        return dict(zip(sets.tags, counts.astype(np.int64).tolist(), strict=True))


def _shown(part: LiveBlock) -> Bools | slice:
    return slice(None) if part.live is None else part.live


def _occurrences(part: LiveBlock, terms: Sequence[int], start: int) -> Occurrences:
    """Of one term, or of two that are neighbours in a text or title."""
    block = part.block
    tokens = block.tokens_of(terms[0])
    notes = block.notes[tokens]
    positions = block.positions[tokens]
    for term in terms[1:]:
        is_pair = np.isin(positions + 1, block.positions[block.tokens_of(term)], assume_unique=True)
        ends = block.title_ends[notes]
        is_pair &= (positions + 1 != ends) & (positions + 1 < block.token_starts[1:][notes])
        notes, positions = notes[is_pair], positions[is_pair]
    if part.live is not None:
        is_live = part.live[notes]
        notes, positions = notes[is_live], positions[is_live]
    if not len(notes):
        return NO_OCCURRENCES
    firsts = firsts_of_runs(notes)
    found = notes[firsts]
    in_text = np.empty(len(firsts), dtype=np.int64)
    np.subtract(firsts[1:], firsts[:-1], out=in_text[:-1])
    in_text[-1] = len(notes) - firsts[-1]
    if part.totals.n_title:
        in_title = np.add.reduceat(positions < block.title_ends[notes], firsts, dtype=np.int64)
        in_text -= in_title
    else:
        in_title = np.zeros(len(firsts), dtype=np.int64)
    ends = block.title_ends[found]
    text, title = block.token_starts[1:][found] - ends, ends - block.token_starts[:-1][found]
    return Occurrences(found.astype(np.int64) + start, in_text, in_title, text, title)


@functools.lru_cache(maxsize=4_096)
def parse_list(value: str) -> tuple[str, ...]:
    """Parse the JSON texts of a facet."""
    return tuple(json.loads(value))


def parse_relevance(value: str) -> dict[str, TagRelevance]:
    """Parse the relevance of a note by tag."""
    return {tag: TagRelevance(*each) for tag, *each in json.loads(value)}


def _times(row: IndexRow) -> tuple[int, ...]:
    days = (row.said_at[:10], row.event_from, row.event_to, row.valid_from, row.valid_to)
    numbers = [NO_DAY if day is None else date.fromisoformat(day).toordinal() for day in days]
    if row.valid_from is None:
        numbers[3] = numbers[0]
    return (*numbers, row.fact_id or 0)


def _live_columns(part: LiveBlock) -> _Columns:
    """The notes of a part, as they were before its block was built."""
    block, n = part.block, len(part)
    tokens = np.empty(len(block.positions), dtype=np.uint32)
    tokens[block.positions] = np.repeat(block.terms, np.diff(block.term_starts))
    reef_ids = np.repeat(np.arange(MAX_REEFS, dtype=np.uint8), np.diff(block.reef_starts))
    by_note = np.argsort(block.reef_notes, kind="stable")
    columns = _Columns(
        block.note_ids,
        np.diff(block.token_starts),
        block.title_ends - block.token_starts[:-1],
        tokens,
        np.bincount(block.reef_notes, minlength=n),
        reef_ids[by_note],
        block.reef_weights[by_note],
        block.facets,
        block.times,
    )
    return columns if part.live is None else _chosen(columns, np.flatnonzero(part.live))


def _chosen(columns: _Columns, ordinals: Ints) -> _Columns:
    """Some of the notes, in this order."""
    counts, reef_counts = columns.counts[ordinals], columns.reef_counts[ordinals]
    tokens = expand(starts_of(columns.counts)[ordinals], counts)
    postings = expand(starts_of(columns.reef_counts)[ordinals], reef_counts)
    return _Columns(
        columns.note_ids[ordinals],
        counts,
        columns.title_counts[ordinals],
        columns.tokens[tokens],
        reef_counts,
        columns.reef_ids[postings],
        columns.weights[postings],
        columns.facets[:, ordinals],
        columns.times[:, ordinals],
    )


def _terms(
    rows: Sequence[IndexRow], terms: TermNumbers
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64]]:
    """The terms of notes in order; how many each title has; how many each text has.

    Raises DamagedDatabaseError if words are not two lines of terms.
    """
    packed = b"\n".join(row.words for row in rows)
    characters = np.frombuffer(packed, dtype=np.uint8)
    ends = np.append(np.flatnonzero(characters == ord("\n")), len(characters))
    n_spaces = np.diff(np.searchsorted(np.flatnonzero(characters == ord(" ")), ends), prepend=0)
    counts = np.where(np.diff(ends, prepend=-1) > 1, n_spaces + 1, 0)
    words = packed.decode().split()
    if len(ends) != 2 * len(rows) or len(words) != counts.sum():
        raise DamagedDatabaseError
    return terms.of(words), counts[::2], counts[1::2]


def _joined(parts: Sequence[_Columns]) -> _Columns:
    return _Columns(*(np.concatenate(column, axis=-1) for column in zip(*parts, strict=True)))


def _block(columns: _Columns) -> Block:
    """Build a block of notes in any order."""
    if np.any(columns.note_ids[1:] < columns.note_ids[:-1]):
        columns = _chosen(columns, np.argsort(columns.note_ids))
    n = len(columns.note_ids)
    token_starts = starts_of(columns.counts)
    # Sorting terms with their positions is several times as fast as an `argsort` that keeps the order.
    keys = columns.tokens.astype(np.uint64) << np.uint64(32) | np.arange(len(columns.tokens), dtype=np.uint64)
    keys.sort()
    positions = keys.astype(np.uint32).astype(np.int32)
    tokens = (keys >> np.uint64(32)).astype(np.uint32)
    firsts = firsts_of_runs(tokens)
    note_of = np.repeat(np.arange(n, dtype=np.int32), columns.counts)
    reef_note_of = np.repeat(np.arange(n, dtype=np.int32), columns.reef_counts)
    by_reef = np.argsort(columns.reef_ids, kind="stable")
    return Block(
        note_ids=columns.note_ids,
        token_starts=token_starts,
        title_ends=token_starts[:-1] + columns.title_counts,
        terms=tokens[firsts],
        term_starts=np.append(firsts, len(tokens)),
        positions=positions,
        notes=note_of[positions],
        reef_starts=starts_of(np.bincount(columns.reef_ids, minlength=MAX_REEFS)),
        reef_notes=reef_note_of[by_reef],
        reef_weights=columns.weights[by_reef],
        facets=columns.facets,
        times=columns.times,
    )
