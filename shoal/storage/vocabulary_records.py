"""Observed and learned words as the database holds them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class Kind(enum.IntEnum):
    """What a row is about. `totals`: the average of everything, one row of every document, with the empty word."""

    totals = 0
    word = 1
    compound = 2


class EvidenceRow(NamedTuple):
    """One word in one document, or in many together.

    n_occurrences  of the totals: all words but stop words and numbers, whatever is known of them
    n_short        of n_occurrences, those in short documents
    n_chunks       chunks of the first pass that hold it; of the totals: all
    parts          of compounds: compounds.PartCounts
    reefs, sums    context: sum over occurrences by reef, reefs ascending; in 1/CONTEXT_UNIT, of the totals in 1
    """

    kind: int
    word: str
    n_occurrences: int
    n_short: int
    n_documents: int
    n_chunks: int
    parts: tuple[int, ...]
    reefs: tuple[int, ...]
    sums: tuple[int, ...]


class LearnedReef(NamedTuple):
    """An association, `strength` 0..1 of the word's strongest; `bm25_q` as lagoon counts it."""

    reef_id: int
    bm25_q: int
    strength: float


@dataclass(frozen=True, slots=True)
class LearnedWord:
    """A word or compound in the form lagoon and the database know it by: idf_q in 1/51, weight_q in 1/4096,
    `reefs` strongest first."""

    word: str
    is_compound: bool
    specificity: int
    idf_q: int
    weight_q: int
    n_occurrences: int
    n_documents: int
    reefs: tuple[LearnedReef, ...]
