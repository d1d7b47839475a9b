"""Observations: the evidence of one document about unknown words, and its average context, in whole numbers.

A pure function of the document, lagoon's data and the settings in `DiscoveryOptions`. Observations of many
documents add up to evidence (`evidence`). Subtracting those of a document gives the evidence of the other
documents exactly.

The context of an occurrence blends the profile of its sentence with that of its chunk. Profiles have unit
length: z-scores above 0 over their Euclidean norm. A confident sentence, whose strongest reef leads clearly,
has the larger share; otherwise the chunk has (specification, section 3). Profiles and shares are rounded
before they are added, so that sums are exact and do not depend on their order. A word of a title or heading
counts as one occurrence above the first sentence of its section.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon import TextsAnalysis
from lagoon.analysis import ObservedText
from shoal.chunking.analysis import AnalyzedDocument
from shoal.learning.candidates import candidate_words, repeated_sequences
from shoal.settings import Settings
from shoal.storage.vocabulary import EvidenceRow, Kind

DISCOVERY_VERSION = 3
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
    n_lower = _per_term(terms.in_lower_case, terms).tolist()
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
                n_lower[index],
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
    that sentence. Where `in_lower_case`, in the text and without a capital letter.
    """

    words: list[_Term]
    sentences: Ints
    in_heading: NDArray[np.bool_]
    in_lower_case: NDArray[np.bool_]
    borders: Ints


def _terms(text: ObservedText) -> _Terms:
    unknown = np.flatnonzero(text.unknown)
    candidates = candidate_words(text.forms, np.unique(text.form_of[unknown]).tolist())
    # A place is four times the sentence number, plus 2 for an occurrence in the sentence and not in a heading
    # above it, plus 1 for one in lower case.
    at: dict[_Term, list[Ints]] = {}
    if candidates:
        is_candidate = np.zeros(len(text.forms), dtype=np.bool_)
        is_candidate[list(candidates)] = True
        places = 4 * text.sentence_of + 2 + ~text.capital
        for text_index, form, tokens in _by_form(text, unknown[is_candidate[text.form_of[unknown]]]):
            at.setdefault((text_index, Kind.word, candidates[form], ()), []).append(places[tokens])
        # A repeated sequence has a repeated unknown word.
        if any(len(tokens) > 1 or len(tokens[0]) > 1 for tokens in at.values()):
            for sequence in repeated_sequences(text, is_candidate):
                term = (sequence.text, Kind.compound, " ".join(sequence.words), tuple(sequence.parts))
                at[term] = [places[sequence.occurrences + len(sequence.words) - 1]]
    for (text_index, word), sentences in words_of_headings(text, candidates).items():
        at.setdefault((text_index, Kind.word, word, ()), []).append(4 * np.array(sentences, dtype=np.int64))
    words = sorted(at)
    # A word may occur in several forms: "darcy" and "darcy's".
    ordered = [np.sort(np.concatenate(at[word])) if len(at[word]) > 1 else at[word][0] for word in words]
    place = np.concatenate(ordered) if ordered else unknown[:0]
    borders = np.cumsum([0, *map(len, ordered)])
    return _Terms(words, place // 4, place % 4 == 0, place % 2 == 1, borders)


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
            0,
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
    new = _changes(text.segment_of[terms.sentences])
    new[terms.borders[:-1]] = True
    return _per_term(new, terms)


def _per_term(occurrences: NDArray[np.bool_], terms: _Terms) -> Ints:
    """Number of marked occurrences of each term."""
    if not len(terms.words):
        return terms.borders[:0]
    return np.add.reduceat(occurrences.astype(np.int64), terms.borders[:-1])


def _changes(values: Ints | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of values that differ from the one before; true for the first."""
    changed = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


PROFILE_SCALE = 256
"""Unit profiles are rounded to 1/256, a twentieth of a typical entry; benchmarks/vocabulary_learning.py gives
the same ranking with 1/1000."""
SHARE_SCALE = 64
"""Shares of sentence and chunk are rounded to 1/64."""
CONTEXT_SCALE = PROFILE_SCALE * SHARE_SCALE

# z-scores are rounded to 1/64 for their norm: their squares add up to the same whole number in any order.
_Z_SCALE = 64.0
BLOCK_SENTENCES = 1024
"""Sentences whose profiles are in memory at once: 207 float64 each, a few MB with their derived arrays."""


@dataclass(frozen=True)
class BlendOptions:
    """Blend of the profiles of sentence and chunk.

    confidence       least lead of a confident sentence: z of its strongest reef minus z of the second
    sentence_weight  share of a confident sentence; the share of any other sentence is 1 minus this
    """

    confidence: float
    sentence_weight: float


@dataclass(frozen=True)
class Block:
    """Sentences first..last-1: their profiles (sentences, reefs) in 1/PROFILE_SCALE and their shares
    (sentences,) in 1/SHARE_SCALE; whole numbers as float64."""

    first: int
    last: int
    profiles: Doubles
    shares: Doubles


def chunk_profiles(text: ObservedText) -> Doubles:
    """(chunks, reefs) unit profiles in 1/PROFILE_SCALE."""
    return _unit_profiles(text.segments.raw_z(0, len(text.segments)))[0]


def sentence_profiles(text: ObservedText, options: BlendOptions) -> Iterator[Block]:
    """Profiles and shares of all sentences."""
    share = round(options.sentence_weight * SHARE_SCALE)
    n = len(text.sentences)
    for first in range(0, n, BLOCK_SENTENCES):
        last = min(first + BLOCK_SENTENCES, n)
        profiles, lead = _unit_profiles(text.sentences.raw_z(first, last))
        shares = np.where(lead >= options.confidence, float(share), float(SHARE_SCALE - share))
        yield Block(first, last, profiles, shares)


def contexts(
    text: ObservedText, chunks: Doubles, block: Block, sentences: Ints, above: NDArray[np.bool_]
) -> Doubles:
    """Contexts of `sentences` of a block, (len(sentences), reefs) in 1/CONTEXT_SCALE.

    Where `above`, the context of a heading above the sentence: the profile of the chunk that begins there.
    """
    at = sentences - block.first
    shares = np.where(above, 0.0, block.shares[at])[:, None]
    blended: Doubles = shares * block.profiles[at]
    blended += (SHARE_SCALE - shares) * chunks[text.segment_of[sentences]]
    return blended


def add_contexts(totals: Doubles, text: ObservedText, chunks: Doubles, block: Block, times: Ints) -> None:
    """Add the contexts of the block's sentences, each multiplied by its `times` (sentences,), to `totals`
    (texts, reefs) in 1/CONTEXT_SCALE."""
    segment_of = text.segment_of[block.first : block.last]
    in_block = slice(int(segment_of[0]), int(segment_of[-1]) + 1)
    weights = np.bincount(segment_of - in_block.start, times * (SHARE_SCALE - block.shares))
    text_of = text.text_of_sentence[block.first : block.last]
    if text_of[0] == text_of[-1]:
        totals[text_of[0]] += (times * block.shares) @ block.profiles + weights @ chunks[in_block]
        return
    texts, first_sentences = np.unique(text_of, return_index=True)
    first_segments = segment_of[first_sentences] - in_block.start
    for weighted, profiles, firsts in (
        (times * block.shares, block.profiles, first_sentences),
        (weights, chunks[in_block], first_segments),
    ):
        totals[texts] += np.add.reduceat(weighted[:, None] * profiles, firsts, axis=0)


def strongest(sums: Doubles, keep: int) -> NDArray[np.bool_]:
    """Mask of the `keep` largest positive entries of each row; ties go to the lower column."""
    n_columns = sums.shape[1]
    if keep >= n_columns:
        return sums > 0
    # Make entries distinct in the wanted order: exact while sums stay below 2**53 / columns.
    ranked = sums * n_columns + np.arange(n_columns - 1, -1, -1)
    bound = np.partition(ranked, -keep, axis=1)[:, -keep, None]
    chosen: NDArray[np.bool_] = (ranked >= bound) & (sums > 0)
    return chosen


def _unit_profiles(z: Doubles) -> tuple[Doubles, Doubles]:
    """Positive parts of the rows over their norm, in 1/PROFILE_SCALE, and the lead of each row's largest z.

    Rows without a positive entry stay 0.
    """
    scaled = np.maximum(z, 0.0)
    scaled *= _Z_SCALE
    np.rint(scaled, out=scaled)
    squares = np.einsum("ij,ij->i", scaled, scaled)
    lead = _lead(scaled) / _Z_SCALE
    scaled *= (PROFILE_SCALE / np.sqrt(np.where(squares > 0, squares, 1.0)))[:, None]
    np.rint(scaled, out=scaled)
    return scaled, lead


def _lead(scaled: Doubles) -> Doubles:
    """Largest minus second entry of each row."""
    if not scaled.size:
        return np.zeros(len(scaled))
    rows = np.arange(len(scaled))
    at = scaled.argmax(axis=1)
    first: Doubles = scaled[rows, at]
    scaled[rows, at] = 0.0
    second = scaled.max(axis=1)
    scaled[rows, at] = first
    return np.asarray(first - second)


def words_of_headings(
    text: ObservedText, candidate_of_form: Mapping[int, str]
) -> dict[tuple[int, str], list[int]]:
    """First sentences of the sections whose heading has a candidate word, ascending, by (text, word).

    The context of a section is the title and all headings above it. A word counts where it is new: the
    context of the section before does not have it. It does not count if the first sentence has it too,
    because the title may have been taken from that sentence. `candidate_of_form`: candidates of the text by
    form.
    """
    contexts = text.contexts
    if contexts is None or not contexts.unknown.any():
        return {}
    tokens = contexts.reading.tokens
    unknown = np.flatnonzero(contexts.unknown)
    section_of = np.searchsorted(contexts.bounds, unknown, side="right") - 1
    candidates = candidate_words(tokens.forms, np.unique(tokens.ids[unknown]).tolist())
    by_section: dict[int, set[str]] = {}
    for section, form in zip(section_of.tolist(), tokens.ids[unknown].tolist(), strict=True):
        if form in candidates:
            by_section.setdefault(section, set()).add(candidates[form])
    words: dict[tuple[int, str], list[int]] = {}
    for section, section_words in by_section.items():
        sentence = int(contexts.section_starts[section])
        text_index = int(text.text_of_sentence[sentence])
        is_first = sentence == text.first_sentences[text_index]
        new = section_words if is_first else section_words - by_section.get(section - 1, set())
        for word in new - _words_of_sentence(text, sentence, candidate_of_form):
            words.setdefault((text_index, word), []).append(sentence)
    return words


def _words_of_sentence(text: ObservedText, sentence: int, candidate_of_form: Mapping[int, str]) -> set[str]:
    first, last = text.sentences.bounds[sentence : sentence + 2].tolist()
    return {
        candidate_of_form[form] for form in text.form_of[first:last].tolist() if form in candidate_of_form
    }
