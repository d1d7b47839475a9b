"""The words a corpus has taught: decided from running sums, compared with those in force, added to a scorer.

Decisions depend on nothing but the evidence given and the settings. A regular plural that the corpus has beside
its singular is evidence for the singular ("biomarkers" for "biomarker"), which lagoon then knows in both numbers;
a plural without one ("jones") is a word of its own. The same goes for the last word of compounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon import WordInfo
from lagoon.bm25 import WEIGHT_SCALE, quantise_weights, specificity_of
from lagoon.hashing import fnv1a64_many
from lagoon.plurals import plurals, singular
from shoal.chunking.analysis import AnalyzedDraft
from shoal.learning.associations import AssociationOptions, associate, average_context
from shoal.learning.compounds import cohesion
from shoal.learning.evidence import Evidence
from shoal.settings import Settings
from shoal.storage.vocabulary_records import Kind, LearnedReef, LearnedWord

Ints = NDArray[np.int64]


class Changes(NamedTuple):
    """What learning changes in the vocabulary: rows to add, words to retire; both in the order of words."""

    learned: tuple[LearnedWord, ...]
    retired: tuple[str, ...]


def related(words: Iterable[str]) -> set[str]:
    """Words that may share evidence with some of `words`, which are left out: singulars and plurals."""
    given = set(words)
    heads = set(given)
    for _ in range(_MOST_STEPS):
        heads |= {one for word in heads if (one := _singular(word)) is not None}
    return (heads | {many for word in heads for many in _plurals(word)}) - given


def learn(
    evidence: Evidence, words: Collection[str], scorer: Any, settings: Settings
) -> tuple[LearnedWord, ...]:
    """Those of `words` that are learned, in the order of words.

    `evidence` holds the running sums of the totals, of `words` and of `related(words)`, as far as there are any.
    `scorer`: lagoon's, without learned words; it turns associations into its own units.
    """
    sums = _by_head(evidence)
    asked = set(words)
    indices = np.array(
        [i for i, (kind, word) in enumerate(sums.keys) if kind != Kind.totals and word in asked],
        dtype=np.int64,
    )
    indices = indices[_qualify(sums, indices, settings)]
    n_chunks = int(sums.counts[0, 3]) if sums.keys and sums.keys[0][0] == Kind.totals else 0
    options = AssociationOptions(
        settings.association_min, settings.association_relative, settings.association_max_reefs
    )
    found = associate(sums, indices, average_context(sums, scorer.n_reefs), options)
    idf_q, bm25_q = scorer.compute_custom_rows(found.lengths, found.reefs, found.strengths)
    weight_q = quantise_weights(scorer.corpus_rarity(sums.counts[indices, 3], n_chunks))
    columns = (idf_q.tolist(), weight_q.tolist(), found.lengths.tolist(), np.cumsum(found.lengths).tolist())
    entries = list(map(LearnedReef, found.reefs.tolist(), bm25_q.tolist(), found.strengths.tolist()))
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
) -> Changes:
    """What is new against the vocabulary in force, `learned` being decided for `words`."""
    now = {item.word: item for item in learned}
    return Changes(
        tuple(item for word, item in sorted(now.items()) if in_force.get(word) != item),
        tuple(sorted(word for word in set(words) if word in in_force and word not in now)),
    )


def with_vocabulary(scorer: Any, words: Iterable[tuple[int, LearnedWord]]) -> Any:
    """A scorer that has learned exactly these (word id, word); `scorer` stays as it is and shares its tables."""
    given = list(words)
    hashes = fnv1a64_many([word.word for _, word in given]).tolist()
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
            reefs=sorted(
                ((reef.reef_id, reef.bm25_q) for reef in word.reefs), key=lambda pair: (-pair[1], pair[0])
            ),
        )
        for (word_id, word), word_hash in zip(given, hashes, strict=True)
    )


def holds_learned_words(analyzed: AnalyzedDraft, scorer: Any) -> bool:
    """Whether `scorer`, with its learned words, would read a draft differently from the scorer without any that
    analysed it; sometimes true where it would not."""
    if not scorer.n_custom_words:
        return False
    reading = analyzed.analysis.by_sentence.reading
    return scorer.reads_custom_words(reading.tokens) or any(
        scorer.holds_custom_words(context) for context in set(analyzed.contexts)
    )


# "xses" -> "xs" -> "x": spelling could go on, language does not.
_MOST_STEPS = 2


def _singular(word: str) -> str | None:
    before, space, last = word.rpartition(" ")
    one = singular(last)
    return None if one is None else before + space + one


def _plurals(word: str) -> list[str]:
    before, space, last = word.rpartition(" ")
    return [before + space + many for many in plurals(last)]


def _by_head(evidence: Evidence) -> Evidence:
    """Plurals added to the singulars that are there."""
    there = set(evidence.keys)
    head_of = {}
    for kind, word in evidence.keys:
        head = word
        while (one := _singular(head)) is not None and (kind, one) in there:
            head = one
        if head != word:
            head_of[kind, word] = head
    if not head_of:
        return evidence
    renamed = [row._replace(word=head_of.get((row.kind, row.word), row.word)) for row in evidence.rows()]
    return Evidence.of(renamed)


def _qualify(sums: Evidence, indices: Ints, settings: Settings) -> NDArray[np.bool_]:
    """Which rows have the evidence to be learned from."""
    n, n_short = sums.counts[indices, 0], sums.counts[indices, 1]
    # So many in short documents are enough, or so many in long ones, or half of both.
    enough = settings.min_occurrences_short * settings.min_occurrences_long
    counted = n_short * settings.min_occurrences_long + (n - n_short) * settings.min_occurrences_short
    is_compound = np.array(
        [sums.keys[index][0] == Kind.compound for index in indices.tolist()], dtype=np.bool_
    )
    together = cohesion(n, sums.parts[indices]) >= settings.compound_min_cohesion
    often = n >= settings.compound_min_occurrences
    chosen: NDArray[np.bool_] = np.where(is_compound, together & often, counted >= enough)
    return chosen
