"""Learned words: chosen from evidence, compared with the current vocabulary, added to a scorer.

The choice depends on the evidence and the settings only. If the corpus has a regular plural and its singular,
the plural is evidence for the singular ("biomarkers" for "biomarker"), and lagoon then recognizes both. A
plural without a singular ("jones") is a word of its own. The same applies to the last word of compounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon import WordInfo
from lagoon.bm25 import WEIGHT_SCALE, quantise_weights, specificity_of
from lagoon.keys import fnv1a64_many
from lagoon.model import SUPPORT_STEPS
from lagoon.tokens import plurals, singular
from shoal.chunking.analysis import AnalyzedDocument
from shoal.learning.associations import AssociationOptions, associate, average_context
from shoal.learning.compounds import cohesion
from shoal.learning.evidence import Evidence
from shoal.scorer import LearningScorer
from shoal.settings import Settings
from shoal.storage.vocabulary_records import Kind, LearnedReef, LearnedWord

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
    evidence: Evidence, words: Collection[str], scorer: LearningScorer, settings: Settings
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
            associations.probabilities.tolist(),
        )
    )
    learned = []
    for index, idf, weight, length, last in zip(indices.tolist(), *columns, strict=True):
        if length:
            kind, word = sums.keys[index]
            n_occurrences, _, n_documents, _ = sums.counts[index].tolist()
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


def with_vocabulary(scorer: LearningScorer, words: Iterable[tuple[int, LearnedWord]]) -> Any:
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


def may_contain_learned_words(analyzed: AnalyzedDocument, scorer: LearningScorer) -> bool:
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
