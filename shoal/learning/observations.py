"""What one document says of the words the vocabulary lacks, and of its own average: rows of whole numbers.

A pure function of the document, lagoon's data and the settings named in `DiscoveryOptions`. Rows of many
documents add up to running sums (`evidence`), and taking a document's rows away leaves what would be there
without it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.observing import ObservedText
from shoal.chunking import AnalysedDraft
from shoal.learning.candidates import candidate_words
from shoal.learning.compounds import repeated_sequences
from shoal.learning.contexts import (
    CONTEXT_SCALE,
    BlendOptions,
    chunk_profiles,
    contexts,
    sentence_profiles,
    strongest,
    sum_of_contexts,
)
from shoal.learning.headings import words_of_headings
from shoal.settings import Settings

DISCOVERY_VERSION = 1
"""Grows whenever the same document would give other rows: then nothing old may be added to them or withdrawn."""

CONTEXT_UNIT = 64
"""Sums of contexts over a document are stored in 1/64: two digits for most entries of a word that occurs once."""

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


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


@dataclass(frozen=True)
class DiscoveryOptions:
    """What observations depend on, besides the settings of chunking.

    short_document_words   documents with fewer words, stop words included, are short
    reefs_per_observation  strongest reefs of a word's context that are kept of a document
    """

    blend: BlendOptions
    short_document_words: int
    reefs_per_observation: int

    @staticmethod
    def of(settings: Settings) -> DiscoveryOptions:
        return DiscoveryOptions(
            BlendOptions(settings.context_confidence, settings.context_sentence_weight),
            settings.short_document_words,
            settings.reefs_per_observation,
        )


def discover(analysed: AnalysedDraft, settings: Settings) -> list[EvidenceRow]:
    """The rows of one document, in the order of (kind, word). `analysed` by a scorer without learned words."""
    return observations(analysed.analysis.observed, DiscoveryOptions.of(settings))


def observations(text: ObservedText, options: DiscoveryOptions) -> list[EvidenceRow]:
    """As `discover`, of any text that lagoon has analysed."""
    terms = _terms(text)
    words_of = np.bincount(text.sentence_of[text.is_word], minlength=len(text.sentences))
    is_short = int((~text.is_number).sum()) < options.short_document_words
    sums, total = _contexts(text, terms, words_of, options)
    rows = [_totals(words_of, total, is_short, len(text.segments))]
    chosen = strongest(sums, options.reefs_per_observation)
    of_row, reefs = np.nonzero(chosen)
    borders = np.searchsorted(of_row, np.arange(len(terms.words) + 1)).tolist()
    reef_ids, values = reefs.tolist(), sums[of_row, reefs].astype(np.int64).tolist()
    n_occurrences = np.diff(terms.borders).tolist()
    n_chunks = _chunks_of(text, terms).tolist()
    for index, (kind, word, parts) in enumerate(terms.words):
        span = slice(borders[index], borders[index + 1])
        n = n_occurrences[index]
        rows.append(
            EvidenceRow(
                kind,
                word,
                n,
                n if is_short else 0,
                1,
                n_chunks[index],
                parts,
                tuple(reef_ids[span]),
                tuple(values[span]),
            )
        )
    return rows


@dataclass(frozen=True)
class _Terms:
    """Candidates of a document, in the order of (kind, word). Term i occurs in
    sentences[borders[i]:borders[i+1]], ascending; where `in_heading`, above that sentence."""

    words: list[tuple[int, str, tuple[int, ...]]]
    sentences: Ints
    in_heading: NDArray[np.bool_]
    borders: Ints


def _terms(text: ObservedText) -> _Terms:
    unknown = np.flatnonzero(text.unknown)
    found = candidate_words(text.forms, np.unique(text.form_of[unknown]).tolist())
    # Twice the sentence, and 1 more for an occurrence in it and not above it.
    at: dict[tuple[int, str, tuple[int, ...]], list[Ints]] = {}
    if found:
        by_form = unknown[np.argsort(text.form_of[unknown], kind="stable")]
        borders = np.searchsorted(text.form_of[by_form], np.arange(len(text.forms) + 1)).tolist()
        places = 2 * text.sentence_of + 1
        for form, word in found.items():
            at.setdefault((Kind.word, word, ()), []).append(
                places[by_form[borders[form] : borders[form + 1]]]
            )
        # Where no unknown word is repeated, no sequence with one is.
        if any(len(tokens) > 1 or len(tokens[0]) > 1 for tokens in at.values()):
            is_candidate = np.zeros(len(text.forms), dtype=np.bool_)
            is_candidate[list(found)] = True
            for sequence in repeated_sequences(text, is_candidate):
                term = (Kind.compound, " ".join(sequence.words), tuple(sequence.parts))
                at[term] = [places[sequence.occurrences]]
    for word, sentences in words_of_headings(text, found).items():
        at.setdefault((Kind.word, word, ()), []).append(2 * np.array(sentences, dtype=np.int64))
    words = sorted(at)
    # A word may occur in several forms: "darcy" and "darcy's".
    ordered = [np.sort(np.concatenate(at[word])) if len(at[word]) > 1 else at[word][0] for word in words]
    place = np.concatenate(ordered) if ordered else unknown[:0]
    return _Terms(words, place // 2, place % 2 == 0, np.cumsum([0, *map(len, ordered)]))


def _contexts(
    text: ObservedText, terms: _Terms, words_of: Ints, options: DiscoveryOptions
) -> tuple[Doubles, Doubles]:
    """(terms, reefs) sum of contexts over the occurrences of each term, in 1/CONTEXT_UNIT, and (reefs,) over all
    words, in 1."""
    n_reefs = text.sentences.table.n_reefs
    sums, total = np.zeros((len(terms.words), n_reefs)), np.zeros(n_reefs)
    term_of = np.repeat(np.arange(len(terms.words)), np.diff(terms.borders))
    chunks = chunk_profiles(text)
    for block in sentence_profiles(text, options.blend):
        total += sum_of_contexts(text, chunks, block, words_of[block.first : block.last])
        inside = np.flatnonzero((terms.sentences >= block.first) & (terms.sentences < block.last))
        if inside.size:
            terms_inside = term_of[inside]
            starts = np.flatnonzero(_changes(terms_inside))
            around = contexts(text, chunks, block, terms.sentences[inside], terms.in_heading[inside])
            sums[terms_inside[starts]] += np.add.reduceat(around, starts, axis=0)
    return np.rint(sums / (CONTEXT_SCALE // CONTEXT_UNIT)), np.rint(total / CONTEXT_SCALE)


def _totals(words_of: Ints, total: Doubles, is_short: bool, n_chunks: int) -> EvidenceRow:
    """Every document has this row; with more precision it would be the longest."""
    n_words = int(words_of.sum())
    sums = total.astype(np.int64)
    reefs = np.flatnonzero(sums)
    return EvidenceRow(
        Kind.totals,
        "",
        n_words,
        n_words if is_short else 0,
        1,
        n_chunks,
        (),
        tuple(reefs.tolist()),
        tuple(sums[reefs].tolist()),
    )


def _chunks_of(text: ObservedText, terms: _Terms) -> Ints:
    """Chunks that hold each term."""
    if not len(terms.words):
        return terms.borders[:0]
    chunk_of = text.segment_of[terms.sentences]
    new = _changes(chunk_of)
    new[terms.borders[:-1]] = True
    return np.add.reduceat(new.astype(np.int64), terms.borders[:-1])


def _changes(values: Ints) -> NDArray[np.bool_]:
    """Where a value differs from the one before; true for the first."""
    changed = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed
