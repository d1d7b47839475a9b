"""Forms of words in the passages that a viewer sees.

A segment counts the forms of all its documents together (`shoal.index.matching`). For a viewer, postings say
which visible passages have the stem of a form, and up to `MAX_READ` of them are read. If there are more, the
first `SAMPLED` passages of the library with the stem are read, and the visible ones of these count, or up to
`MAX_READ` others if none of them has the form; a form that none of these has counts as absent. So the cost is
bounded, and nothing but visible passages has a say. A form is then as frequent as its stem, and its share of
capital letters is that of the words of the texts that are spelled like it, which needs no analysis. What was
read of a passage is the same for all who see it, so that viewers share it.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import STOP_WORDS
from shoal.filters.evaluation import RecentlyUsed
from shoal.index.building import NameTexts, name_texts, name_words
from shoal.index.index import FormCount, Index
from shoal.index.matching import IndexTerm, PartMatches, find
from shoal.storage.database import Database, listed
from shoal.words.analysis import analyze_texts, stems_of

MAX_READ = 16
"""Passages that are read for a form, at most."""
SAMPLED = 128
"""Passages of the library that are read for a form: viewers share them, and each counts the visible ones."""
MAX_KNOWN = 10_000
"""Forms that are remembered for a view."""
MAX_SHARED_BYTES = 16 << 20
"""Memory of what the viewers of one state share, for each of three kinds: some 30,000 pairs of a form and a
passage, samples of forms, and the passages of stems."""
PAIR_BYTES = 160
NAMES = """
    SELECT c.id, d.title, d.source_path, s.path AS section_path, c.document_id, c.section_id
    FROM chunks c
    JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id WHERE c.id IN ({ids})
"""

ONLY_TEXTS = "SELECT id, text FROM chunks WHERE id IN ({ids})"


NONE = FormCount(0, 0)
ENDING = frozenset(".,;:!?")
_MARKS, _WIDE = re.compile("[\u0300-\u036f]"), re.compile(r"[^\x00-\x7f]")
_WITHOUT_SIGNS = {code: None for code in range(128) if not (chr(code).isalnum() or chr(code).isspace())}


class _Place(NamedTuple):
    """A passage with the stem of a form, and where it has it. It is the chunk `ordinal` of a part."""

    part: int
    ordinal: int
    chunk_id: int
    in_text: bool
    in_headings: bool
    in_title: bool


class _Sample(NamedTuple):
    """The first passages of a library with the stem of a form: for each part its number, the ordinals of the
    chunks, i64 (n,), and i64 (3, n): 1, how often each has the form, and with a capital letter."""

    parts: tuple[tuple[int, NDArray[np.int64], NDArray[np.int64]], ...]


class _Occurrences(NamedTuple):
    """Those of a form in the text of a passage, and in the names above it, which passages share."""

    n: int
    n_capitals: int
    in_names: Mapping[Hashable, int]


class VisibleForms:
    """Counts forms in the visible passages of one view. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, FormCount] = {}
        self._lock = threading.Lock()

    def __call__(self, index: Index, form: str) -> FormCount:
        known = self._known.get(form)
        if known is None:
            known = self._count(index, form)
            with self._lock:
                if len(self._known) >= MAX_KNOWN:
                    self._known.clear()
                self._known[form] = known
        return known

    def _count(self, index: Index, form: str) -> FormCount:
        cached = (index.whole or index).cached
        n_places, places = _places(index, form, MAX_READ)
        if n_places > MAX_READ:
            _, n, n_capitals = self._count_sampled(index, form)
            if not n:
                n, n_capitals = self._count_spelled(form, places)
            if n:
                return FormCount(n_places, round(n_places * n_capitals / n))
        shared: RecentlyUsed[tuple[str, int], _Occurrences] = cached.setdefault(
            VisibleForms, RecentlyUsed(MAX_SHARED_BYTES)
        )
        found = {place.chunk_id: shared.get((form, place.chunk_id)) for place in places}
        unread = [place for place in places if found[place.chunk_id] is None]
        if unread and index.whole is not None:
            # What is read for one viewer is read for all, if the library has few such passages.
            n_whole, of_whole = _places(index.whole, form, SAMPLED)
            unread = of_whole if n_whole <= SAMPLED else unread
        for chunk_id, each in self._read(form, unread).items():
            shared.put((form, chunk_id), each, PAIR_BYTES)
            if chunk_id in found:
                found[chunk_id] = each
        occurrences = [each for each in found.values() if each is not None]
        in_names = {name: n for each in occurrences for name, n in each.in_names.items()}
        n = sum(each.n for each in occurrences) + sum(in_names.values())
        n_capitals = sum(each.n_capitals for each in occurrences)
        if n_places <= MAX_READ or not n:
            return FormCount(n, n_capitals)
        return FormCount(n_places, round(n_places * n_capitals / n))

    def has(self, index: Index, form: str) -> bool:
        """Whether a visible passage has a form: mostly, one of the sample does."""
        if form not in self._known and self._count_sampled(index, form)[1]:
            return True
        return self(index, form).n > 0

    def share(self, index: Index, form: str) -> FormCount:
        """Counts with the same share of capital letters, mostly those of the sample alone."""
        if form not in self._known:
            n_places, n, n_capitals = self._count_sampled(index, form)
            if n and n_places > MAX_READ:
                return FormCount(n, n_capitals)
        return self(index, form)

    def _count_sampled(self, index: Index, form: str) -> tuple[int, int, int]:
        """Count the visible ones of the first passages of the library with the stem of a form, which are read
        once for all viewers, and in these the words that are spelled like it, and those with a capital."""
        whole = index.whole
        if whole is None:
            return 0, 0, 0
        samples: RecentlyUsed[str, _Sample] = whole.cached.setdefault(_Sample, RecentlyUsed(MAX_SHARED_BYTES))
        sample = samples.get(form)
        if sample is None:
            sample = self._read_sample(whole, form)
            samples.put(form, sample, sum(array.nbytes for parts in sample.parts for array in parts[1:]))
        n_places = n = n_capitals = 0
        for number, ordinals, counts in sample.parts:
            live = index.parts[number].live_chunks
            assert live is not None, "a viewer has a mask of each part"
            of_part = counts @ live[ordinals]
            n_places, n, n_capitals = (
                n_places + int(of_part[0]),
                n + int(of_part[1]),
                n_capitals + int(of_part[2]),
            )
        return n_places, n, n_capitals

    def _read_sample(self, whole: Index, form: str) -> _Sample:
        _, places = _places(whole, form, SAMPLED)
        texts = self._texts([place.chunk_id for place in places])
        by_part: dict[int, list[tuple[int, tuple[int, int, int]]]] = {}
        for place in places:
            if place.in_text and place.chunk_id in texts:
                counted = place.ordinal, (1, *_count_spellings(texts[place.chunk_id], form))
                by_part.setdefault(place.part, []).append(counted)
        return _Sample(
            tuple(
                (number, np.array([each for each, _ in own]), np.array([count for _, count in own]).T)
                for number, own in by_part.items()
            )
        )

    def _texts(self, chunk_ids: Sequence[int]) -> dict[int, str]:
        ids, parameters = listed("id", chunk_ids)
        with self._database.snapshot() as snapshot:
            return dict(snapshot.tuples(ONLY_TEXTS.format(ids=ids), parameters)) if chunk_ids else {}

    def _count_spelled(self, form: str, places: Sequence[_Place]) -> FormCount:
        """Count the words of texts that are spelled like a form, in small letters or capitals."""
        texts = self._texts([place.chunk_id for place in places if place.in_text])
        counts = [_count_spellings(text, form) for text in texts.values()]
        return FormCount(sum(count.n for count in counts), sum(count.n_capitals for count in counts))

    def _read(self, form: str, places: Sequence[_Place]) -> dict[int, _Occurrences]:
        """The occurrences of a form in passages, by id; without those that were deleted meanwhile."""
        if not places:
            return {}
        in_names = [place.chunk_id for place in places if place.in_title or place.in_headings]
        with self._database.snapshot() as snapshot:
            ids, parameters = listed("id", [place.chunk_id for place in places])
            texts = dict(snapshot.tuples(ONLY_TEXTS.format(ids=ids), parameters))
            ids, parameters = listed("id", in_names)
            named = snapshot.rows(NAMES.format(ids=ids), parameters) if in_names else ()
            rows = {row["id"]: row for row in named}
        places = [place for place in places if place.chunk_id in texts]
        texts = {place.chunk_id: texts[place.chunk_id] for place in places if place.in_text}
        in_texts = {chunk_id: count_plainly(text, form) for chunk_id, text in texts.items()}
        odd = {chunk_id: texts[chunk_id] for chunk_id, count in in_texts.items() if count is None}
        in_texts |= zip(odd, _count_in_texts(list(odd.values()), form), strict=True)
        names: dict[Hashable, NameTexts] = {}
        names_of: dict[int, list[Hashable]] = {}
        for place in places:
            row = rows.get(place.chunk_id)
            if row is None:
                names_of[place.chunk_id] = []
                continue
            document, section = ("document", row["document_id"]), ("section", row["section_id"])
            if place.in_title:
                names[document] = name_texts(row["title"], row["source_path"])
            if place.in_headings:
                names[section] = NameTexts(json.loads(row["section_path"]))
            names_of[place.chunk_id] = [*[document] * place.in_title, *[section] * place.in_headings]
        words = name_words(list(names.values()))
        counts = {
            name: int(np.count_nonzero(_is_form(each.forms, each.ids, form)))
            for name, each in zip(names, words, strict=True)
        }
        return {
            chunk_id: _Occurrences(
                *(in_texts.get(chunk_id) or NONE), {name: counts[name] for name in own if counts[name]}
            )
            for chunk_id, own in names_of.items()
        }


def _places(index: Index, form: str, limit: int) -> tuple[int, list[_Place]]:
    """How many passages of an index have the stem of a form, and the first of them."""
    places: list[_Place] = []
    n_places = 0
    found = _matches(index.whole or index, form)
    for number, (part, (ordinals, *fields)) in enumerate(zip(index.parts, found, strict=True)):
        if not len(ordinals):
            continue
        which = np.arange(len(ordinals))
        if part.live_chunks is not None:
            which = np.flatnonzero(part.live_chunks[ordinals])
        n_places += len(which)
        which = which[: limit - len(places)]
        if not len(which):
            continue
        has = [column[which] > 0 if len(column) else np.zeros(len(which), np.bool_) for column in fields]
        columns = ordinals[which], part.segment.chunk_ids[ordinals[which]], *has
        places += map(_Place, itertools.repeat(number), *(each.tolist() for each in columns))
    return n_places, places


def _matches(whole: Index, form: str) -> Sequence[PartMatches]:
    """Return the passages of a library with the stem of a form, for each part; viewers share them."""
    kept: RecentlyUsed[tuple[str, ...], Sequence[PartMatches]] = whole.cached.setdefault(
        PartMatches, RecentlyUsed(MAX_SHARED_BYTES)
    )
    stems = stems_of([form])
    parts = kept.get(stems)
    if parts is None:
        (found,) = find(whole, [IndexTerm(stems)])
        parts = found.parts
        kept.put(
            stems, parts, sum(column.nbytes for part in parts for column in part) + PAIR_BYTES * len(parts)
        )
    return parts


def _count_spellings(text: str, form: str) -> FormCount:
    counts = {spelling: _count_words(text, spelling) for spelling in {form, form.title(), form.upper()}}
    n = sum(counts.values())
    return FormCount(n, n - counts[form])


def _count_words(text: str, word: str) -> int:
    """How often a text has a word in exactly these letters."""
    n, at = 0, text.find(word)
    while at >= 0:
        end = at + len(word)
        after = text[end : end + 1]
        n += not (text[at - 1 : at].isalnum() or after.isalnum() or after == "_")
        at = text.find(word, end)
    return n


def count_plainly(text: str, form: str) -> FormCount | None:
    """Return how often a text has a form, without an analysis; None where that takes one: where the letters
    of the form stand side by side, but for signs, and are no plain word."""
    if not (form.isascii() and form.isalpha() and form.islower()) or len(form) == 1 or form in STOP_WORDS:
        return None
    lower = text.lower()
    if len(lower) != len(text):
        return None
    joined = lower.translate(_WITHOUT_SIGNS)
    if not joined.isascii():
        joined = _MARKS.sub("", unicodedata.normalize("NFKD", joined))
        if any(map(str.isalnum, _WIDE.findall(joined))):
            return None
        joined = _WIDE.sub("", joined)
    n = joined.count(form)
    if not n:
        return NONE
    n_plain = n_capitals = 0
    at = lower.find(form)
    while at >= 0:
        end = at + len(form)
        written, before, after = text[at:end], text[at - 1 : at], text[end : end + 2]
        is_end = not after[:1].strip() or (after[0] in ENDING and not after[1:].strip())
        is_plain = is_end and not before.strip()
        if not is_plain or written not in (form, form.title(), form.upper()):
            return None
        n_plain += 1
        n_capitals += written != form
        at = lower.find(form, end)
    return FormCount(n_plain, n_capitals) if n_plain == n else None


def _count_in_texts(texts: Sequence[str], form: str) -> Iterable[FormCount]:
    """How often each text has a form, and how often with a capital letter."""
    if not texts:
        return []
    stream, starts = analyze_texts(texts)
    is_form = _is_form(stream.forms, stream.ids, form)
    is_capital = is_form & stream.capitals
    return [
        FormCount(int(np.count_nonzero(is_form[start:end])), int(np.count_nonzero(is_capital[start:end])))
        for start, end in pairwise(starts.tolist())
    ]


def _is_form(forms: Sequence[str], ids: NDArray[Any], form: str) -> NDArray[np.bool_]:
    if form not in forms:
        return np.zeros(len(ids), dtype=np.bool_)
    return np.asarray(ids == forms.index(form))
