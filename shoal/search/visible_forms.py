"""Forms of words in the passages that a viewer sees.

A segment counts the forms of all its documents together (`shoal.index.forms`). For a viewer, postings say
which visible passages have the stem of a form, and up to `MAX_READ` of them are read. If there are more, a
form that none of these has counts as absent, and another is counted by the passages with its stem: so the
cost is bounded, and nothing but visible passages has a say.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.index.building import NameTexts, name_texts, name_words
from shoal.index.index import FormCount, Index
from shoal.index.matching import IndexTerm, find
from shoal.storage.database import Database, listed
from shoal.words.analysis import analyze_texts
from shoal.words.typed import stems_of

MAX_READ = 16
"""Passages that are read for a form, at most."""
MAX_KNOWN = 10_000
"""Forms that are remembered for a view."""
TEXTS = """
    SELECT c.text, d.title, d.source_path, s.path AS section_path, c.document_id, c.section_id FROM chunks c
    JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id WHERE c.id IN ({ids})
"""


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
        (found,) = find(index, [IndexTerm(stems_of([form]))])
        places = np.flatnonzero(found.mask())
        if not len(places):
            return FormCount(0, 0)
        ids, parameters = listed("id", index.chunk_ids(places[:MAX_READ]).tolist())
        with self._database.snapshot() as snapshot:
            rows = snapshot.rows(TEXTS.format(ids=ids), parameters)
        names = {
            ("document", row["document_id"]): name_texts(row["title"], row["source_path"]) for row in rows
        }
        names |= {("section", row["section_id"]): NameTexts(json.loads(row["section_path"])) for row in rows}
        stream, _ = analyze_texts([row["text"] for row in rows])
        is_form = _is_form(stream.forms, stream.ids, form)
        n, n_capitals = np.count_nonzero(is_form), np.count_nonzero(is_form & stream.capitals)
        for words in name_words(list(names.values())):
            n += np.count_nonzero(_is_form(words.forms, words.ids, form))
        if len(places) <= MAX_READ or not n:
            return FormCount(int(n), int(n_capitals))
        return FormCount(len(places), round(len(places) * n_capitals / n))


def _is_form(forms: Sequence[str], ids: NDArray[Any], form: str) -> NDArray[np.bool_]:
    numbers = [number for number, each in enumerate(forms) if each == form]
    return np.isin(ids, numbers)
