"""Observations: the evidence of one document about unknown words, and its average context, in whole numbers.

A pure function of the document, lagoon's data and the settings in `DiscoveryOptions`. Observations of many
documents add up to evidence (`evidence`). Subtracting those of a document gives the evidence of the other
documents exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon import TextsAnalysis
from lagoon.analysis import ObservedText
from shoal.chunking.analysis import AnalyzedDocument
from shoal.learning.candidates import candidate_words
from shoal.learning.compounds import repeated_sequences
from shoal.learning.contexts import (
    BLOCK_SENTENCES,
    CONTEXT_SCALE,
    BlendOptions,
    add_contexts,
    chunk_profiles,
    contexts,
    sentence_profiles,
    strongest,
)
from shoal.learning.headings import words_of_headings
from shoal.settings import Settings
from shoal.storage.vocabulary_records import EvidenceRow, Kind

DISCOVERY_VERSION = 2
"""Increases whenever the same document would give other rows; rows of different versions must not be
mixed."""

CONTEXT_UNIT = 64
"""Sums of contexts over a document are stored in 1/64: two digits for most entries of a word that occurs
once."""

TYPICAL_OCCURRENCES = 120
"""A word with so many occurrences in a document is compared with the document for one half."""
# Rarer words are not compared with the document: it would change little, and needs their sums in memory.
_LEAST_COMPARED = 10

# Contexts in memory at once: 207 float64 each.
_MOST_AT_ONCE = 4096

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class DiscoveryOptions:
    """Settings that observations depend on, besides those of chunking.

    short_document_words   documents with fewer words, stop words included, are short
    reefs_per_observation  most reefs stored for a word of a document, the strongest of its context
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


def discover(analyzed: AnalyzedDocument, settings: Settings) -> list[EvidenceRow]:
    """Observations of a draft that was analyzed alone, without learned words, in order of (kind, word)."""
    assert analyzed.analysis is not None, "lagoon has analyzed the draft"
    return observations(analyzed.analysis.observed, DiscoveryOptions.of(settings))[0]


def discover_many(analysis: TextsAnalysis, settings: Settings) -> list[list[EvidenceRow]]:
    """Observations of each of several documents that were analyzed at once."""
    return observations(analysis.observed, DiscoveryOptions.of(settings))


def observations(text: ObservedText, options: DiscoveryOptions) -> list[list[EvidenceRow]]:
    """Observations of each text of an analysis by lagoon."""
    terms = _terms(text)
    words_of = np.bincount(text.sentence_of[text.is_word], minlength=len(text.sentences))
    is_short = _short_texts(text, options)
    entries, totals = _contexts(text, terms, words_of, options)
    rows = [[row] for row in _totals(text, words_of, totals, is_short)]
    borders = np.searchsorted(entries.terms, np.arange(len(terms.words) + 1)).tolist()
    reef_ids, values = entries.reefs.tolist(), entries.sums.tolist()
    n_occurrences = np.diff(terms.borders).tolist()
    n_chunks = _chunks_of(text, terms).tolist()
    for index, (text_index, kind, word, parts) in enumerate(terms.words):
        span = slice(borders[index], borders[index + 1])
        n = n_occurrences[index]
        rows[text_index].append(
            EvidenceRow(
                kind,
                word,
                n,
                n if is_short[text_index] else 0,
                1,
                n_chunks[index],
                parts,
                tuple(reef_ids[span]),
                tuple(values[span]),
            )
        )
    return rows


_Term = tuple[int, int, str, tuple[int, ...]]
"""(text, kind, word, parts)"""


@dataclass(frozen=True)
class _Terms:
    """Candidates of each text, in the order of (text, kind, word).

    Term i occurs in sentences[borders[i]:borders[i+1]], ascending; where `in_heading`, in a heading above
    that sentence.
    """

    words: list[_Term]
    sentences: Ints
    in_heading: NDArray[np.bool_]
    borders: Ints


def _terms(text: ObservedText) -> _Terms:
    unknown = np.flatnonzero(text.unknown)
    candidates = candidate_words(text.forms, np.unique(text.form_of[unknown]).tolist())
    # A place is twice the sentence number, plus 1 for an occurrence in the sentence and not in a heading
    # above it.
    at: dict[_Term, list[Ints]] = {}
    if candidates:
        is_candidate = np.zeros(len(text.forms), dtype=np.bool_)
        is_candidate[list(candidates)] = True
        places = 2 * text.sentence_of + 1
        for text_index, form, tokens in _by_form(text, unknown[is_candidate[text.form_of[unknown]]]):
            at.setdefault((text_index, Kind.word, candidates[form], ()), []).append(places[tokens])
        # A repeated sequence has a repeated unknown word.
        if any(len(tokens) > 1 or len(tokens[0]) > 1 for tokens in at.values()):
            for sequence in repeated_sequences(text, is_candidate):
                term = (sequence.text, Kind.compound, " ".join(sequence.words), tuple(sequence.parts))
                at[term] = [places[sequence.occurrences]]
    for (text_index, word), sentences in words_of_headings(text, candidates).items():
        at.setdefault((text_index, Kind.word, word, ()), []).append(2 * np.array(sentences, dtype=np.int64))
    words = sorted(at)
    # A word may occur in several forms: "darcy" and "darcy's".
    ordered = [np.sort(np.concatenate(at[word])) if len(at[word]) > 1 else at[word][0] for word in words]
    place = np.concatenate(ordered) if ordered else unknown[:0]
    return _Terms(words, place // 2, place % 2 == 0, np.cumsum([0, *map(len, ordered)]))


def _by_form(text: ObservedText, tokens: Ints) -> Iterator[tuple[int, int, Ints]]:
    """Group the tokens by text and form: (text, form, tokens ascending)."""
    keys = text.text_of_sentence[text.sentence_of[tokens]] * len(text.forms) + text.form_of[tokens]
    order = np.argsort(keys, kind="stable")
    keys, ordered = keys[order], tokens[order]
    firsts = np.flatnonzero(_changes(keys))
    borders = [*firsts.tolist(), len(keys)]
    for key, first, last in zip(keys[firsts].tolist(), borders[:-1], borders[1:], strict=True):
        yield *divmod(key, len(text.forms)), ordered[first:last]


class _Entries(NamedTuple):
    """The strongest reefs of terms: index of the term, ascending; reef; sum of contexts over the occurrences
    of the term, in 1/CONTEXT_UNIT."""

    terms: Ints
    reefs: Ints
    sums: Ints

    @staticmethod
    def of(terms: Ints, sums: Doubles, options: DiscoveryOptions) -> _Entries:
        """Take the strongest entries of each row of `sums`, (len(terms), reefs) in 1/CONTEXT_SCALE."""
        rounded = np.rint(sums / (CONTEXT_SCALE // CONTEXT_UNIT))
        of_row, reefs = np.nonzero(strongest(rounded, options.reefs_per_observation))
        return _Entries(terms[of_row], reefs, rounded[of_row, reefs].astype(np.int64))


def _contexts(
    text: ObservedText, terms: _Terms, words_of: Ints, options: DiscoveryOptions
) -> tuple[_Entries, Doubles]:
    """Contexts of all terms, and the sum of contexts over all words, (texts, reefs) in units of 1.

    Only terms that are frequent or occur in several blocks of sentences need sums in memory: most terms of a
    long text occur once.
    """
    n_reefs = text.sentences.table.n_reefs
    totals = np.zeros((text.n_texts, n_reefs))
    chunks = chunk_profiles(text)
    at = _distinct_places(terms)
    by_sentence = np.argsort(at.sentences, kind="stable")
    ordered = at.sentences[by_sentence]
    first, last = terms.sentences[terms.borders[:-1]], terms.sentences[terms.borders[1:] - 1]
    n_occurrences = np.diff(terms.borders)
    is_frequent = n_occurrences >= _LEAST_COMPARED
    is_spread = (first // BLOCK_SENTENCES != last // BLOCK_SENTENCES) | is_frequent
    spread_terms = np.flatnonzero(is_spread)
    sums = np.zeros((len(spread_terms), n_reefs))
    entries_of_blocks: list[_Entries] = []
    for block in sentence_profiles(text, options.blend):
        add_contexts(totals, text, chunks, block, words_of[block.first : block.last])
        begin, end = np.searchsorted(ordered, (block.first, block.last)).tolist()
        for run in _runs(np.sort(by_sentence[begin:end]), at.terms):
            starts = np.flatnonzero(_changes(at.terms[run]))
            run_contexts = contexts(text, chunks, block, at.sentences[run], at.in_heading[run])
            run_contexts *= at.n_occurrences[run][:, None]
            added = np.add.reduceat(run_contexts, starts, axis=0)
            run_terms = at.terms[run[starts]]
            continues = is_spread[run_terms]
            sums[np.searchsorted(spread_terms, run_terms[continues])] += added[continues]
            entries_of_blocks.append(_Entries.of(run_terms[~continues], added[~continues], options))
    frequent = is_frequent[spread_terms]
    text_of = [terms.words[term][0] for term in spread_terms[frequent].tolist()]
    subjects = _subjects(totals, _by_text(text, words_of))[text_of]
    sums[frequent] = _compared(sums[frequent], subjects, n_occurrences[spread_terms[frequent]])
    entries_of_blocks += [
        _Entries.of(spread_terms[at : at + _MOST_AT_ONCE], sums[at : at + _MOST_AT_ONCE], options)
        for at in range(0, len(spread_terms), _MOST_AT_ONCE)
    ]
    if not entries_of_blocks:
        return _Entries(spread_terms, spread_terms, spread_terms), np.rint(totals / CONTEXT_SCALE)
    entries = _Entries(*map(np.concatenate, zip(*entries_of_blocks, strict=True)))
    order = np.argsort(entries.terms, kind="stable")
    return _Entries(*(column[order] for column in entries)), np.rint(totals / CONTEXT_SCALE)


def document_share(n_occurrences: Doubles | Ints) -> Doubles:
    """Share of a document's subjects that is taken off the contexts of words, by their occurrences in it."""
    share: Doubles = n_occurrences / (n_occurrences + TYPICAL_OCCURRENCES)
    return share


def _subjects(totals: Doubles, n_words: Sequence[int]) -> Doubles:
    """Average context of each text where it is above its mean over all reefs, (texts, reefs); otherwise 0."""
    # The entries are whole numbers, so their sum is exact.
    uniform = totals.sum(axis=1, keepdims=True) / totals.shape[1]
    above: Doubles = np.maximum(totals - uniform, 0.0) / np.maximum(n_words, 1)[:, None]
    return above


def _compared(sums: Doubles, subjects: Doubles, n_occurrences: Ints) -> Doubles:
    """Sums of contexts without a share of the subjects of their text, which grows with the occurrences.

    Otherwise a character of a novel, who occurs in all its scenes, would inherit the subjects of the book.
    """
    removed = n_occurrences * document_share(n_occurrences)
    rest: Doubles = np.maximum(sums - removed[:, None] * subjects, 0.0)
    return rest


class _Places(NamedTuple):
    """Places of terms, one for each sentence or headings above it with the term; terms and sentences
    ascending."""

    terms: Ints
    sentences: Ints
    in_heading: NDArray[np.bool_]
    n_occurrences: Ints


def _distinct_places(terms: _Terms) -> _Places:
    """Distinct places of the terms. A sentence of 2,000 characters may have a term hundreds of times."""
    term_of = np.repeat(np.arange(len(terms.words)), np.diff(terms.borders))
    firsts = np.flatnonzero(_changes(term_of) | _changes(terms.sentences) | _changes(terms.in_heading))
    n_occurrences = np.diff(firsts, append=len(term_of))
    return _Places(term_of[firsts], terms.sentences[firsts], terms.in_heading[firsts], n_occurrences)


def _runs(places: Ints, term_of: Ints) -> Iterator[Ints]:
    """Split the places of a block, ascending, into runs of about _MOST_AT_ONCE.

    All places of a term are in the same run: there are at most twice BLOCK_SENTENCES of them.
    """
    starts = np.flatnonzero(_changes(term_of[places]))
    cuts = starts[np.searchsorted(starts, np.arange(0, len(places), _MOST_AT_ONCE), side="right") - 1]
    yield from np.split(places, np.unique(cuts)[1:]) if len(places) else ()


def _short_texts(text: ObservedText, options: DiscoveryOptions) -> list[bool]:
    """Whether each text is short."""
    text_of = text.text_of_sentence[text.sentence_of[~text.is_number]]
    is_short = np.bincount(text_of, minlength=text.n_texts) < options.short_document_words
    flags: list[bool] = is_short.tolist()
    return flags


def _totals(
    text: ObservedText, words_of: Ints, totals: Doubles, is_short: Sequence[bool]
) -> Iterator[EvidenceRow]:
    """Row of totals of each text. Its sums are rounded to units of 1 to keep it short: every document has
    one."""
    n_words = _by_text(text, words_of)
    starts_chunk = _changes(text.segment_of)
    n_chunks = _by_text(text, starts_chunk)
    of_row, reefs = np.nonzero(totals)
    borders = np.searchsorted(of_row, np.arange(text.n_texts + 1)).tolist()
    reef_ids, sums = reefs.tolist(), totals[of_row, reefs].astype(np.int64).tolist()
    for text_index, (n, short, chunks) in enumerate(zip(n_words, is_short, n_chunks, strict=True)):
        span = slice(borders[text_index], borders[text_index + 1])
        yield EvidenceRow(
            Kind.totals,
            "",
            n,
            n if short else 0,
            1,
            chunks,
            (),
            tuple(reef_ids[span]),
            tuple(sums[span]),
        )


def _by_text(text: ObservedText, of_sentences: Ints | NDArray[np.bool_]) -> list[int]:
    """Sum the values of the sentences of each text."""
    running = np.zeros(len(of_sentences) + 1, dtype=np.int64)
    np.cumsum(of_sentences, out=running[1:])
    sums: list[int] = np.diff(running[text.first_sentences]).tolist()
    return sums


def _chunks_of(text: ObservedText, terms: _Terms) -> Ints:
    """Number of chunks with each term."""
    if not len(terms.words):
        return terms.borders[:0]
    chunk_of = text.segment_of[terms.sentences]
    new = _changes(chunk_of)
    new[terms.borders[:-1]] = True
    return np.add.reduceat(new.astype(np.int64), terms.borders[:-1])


def _changes(values: Ints | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of values that differ from the one before; true for the first."""
    changed = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed
