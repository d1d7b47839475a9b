"""Learned words: chosen from evidence with their reefs, compared with the current vocabulary, added to a
scorer.

The choice depends on the evidence and the settings only. If the corpus has a regular plural and its singular,
the plural is evidence for the singular ("biomarkers" for "biomarker"), and lagoon then recognizes both. A
plural without a singular ("jones") is a word of its own. The same applies to the last word of compounds.

The reefs of a word follow from its mean context, compared with the average context of all words of the
corpus, because a reef that is common everywhere says nothing about a word. The excess is measured in square
roots of that average, which estimate the standard deviation up to a factor (the deviation itself ranks the
same and would need another sum for each document and reef). A word keeps the reefs above an absolute and a
relative bound, up to `max_reefs`; with more, it would match nearly every topic.

A word that the library writes with a capital letter nearly everywhere is a name. A name keeps its reefs for
ranking, with probability 0: they are no subject, no label and no reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon import WordInfo
from lagoon.bm25 import WEIGHT_SCALE, quantise_weights, specificity_of
from lagoon.compounds import fnv1a64_many
from lagoon.model import SUPPORT_STEPS
from lagoon.tokens import plurals, singular
from shoal.chunking.analysis import AnalyzedDocument
from shoal.learning.candidates import cohesion
from shoal.learning.evidence import Evidence
from shoal.learning.observations import CONTEXT_UNIT, document_share
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.vocabulary import Kind, LearnedReef, LearnedWord

Doubles = NDArray[np.float64]


Ints = NDArray[np.int64]


class VocabularyChanges(NamedTuple):
    """Changes of the vocabulary: rows to add and words to retire, both in the order of words."""

    learned: tuple[LearnedWord, ...]
    retired: tuple[str, ...]


def related_words(words: Iterable[str]) -> set[str]:
    """Singulars and plurals of `words`, which may share evidence with them; without `words` themselves."""
    given = set(words)
    heads = set(given)
    for _ in range(_MOST_STEPS):
        heads |= {head for word in heads if (head := _singular(word)) is not None}
    return (heads | {plural for word in heads for plural in _plurals(word)}) - given


def learn(
    evidence: Evidence, words: Collection[str], scorer: Scorer, settings: Settings
) -> tuple[LearnedWord, ...]:
    """Choose the words to learn among `words`; in the order of words.

    `evidence` has the totals and the existing rows of `words` and of `related_words(words)`. `scorer`:
    lagoon's, without learned words; it converts associations into its own units."""
    sums = _by_head(evidence)
    candidates = set(words)
    indices = np.array(
        [i for i, (kind, word) in enumerate(sums.keys) if kind != Kind.totals and word in candidates],
        dtype=np.int64,
    )
    indices = indices[_qualify(sums, indices, settings)]
    n_chunks = int(sums.counts[0, 3]) if sums.keys and sums.keys[0][0] == Kind.totals else 0
    options = AssociationOptions(
        settings.association_min, settings.association_relative, settings.association_max_reefs
    )
    associations = associate(sums, indices, average_context(sums, scorer.n_reefs), options)
    idf_q, bm25_q = scorer.compute_custom_rows(
        associations.lengths, associations.reefs, associations.strengths
    )
    weight_q = quantise_weights(scorer.corpus_rarity(sums.counts[indices, 3], n_chunks))
    # By the form itself: "dans" is no evidence that "Dan" is written in small letters.
    own = {key: place for place, key in enumerate(evidence.keys)}
    is_name = _are_names(evidence.counts[[own[sums.keys[index]] for index in indices.tolist()]])
    probabilities = np.where(np.repeat(is_name, associations.lengths), 0.0, associations.probabilities)
    columns = (
        idf_q.tolist(),
        weight_q.tolist(),
        associations.lengths.tolist(),
        np.cumsum(associations.lengths).tolist(),
    )
    entries = list(
        map(
            LearnedReef,
            associations.reefs.tolist(),
            bm25_q.tolist(),
            associations.strengths.tolist(),
            probabilities.tolist(),
        )
    )
    learned = []
    for index, idf, weight, length, last in zip(indices.tolist(), *columns, strict=True):
        if length:
            kind, word = sums.keys[index]
            n_occurrences, _, n_documents, *_ = sums.counts[index].tolist()
            reefs = tuple(entries[last - length : last])
            learned.append(
                LearnedWord(
                    word,
                    kind == Kind.compound,
                    specificity_of(length),
                    idf,
                    weight,
                    n_occurrences,
                    n_documents,
                    reefs,
                )
            )
    return tuple(sorted(learned, key=lambda item: item.word))


def changes(
    in_force: Mapping[str, LearnedWord], words: Iterable[str], learned: Iterable[LearnedWord]
) -> VocabularyChanges:
    """Compare the current vocabulary with `learned`, the words chosen among `words`."""
    learned_now = {item.word: item for item in learned}
    return VocabularyChanges(
        tuple(item for word, item in sorted(learned_now.items()) if in_force.get(word) != item),
        tuple(sorted(word for word in set(words) if word in in_force and word not in learned_now)),
    )


def with_vocabulary(scorer: Scorer, words: Iterable[tuple[int, LearnedWord]]) -> Any:
    """A scorer with exactly these learned words (word id, word). It shares the tables of `scorer`, which is
    unchanged."""
    given = list(words)
    hashes = fnv1a64_many([word.word for _, word in given]).tolist()
    reefs_of = [sorted(word.reefs, key=lambda reef: (-reef.bm25_q, reef.reef_id)) for _, word in given]
    return scorer.with_custom_words(
        WordInfo(
            word=word.word,
            word_id=word_id,
            word_hash=word_hash,
            specificity=word.specificity,
            idf_q=word.idf_q,
            weight=word.weight_q / WEIGHT_SCALE,
            is_compound=word.is_compound,
            is_custom=True,
            reefs=[(reef.reef_id, reef.bm25_q) for reef in reefs],
            support=[round(SUPPORT_STEPS * reef.probability**2) for reef in reefs],
        )
        for (word_id, word), word_hash, reefs in zip(given, hashes, reefs_of, strict=True)
    )


def may_contain_learned_words(analyzed: AnalyzedDocument, scorer: Scorer) -> bool:
    """Whether a draft, analyzed without learned words, may contain learned words of `scorer`; may be a false
    positive."""
    if not scorer.n_custom_words:
        return False
    if analyzed.analysis is None:
        return True
    return scorer.matches_custom_words(analyzed.analysis.tokens) or any(
        scorer.contains_custom_words(context) for context in set(analyzed.contexts)
    )


# "xses" -> "xs" -> "x"; English has no longer chains.
_MOST_STEPS = 2


def _singular(word: str) -> str | None:
    if not word.endswith("s"):
        return None
    before, space, last = word.rpartition(" ")
    head = singular(last)
    return None if head is None else before + space + head


def _plurals(word: str) -> list[str]:
    before, space, last = word.rpartition(" ")
    return [before + space + plural for plural in plurals(last)]


def _by_head(evidence: Evidence) -> Evidence:
    """Add the rows of plurals to those of their singulars, if the evidence has these."""
    keys = set(evidence.keys)
    head_of = {}
    for kind, word in evidence.keys:
        head = word
        while (shorter := _singular(head)) is not None and (kind, shorter) in keys:
            head = shorter
        if head != word:
            head_of[kind, word] = head
    return evidence.renamed(head_of) if head_of else evidence


def _qualify(sums: Evidence, indices: Ints, settings: Settings) -> NDArray[np.bool_]:
    """Mask of the rows with enough evidence to be learned."""
    n, n_short = sums.counts[indices, 0], sums.counts[indices, 1]
    # Enough are min_occurrences_short in short documents, min_occurrences_long in long ones, or half of each.
    enough = settings.min_occurrences_short * settings.min_occurrences_long
    counted = n_short * settings.min_occurrences_long + (n - n_short) * settings.min_occurrences_short
    is_compound = np.array(
        [sums.keys[index][0] == Kind.compound for index in indices.tolist()], dtype=np.bool_
    )
    together = cohesion(n, sums.parts[indices]) >= settings.compound_min_cohesion
    often = n >= settings.compound_min_occurrences
    chosen: NDArray[np.bool_] = np.where(is_compound, together & often, counted >= enough)
    return chosen


MOST_LOWER_SHARE = 0.1
"""Of the occurrences of a name, in lower case; the bound of `lagoon.build.senses`."""


def _are_names(counts: Ints) -> NDArray[np.bool_]:
    """Mask of the words that are names, by the counts of `Evidence`."""
    n_occurrences, n_lower = counts[:, 0], counts[:, 4]
    names: NDArray[np.bool_] = n_lower <= MOST_LOWER_SHARE * n_occurrences
    return names


# The average of a small corpus is that of its few topics, and no word would exceed it. So the average
# includes this many words of imaginary text that is about all reefs alike.
PRIOR_WORDS = 2000.0

# Strengths and probabilities are stored and compared with this many digits.
STRENGTH_DIGITS = 4
PROBABILITY_DIGITS = 3

# Logistic regression on words of the dictionary that were hidden and learned again
# (`benchmarks/masked_words.py`): of the excess, occurrences, rank and strength of an association.
INTERCEPT, EXCESS, OCCURRENCES, RANK, STRENGTH = -1.906, 1.105, 0.443, -0.203, 0.425

# Words whose contexts are expanded to dense arrays at a time.
_BLOCK = 8192


@dataclass(frozen=True)
class AssociationOptions:
    """Bounds for the reefs of a word.

    minimum    least excess over the average, in square roots of the average
    relative   least share of the word's largest excess
    max_reefs  most reefs of a word
    """

    minimum: float
    relative: float
    max_reefs: int


@dataclass(frozen=True)
class Associations:
    """Reefs of several words.

    lengths           (words,): number of reefs of each word, 0 if none exceeds the bounds
    reefs, strengths  (entries,): word after word, strongest first; the strongest has strength 1
    probabilities     (entries,): expected agreement with a dictionary, 0..1
    """

    lengths: Ints
    reefs: Ints
    strengths: Doubles
    probabilities: Doubles


def average_context(evidence: Evidence, n_reefs: int) -> Doubles:
    """Average context of all words, (n_reefs,); above 0."""
    total, n_words = np.zeros(n_reefs), 0.0
    if evidence.keys and evidence.keys[0][0] == Kind.totals:
        total = evidence.dense(np.array([0]), n_reefs)[0]
        n_words = float(evidence.counts[0, 0])
    # The entries are whole numbers, so their sum is exact.
    uniform = total.sum() / (n_words * n_reefs) if total.any() else 1.0
    return (total + PRIOR_WORDS * uniform) / (n_words + PRIOR_WORDS)


def associate(sums: Evidence, indices: Ints, average: Doubles, options: AssociationOptions) -> Associations:
    """Find the reefs of the words in rows `indices`."""
    blocks = [
        _strongest(sums, indices[first : first + _BLOCK], average, options)
        for first in range(0, len(indices), _BLOCK)
    ]
    if not blocks:
        empty = np.empty(0, dtype=np.int64)
        return Associations(empty, empty, np.empty(0), np.empty(0))
    return Associations(
        np.concatenate([block.lengths for block in blocks]),
        np.concatenate([block.reefs for block in blocks]),
        np.concatenate([block.strengths for block in blocks]),
        np.concatenate([block.probabilities for block in blocks]),
    )


def _strongest(sums: Evidence, indices: Ints, average: Doubles, options: AssociationOptions) -> Associations:
    n = sums.counts[indices, 0]
    mean = sums.dense(indices, len(average)) / (n * float(CONTEXT_UNIT))[:, None]
    excess = (mean - average) / np.sqrt(average)
    largest = excess.max(axis=1)
    order = np.argsort(-excess, axis=1, kind="stable")[:, : options.max_reefs]
    leading = np.take_along_axis(excess, order, axis=1)
    # Without its document's share, less of a context is left to exceed the average.
    minimum = options.minimum * (1.0 - document_share(n / sums.counts[indices, 2]))
    bound = np.maximum(minimum, options.relative * largest)
    is_kept = (leading >= bound[:, None]) & (leading > 0)
    strengths = np.round(leading / np.where(largest > 0, largest, 1.0)[:, None], STRENGTH_DIGITS)
    chances = _agreement(leading, n[:, None], strengths)
    return Associations(is_kept.sum(axis=1), order[is_kept], strengths[is_kept], chances[is_kept])


def _agreement(excess: Doubles, n_occurrences: Ints, strengths: Doubles) -> Doubles:
    """Probability that a dictionary would give a word each of its reefs, (words, reefs), strongest first."""
    rank = np.arange(excess.shape[1])
    logit = (
        INTERCEPT
        + EXCESS * np.log(np.maximum(excess, 1e-9))
        + OCCURRENCES * np.log(n_occurrences)
        + RANK * np.log1p(rank)
        + STRENGTH * strengths
    )
    chances: Doubles = np.round(1.0 / (1.0 + np.exp(-logit)), PROBABILITY_DIGITS)
    return chances
