"""Observed and learned words as stored in the database."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple


class Kind(enum.IntEnum):
    """The subject of a row. `totals`: the document as a whole, one row per document, with the empty word."""

    totals = 0
    word = 1
    compound = 2


class EvidenceRow(NamedTuple):
    """One word in one document, or in several documents together.

    n_occurrences  for the totals: all words, known or not, except stop words and numbers
    n_short        those of n_occurrences that are in short documents
    n_chunks       chunks of the discover stage that contain the word; for the totals: all chunks
    parts          for compounds: compounds.PartCounts
    reefs, sums    context: sum over occurrences by reef, reefs ascending; in 1/CONTEXT_UNIT, totals in 1
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


class StoredRow(NamedTuple):
    """An EvidenceRow as stored: the parts as JSON, the context packed (`shoal.storage.packed_contexts`)."""

    kind: int
    word: str
    n_occurrences: int
    n_short: int
    n_documents: int
    n_chunks: int
    parts: str
    context: bytes


class LearnedReef(NamedTuple):
    """An association with a reef.

    bm25_q       in lagoon's units
    strength     0..1, of the word's strongest
    probability  0..1: expected agreement with a dictionary, given the evidence; its square is the support
                 that labels use, since the dictionary's associations are not all apt either
    """

    reef_id: int
    bm25_q: int
    strength: float
    probability: float


@dataclass(frozen=True, slots=True)
class LearnedWord:
    """A word or compound in lagoon's units: idf_q in 1/51, weight_q in 1/4096. `reefs` are strongest
    first."""

    word: str
    is_compound: bool
    specificity: int
    idf_q: int
    weight_q: int
    n_occurrences: int
    n_documents: int
    reefs: tuple[LearnedReef, ...]
