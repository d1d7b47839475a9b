"""Forms of words in the passages that a viewer sees.

A segment counts the forms of all its documents together (`shoal.index.matching`). For a viewer, postings say
which visible passages have the stem of a form, and up to `MAX_READ` of them are read. If there are more, a
form that none of these has counts as absent, and another is counted by the passages with its stem: so the
cost is bounded, and nothing but visible passages has a say. Its share of capital letters is then that of the
words of their texts that are spelled like it, which a search of the text finds without an analysis. What was
analyzed of a passage is the same for all who see it, so that viewers share it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.filters.evaluation import RecentlyUsed
from shoal.index.building import NameTexts, name_texts, name_words
from shoal.index.index import FormCount, Index
from shoal.index.matching import IndexTerm, find
from shoal.storage.database import Database, listed
from shoal.words.analysis import analyze_texts, stems_of

MAX_READ = 16
"""Passages that are read for a form, at most."""
MAX_KNOWN = 10_000
"""Forms that are remembered for a view."""
MAX_SHARED_BYTES = 16 << 20
"""Memory of what the viewers of one state share: some 30,000 pairs of a form and a passage."""
PAIR_BYTES = 160
TEXTS = """
    SELECT c.id, c.text, d.title, d.source_path, s.path AS section_path, c.document_id, c.section_id
    FROM chunks c
    JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id WHERE c.id IN ({ids})
"""

ONLY_TEXTS = "SELECT text FROM chunks WHERE id IN ({ids})"


class _Place(NamedTuple):
    """A passage with the stem of a form, and where it has it."""

    chunk_id: int
    in_text: bool
    in_headings: bool
    in_title: bool


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
        n_places, places = _places(index, form)
        if n_places > MAX_READ:
            n, n_capitals = self._count_spelled(form, places)
            if n:
                return FormCount(n_places, round(n_places * n_capitals / n))
        cached = (index.whole or index).cached
        shared: RecentlyUsed[tuple[str, int], _Occurrences] = cached.setdefault(
            VisibleForms, RecentlyUsed(MAX_SHARED_BYTES)
        )
        found = {place.chunk_id: shared.get((form, place.chunk_id)) for place in places}
        for chunk_id, each in self._read(form, [p for p in places if found[p.chunk_id] is None]).items():
            found[chunk_id] = each
            shared.put((form, chunk_id), each, PAIR_BYTES)
        occurrences = [each for each in found.values() if each is not None]
        in_names = {name: n for each in occurrences for name, n in each.in_names.items()}
        n = sum(each.n for each in occurrences) + sum(in_names.values())
        n_capitals = sum(each.n_capitals for each in occurrences)
        if n_places <= MAX_READ or not n:
            return FormCount(n, n_capitals)
        return FormCount(n_places, round(n_places * n_capitals / n))

    def _count_spelled(self, form: str, places: Sequence[_Place]) -> FormCount:
        """Count the words of texts that are spelled like a form, in small letters or capitals."""
        ids, parameters = listed("id", [place.chunk_id for place in places if place.in_text])
        if not ids:
            return FormCount(0, 0)
        with self._database.snapshot() as snapshot:
            text = "\n".join(text for (text,) in snapshot.tuples(ONLY_TEXTS.format(ids=ids), parameters))
        counts = {spelling: _count_words(text, spelling) for spelling in {form, form.title(), form.upper()}}
        n = sum(counts.values())
        return FormCount(n, n - counts[form])

    def _read(self, form: str, places: Sequence[_Place]) -> dict[int, _Occurrences]:
        """The occurrences of a form in passages, by id; without those that were deleted meanwhile."""
        if not places:
            return {}
        ids, parameters = listed("id", [place.chunk_id for place in places])
        with self._database.snapshot() as snapshot:
            rows = {row["id"]: row for row in snapshot.rows(TEXTS.format(ids=ids), parameters)}
        places = [place for place in places if place.chunk_id in rows]
        texts = {place.chunk_id: rows[place.chunk_id]["text"] for place in places if place.in_text}
        names: dict[Hashable, NameTexts] = {}
        names_of: dict[int, list[Hashable]] = {}
        for place in places:
            row = rows[place.chunk_id]
            document, section = ("document", row["document_id"]), ("section", row["section_id"])
            if place.in_title:
                names[document] = name_texts(row["title"], row["source_path"])
            if place.in_headings:
                names[section] = NameTexts(json.loads(row["section_path"]))
            names_of[place.chunk_id] = [*[document] * place.in_title, *[section] * place.in_headings]
        in_texts = dict(zip(texts, _count_in_texts(list(texts.values()), form), strict=True))
        words = name_words(list(names.values()))
        in_names = {
            name: int(np.count_nonzero(_is_form(each.forms, each.ids, form)))
            for name, each in zip(names, words, strict=True)
        }
        return {
            chunk_id: _Occurrences(
                *in_texts.get(chunk_id, (0, 0)), {name: in_names[name] for name in own if in_names[name]}
            )
            for chunk_id, own in names_of.items()
        }


def _places(index: Index, form: str) -> tuple[int, list[_Place]]:
    """How many visible passages have the stem of a form, and the first `MAX_READ` of them."""
    (found,) = find(index, [IndexTerm(stems_of([form]))])
    places: list[_Place] = []
    for part, (ordinals, *fields) in zip(index.parts, found.parts, strict=True):
        which = np.arange(len(ordinals))
        if part.live_chunks is not None:
            which = np.flatnonzero(part.live_chunks[ordinals])
        which = which[: MAX_READ - len(places)]
        has = [column[which] > 0 if len(column) else np.zeros(len(which), np.bool_) for column in fields]
        ids = part.segment.chunk_ids[ordinals[which]].tolist()
        places += map(_Place, ids, *(each.tolist() for each in has))
        if len(places) >= MAX_READ:
            break
    return found.n_chunks, places


def _count_words(text: str, word: str) -> int:
    """How often a text has a word in exactly these letters."""
    found = re.finditer(rf"{re.escape(word)}(?!\w)", text)
    return sum(not text[match.start() - 1 : match.start()].isalnum() for match in found)


def _count_in_texts(texts: Sequence[str], form: str) -> Iterable[tuple[int, int]]:
    """How often each text has a form, and how often with a capital letter."""
    if not texts:
        return []
    stream, starts = analyze_texts(texts)
    is_form = _is_form(stream.forms, stream.ids, form)
    is_capital = is_form & stream.capitals
    return [
        (int(np.count_nonzero(is_form[start:end])), int(np.count_nonzero(is_capital[start:end])))
        for start, end in pairwise(starts.tolist())
    ]


def _is_form(forms: Sequence[str], ids: NDArray[Any], form: str) -> NDArray[np.bool_]:
    if form not in forms:
        return np.zeros(len(ids), dtype=np.bool_)
    return np.asarray(ids == forms.index(form))
