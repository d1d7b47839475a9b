"""Suggestions while somebody types a query: titles, headings, learned words, compounds and words of the
library, and frequent queries if they are logged.

Titles and headings of each part of the index are read once and sorted (`Completions`); learned words once
for each version of the vocabulary. A part that did not change keeps what was sorted. Words are found in the
terms of the index, where the last word of the query may begin them, and compounds in the dictionary if the
library has them.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import is_stop_word
from shoal.errors import QueryError
from shoal.filters.tree import check_characters
from shoal.formats.headings import without_title_label
from shoal.index.index import Index, Part
from shoal.index.matching import IN_TEXT, IndexTerm, count_roughly, find, forms_starting_with
from shoal.index.segment import Segment
from shoal.models.queries import MAX_QUERY_CHARS, MAX_SUGGESTIONS, SUGGESTIONS, Suggestion, Suggestions
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import Term
from shoal.storage import query_log, vocabulary
from shoal.storage.database import IDS_PER_STATEMENT, Database, Snapshot, listed
from shoal.words.analysis import folded, stems_of, tokens_of

MAX_TEXT = 160
"""Longest text that is offered, in characters; nobody reads a longer one while typing."""
MAX_STARTS = 8
"""Words of a text at which a key begins."""
KEY_CHARS = 48
"""Characters by which keys are sorted, and most that are compared."""


class Entry(NamedTuple):
    """A text that may be offered. `weight` orders texts of one kind; `owners` are the numbers of what has
    it."""

    text: str
    kind: str
    weight: int
    owners: Sequence[int] = ()


class Hit(NamedTuple):
    """An entry with the beginning that was typed. `is_start`: whether its first word begins so."""

    entry: Entry
    is_start: bool


def key_of(text: str) -> str:
    """Return a text as its folded words."""
    return " ".join(map(folded, tokens_of(text)))


class Completions:
    """Entries by the beginnings of their words. Immutable."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = [entry for entry in entries if len(entry.text) <= MAX_TEXT]
        self._keys = [key_of(entry.text) for entry in self._entries]
        starts = sorted(
            (key[start : start + KEY_CHARS], number, start)
            for number, key in enumerate(self._keys)
            for start in _starts(key)
        )
        self._entry_of: NDArray[np.int32] = np.array([number for _, number, _ in starts], dtype=np.int32)
        self._start_of: NDArray[np.int16] = np.array([start for _, _, start in starts], dtype=np.int16)
        weights = np.array([entry.weight for entry in self._entries], dtype=np.int64)
        # Texts that begin as typed come before those with a later word that does.
        self._order = self._orders(weights)
        owners = [entry.owners for entry in self._entries]
        self._owners: NDArray[np.int64] = np.array(list(itertools.chain(*owners)), dtype=np.int64)
        self._n_owners: NDArray[np.int64] = np.array(list(map(len, owners)), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._entries)

    def _orders(self, weights: NDArray[np.int64]) -> NDArray[np.int64]:
        own = weights[self._entry_of]
        return np.asarray(own * 2 + (self._start_of == 0) * (2 + own))

    def find(self, beginning: str, limit: int, visible: NDArray[np.bool_] | None = None) -> list[Hit]:
        """Return the best entries with words that begin with a key, at most `limit`, best first.

        `visible`: by number, which owners may be seen; a text that several have weighs how many may be.
        """
        beginning = beginning[:KEY_CHARS]
        places = range(len(self._entry_of))
        low = bisect.bisect_left(places, beginning, key=self._key)
        high = bisect.bisect_right(places, beginning, key=lambda place: self._key(place)[: len(beginning)])
        order, weights = self._order[low:high], None
        if visible is not None:
            weights = np.bincount(
                np.repeat(np.arange(len(self)), self._n_owners), visible[self._owners], len(self)
            ).astype(np.int64)
            is_title = self._n_owners == 1
            weights[is_title] *= np.array([entry.weight for entry in self._entries])[is_title]
            order = np.where(weights[self._entry_of] > 0, self._orders(weights), -1)[low:high]
        # An entry may have several such words.
        n = min(limit * MAX_STARTS, len(order))
        best = np.argpartition(-order, n - 1)[:n] if n < len(order) else np.arange(len(order))
        hits: dict[int, Hit] = {}
        for place in best[np.argsort(-order[best], kind="stable")].tolist():
            number = int(self._entry_of[low + place])
            entry = self._entries[number]
            if weights is not None:
                if not weights[number]:
                    continue
                entry = entry._replace(weight=int(weights[number]))
            hits.setdefault(number, Hit(entry, bool(self._start_of[low + place] == 0)))
        return list(hits.values())[:limit]

    def _key(self, place: int) -> str:
        start = int(self._start_of[place])
        return self._keys[int(self._entry_of[place])][start : start + KEY_CHARS]


def _starts(key: str) -> Iterable[int]:
    """Where keys begin: at the first word, and at those after it that are no stop words."""
    start = 0
    for place, word in enumerate(key.split(" ")[:MAX_STARTS]):
        if word and (not place or not is_stop_word(word)):
            yield start
        start += len(word) + 1


MIN_LETTERS = 3
MAX_COMPARED = 400
"""Compounds that begin as typed and are looked up; if there are more, none is, until more is typed."""
MAX_VERIFIED = 4
"""Compounds whose passages are counted: those whose rarest word is in most passages."""
_COUNTS, _PASSAGES = "counts of the words of compounds", "passages of compounds"


class DictionaryCompounds:
    """The compounds of a dictionary by their beginnings. `get_compounds` returns them in lower case."""

    def __init__(self, get_compounds: Callable[[], Sequence[str]]) -> None:
        self._get_compounds = get_compounds

    @functools.cached_property
    def _sorted(self) -> Sequence[str]:
        return sorted(self._get_compounds())

    def load(self) -> None:
        """Read the dictionary, so that the first suggestion need not."""
        len(self._sorted)

    def find(self, library: LibraryIndex, beginning: str) -> list[tuple[str, int]]:
        """Return the best compounds of the library that begin with a key, each with the passages that have
        it."""
        if len(beginning) < MIN_LETTERS:
            return []
        low = bisect.bisect_left(self._sorted, beginning)
        high = bisect.bisect_right(self._sorted, beginning, key=lambda each: each[: len(beginning)])
        return count_compounds(library, self._sorted[low:high] if high - low <= MAX_COMPARED else ())


def count_compounds(library: LibraryIndex, compounds: Iterable[str]) -> list[tuple[str, int]]:
    """Return the likeliest of some compounds that texts of passages have, each with the number of them."""
    terms = {compound: Term(tuple(tokens_of(compound))) for compound in compounds}
    at_most = {compound: _rarest(library.index, term) for compound, term in terms.items()}
    likeliest = sorted((each for each in terms if at_most[each]), key=lambda each: (-at_most[each], each))
    counts: dict[str, int] = library.index.cached.setdefault(_PASSAGES, {})
    new = [each for each in likeliest[:MAX_VERIFIED] if each not in counts]
    found = find(library.index, [IndexTerm(stems_of(terms[each].tokens), IN_TEXT) for each in new])
    counts.update((each, matches.n_chunks) for each, matches in zip(new, found, strict=True))
    return [(each, counts[each]) for each in likeliest[:MAX_VERIFIED] if counts[each]]


def is_compound(text: str) -> bool:
    """Whether a learned word has several parts."""
    return " " in key_of(text)


def _rarest(index: Index, term: Term) -> int:
    """Roughly, the number of passages of the rarest word of a compound."""
    counts: dict[str, int] = index.cached.setdefault(_COUNTS, {})
    least: int | None = None
    for stem in stems_of(term.tokens):
        if stem not in counts:
            counts[stem] = count_roughly(index, stem)
        least = counts[stem] if least is None else min(least, counts[stem])
        if not least:
            return 0
    return least or 0


MAX_WORDS = 4
"""Completions of the last word."""
FORMS_PER_WORD = 3
"""Forms that are looked up for each completion, since some are inflections of others."""
MAX_HEADINGS = 50_000
"""Headings kept for a part: those of most documents."""
MAX_LEARNED = 50_000
"""Learned words kept: the most frequent."""

MIN_QUERY_LETTERS = 2
"""With fewer, a large part of the query log would be read."""
QUERIES_KEPT_SECONDS = 60.0
MAX_BEGINNINGS = 1_000
"""Beginnings whose logged queries are kept."""
MIN_SEARCHES = 3
"""Fewer searches do not make a query frequent; so few may all be of one person."""

TITLE, HEADING, LEARNED, WORD = "title", "heading", "learned", "word"
COMPOUND, QUERY = "compound", "query"
_BONUS = {QUERY: 4.0, TITLE: 3.0, LEARNED: 2.0, COMPOUND: 2.0, HEADING: 1.0, WORD: 0.0}
_AT_START = 4.0
"""Doublings of its frequency that a kind is worth more than a word."""

TITLES = "SELECT id, title, n_chunks FROM documents WHERE id IN ({ids})"
HEADINGS = "SELECT document_id, path FROM sections WHERE level > 0 AND document_id IN ({ids})"
LEARNED_WORDS = """
    SELECT w.word, w.n_documents FROM custom_words w
    WHERE w.retired = 0 AND w.from_version = (
        SELECT MAX(v.from_version) FROM custom_words v WHERE v.word = w.word AND v.from_version <= :version)
    ORDER BY w.n_documents DESC, w.word LIMIT :limit
"""


class Suggester:
    """Suggests queries in the state of a snapshot. Thread-safe."""

    def __init__(
        self,
        database: Database,
        get_compounds: Callable[[], Sequence[str]] = tuple,
        *,
        with_queries: bool = False,
    ) -> None:
        """`get_compounds` returns those of the dictionary; `with_queries`: whether the query log is read."""
        self._database = database
        self._compounds = DictionaryCompounds(get_compounds)
        self._with_queries = with_queries
        self._queries: dict[str, tuple[float, tuple[tuple[str, int], ...]]] = {}
        self._lock = threading.Lock()
        self._of_segments: weakref.WeakKeyDictionary[Segment, Completions] = weakref.WeakKeyDictionary()
        self._learned: tuple[int, Completions] = (-1, Completions(()))

    def load(self, library: LibraryIndex) -> None:
        """Read titles and headings, so that the first suggestion need not."""
        for part in library.index.parts:
            self._of_part(part)
        self._compounds.load()

    def suggest(
        self, snapshot: Snapshot, library: LibraryIndex, query: object, limit: object = SUGGESTIONS
    ) -> Suggestions:
        """Return suggestions for the beginning of a query. Raises QueryError."""
        text, n = _checked(query, limit)
        beginning = key_of(text) + (" " if text[-1:].isspace() else "")
        if not beginning.strip():
            return Suggestions(())
        hits = [
            hit
            for part in library.index.parts
            for hit in self._of_part(part).find(
                beginning, 2 * n, part.live_documents if library.viewer is not None else None
            )
            if _is_live(part, hit.entry)
        ]
        learned = self._learned_hits(snapshot, library, beginning, n)
        hits += [hit for hit in learned if hit.entry.kind != COMPOUND]
        scored = [(_score(hit), _shown(hit.entry.text), hit.entry.kind, hit.entry.weight) for hit in hits]
        compounds = [hit.entry.text for hit in learned if hit.entry.kind == COMPOUND]
        for compound, n_chunks in (
            *count_compounds(library, compounds),
            *self._compounds.find(library, beginning),
        ):
            is_start = key_of(compound).startswith(beginning)
            scored.append((_worth(n_chunks, COMPOUND, is_start=is_start), compound, COMPOUND, n_chunks))
        # What others search for is for nobody with a search token.
        with_queries = self._with_queries and library.viewer is None
        scored += self._frequent(snapshot, text, n, with_queries=with_queries)
        for word, n_chunks in self._words(library, text):
            scored.append((math.log2(1 + n_chunks), word, WORD, n_chunks))
        return Suggestions(tuple(itertools.islice(_distinct(scored, typed=text), n)))

    def _learned_hits(
        self, snapshot: Snapshot, library: LibraryIndex, beginning: str, limit: int
    ) -> list[Hit]:
        """Learned words that begin as typed; for a viewer those of visible passages."""
        learned = self._of_learned(snapshot)
        if library.viewer is None:
            return learned.find(beginning, limit)
        counted = (
            Hit(hit.entry._replace(weight=len(library.count_by_document(hit.entry.text))), hit.is_start)
            for hit in learned.find(beginning, MAX_COMPARED)
        )
        return list(itertools.islice((hit for hit in counted if hit.entry.weight), limit))

    def _frequent(
        self, snapshot: Snapshot, text: str, limit: int, *, with_queries: bool
    ) -> Iterator[tuple[float, str, str, int]]:
        """Logged queries that begin as typed, and that had results."""
        beginning = query_log.normalized(text)
        if not with_queries or len(beginning) < MIN_QUERY_LETTERS:
            return
        read_at, queries = self._queries.get(beginning, (-math.inf, ()))
        if time.monotonic() - read_at > QUERIES_KEPT_SECONDS:
            rows = query_log.frequent(
                snapshot, prefix=beginning, min_searches=MIN_SEARCHES, limit=MAX_SUGGESTIONS
            )
            queries = tuple(
                (str(row["query"]), int(row["n_searches"]))
                for row in rows
                if row["n_empty"] < row["n_searches"]
            )
            if len(self._queries) >= MAX_BEGINNINGS:
                self._queries.clear()
            self._queries[beginning] = time.monotonic(), queries
        for query, n in queries[:limit]:
            yield _worth(n, QUERY, is_start=True), _shown(query), QUERY, n

    def _words(self, library: LibraryIndex, text: str) -> Iterator[tuple[str, int]]:
        """The query with its last word completed, and in how many chunks that word is. Words that the query
        has before are left out."""
        tokens = tokens_of(text)
        if not tokens or not text.endswith(tokens[-1]):
            return
        before, beginning = text[: -len(tokens[-1])], folded(tokens[-1])
        forms = [
            form for form, _ in forms_starting_with(library.index, beginning, FORMS_PER_WORD * MAX_WORDS)
        ]
        typed = stems_of(tokens[:-1])
        of_term = {
            term: form
            for form, term in sorted(zip(forms, stems_of(forms), strict=True), key=lambda each: -len(each[0]))
            if term not in typed
        }
        matches = find(library.index, [IndexTerm((term,)) for term in of_term])
        counted = [(form, found.n_chunks) for form, found in zip(of_term.values(), matches, strict=True)]
        for form, n_chunks in sorted(counted, key=lambda each: (-each[1], each[0]))[:MAX_WORDS]:
            if n_chunks:
                yield before + form, n_chunks

    def _of_part(self, part: Part) -> Completions:
        segment = part.segment
        completions = self._of_segments.get(segment)
        if completions is None:
            with self._lock:
                completions = self._of_segments.get(segment)
                if completions is None:
                    completions = Completions(_entries(self._database, segment))
                    self._of_segments[segment] = completions
        return completions

    def _of_learned(self, snapshot: Snapshot) -> Completions:
        version = vocabulary.newest(snapshot).number
        if self._learned[0] != version:
            with self._lock:
                if self._learned[0] != version:
                    rows = snapshot.tuples(LEARNED_WORDS, {"version": version, "limit": MAX_LEARNED})
                    self._learned = (
                        version,
                        Completions(
                            Entry(word, COMPOUND if is_compound(word) else LEARNED, n) for word, n in rows
                        ),
                    )
        return self._learned[1]


def _checked(query: object, limit: object) -> tuple[str, int]:
    if not isinstance(query, str):
        raise QueryError("q", "must be a string")
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError("q", f"is {len(query):,} characters; the limit is {MAX_QUERY_CHARS:,}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_SUGGESTIONS:
        raise QueryError("limit", f"must be a whole number from 1 to {MAX_SUGGESTIONS}")
    return check_characters("q", query).lstrip(), limit


def _entries(database: Database, segment: Segment) -> Iterator[Entry]:
    """Titles and headings of the documents of a segment."""
    ordinals = {document_id: place for place, document_id in enumerate(segment.document_ids.tolist())}
    headings: dict[str, dict[int, None]] = {}
    with database.snapshot(limited=False) as snapshot:
        document_ids = list(ordinals)
        for start in range(0, len(document_ids), IDS_PER_STATEMENT):
            ids, parameters = listed("id", document_ids[start : start + IDS_PER_STATEMENT])
            for document_id, title, n_chunks in snapshot.tuples(TITLES.format(ids=ids), parameters):
                yield Entry(title, TITLE, n_chunks, (ordinals[document_id],))
            for document_id, path in snapshot.tuples(HEADINGS.format(ids=ids), parameters):
                heading = without_title_label((json.loads(path) or [""])[-1])
                if heading:
                    headings.setdefault(heading, {})[ordinals[document_id]] = None
    most = sorted(headings.items(), key=lambda each: (-len(each[1]), each[0]))[:MAX_HEADINGS]
    for heading, documents in most:
        yield Entry(heading, HEADING, len(documents), tuple(documents))


def _is_live(part: Part, entry: Entry) -> bool:
    return part.live_documents is None or any(bool(part.live_documents[owner]) for owner in entry.owners)


def _score(hit: Hit) -> float:
    """How good a suggestion is: the logarithm of its frequency, with what its kind and place are worth."""
    return _worth(hit.entry.weight, hit.entry.kind, is_start=hit.is_start)


def _worth(n: int, kind: str, *, is_start: bool) -> float:
    return math.log2(1 + n) + _BONUS[kind] + _AT_START * is_start


def _shown(text: str) -> str:
    """A text in one line, without characters that cannot be seen."""
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(text.split())


def _distinct(scored: Iterable[tuple[float, str, str, int]], *, typed: str) -> Iterator[Suggestion]:
    """The suggestions, best first, without those that are equal but for case, accents and punctuation, or
    equal to what was typed."""
    seen = {key_of(typed)}
    for _, text, kind, n in sorted(scored, key=lambda each: (-each[0], len(each[1]), each[1])):
        key = key_of(text)
        if key not in seen:
            seen.add(key)
            yield Suggestion(text, kind, n)
