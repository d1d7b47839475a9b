"""Similarity of short texts as a number from 0 to 1 that can be compared with a threshold, without a model.

The value is the probability that two texts say the same about the same matter, by a logistic function of four
measures. A contradiction does not lower it: `is_opposite` says that there are signs of one (`opposites`), and
such texts are no duplicates. `benchmarks/similarity.py` fits the constants and prints how often both are
right.

Every measure is between 0 and 1. A term's weight is its inverse document frequency in running text, and two
different terms match as far as they have the same reefs.

profile      cosine of the profiles of both texts
words        share of the weight of a text's terms that the other text matches; the smaller of both directions
missing      weight of the heaviest term of either text that the other does not match
exchanged    the same in the text where it is lighter: high if each text has a term of its own

Where an encoder has embedded both texts, a fifth measure joins, and other constants are used:

vectors      cosine of both vectors, 0 at the mean of unrelated texts

Encoders put opposites near each other, so fewer signs of a contradiction are enough then.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import QueryError
from shoal.models.notes import MAX_CHARS, Signs, Similarity, SimilarityPart
from shoal.notes import opposites
from shoal.notes.index_cache import STOP_TERMS, TermTable, term_table
from shoal.notes.opposites import Statement
from shoal.scorer import Scorer
from shoal.storage.profiles import MAX_REEFS, Z_STEPS, Profiles, z_steps
from shoal.words.analysis import terms_of

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]

TINY = 1e-9
"""Keeps a division by a sum of weights finite."""
DIGITS = 4
"""Digits of a similarity."""
TOP_REEFS = 38
"""Reefs of a profile, as in chunks."""
RELATED_AT_MOST = 0.95
"""How far different terms match at most, even with equal reefs."""
FULL_WEIGHT = 10.0
"""Weight of a term that counts as much as any: one in 20,000 words of running text."""
MAX_SUBJECTS = 1_000
"""Distinct terms of a text that are compared; a text of the greatest length has about as many."""
NO_TERMS = ("",)
"""Stands for the terms of a text without words, which is similar to no other."""
BLOCK = 2_000_000
"""Pairs of terms that are compared at once, in 8 MB."""
TILE = 31
"""Rows and columns of a product of matrices of `N_DIMENSIONS` in one thread: OpenBLAS starts others from
2**18 multiplications on."""
OPPOSITE_AT_LEAST = 0.3
"""Probability of a contradiction from which texts are flagged. Below one half, because a wrong merge costs
more than a look at two texts."""
OPPOSITE_AT_LEAST_BY_VECTORS = 0.2
"""The same for texts with vectors: as many contradictions stay unseen as without vectors."""
LEAST_RELATED = 0.15
"""Texts below this similarity are not examined for signs of a contradiction."""


class Similarities(NamedTuple):
    """Similarities of one text to n others, each (n,)."""

    values: Doubles
    is_opposite: NDArray[np.bool_]


class Weights(NamedTuple):
    """A logistic function: log-odds = bias + the sum of the measures times their weights."""

    bias: float
    weights: tuple[float, ...]

    def probabilities(self, measures: Doubles) -> Doubles:
        """Return the probability, 0..1, of each row of measures, (n, number of weights)."""
        odds = measures @ np.array(self.weights) + self.bias
        probabilities: Doubles = 1 / (1 + np.exp(-odds))
        return probabilities


# Fitted on the half `choose` by `python -m benchmarks.similarity --fit`.
MEASURES = ("profile", "words", "missing", "exchanged")
SAME = Weights(-0.52, (3.77, 1.32, -2.53, -5.0))
VECTOR_MEASURES = (*MEASURES, "vectors")
SAME_BY_VECTORS = Weights(-5.36, (0.0, 0.0, -1.56, -2.88, 9.91))
OPPOSITE = Weights(-4.68, (3.09, 3.48, 4.1, 4.13, 3.73, 3.32, 2.76))
RECALL_MEASURES = ("profile", "words", "covered", "missing")
ANSWERS = Weights(-9.66, (3.31, 6.8, 7.8, 0.0))

LENIENCE = 2.5
"""Added to the log-odds of `ANSWERS`, whose probabilities are below 0.7 for most notes that answer: so 0.7
answers nine of ten questions of a conversation, and one of twelve of another's (`benchmarks/locomo.py`)."""


TURN_ANSWERS = Weights(-1.03, (3.26, 6.5))
"""The same of a turn, by the share of the question that it matches, without names of speakers, and by
`NoteRanking.support`. Fitted on three conversations, and shifted so that 0.7 answers nine of ten of their
questions; those of another conversation have a fifth of the weight of those without an answer
(`benchmarks/locomo.py`)."""


LEAST_NEARNESS = -0.3
"""Vectors that are further apart count as this far."""
VECTOR_ANSWERS = Weights(-2.06, (2.36, 6.08, 11.84))
"""The same of a note with a vector, by the share of the question that it matches, `NoteRanking.nearness` and
`NoteRanking.margins`. Fitted with all-MiniLM-L6-v2 in 8 bits on half of the questions of
`benchmarks/similarity.py` and of the tasks and prompts of `benchmarks/note_tasks.py`, and shifted so that 0.3
suits hooks with and without an encoder."""


class Embedded(NamedTuple):
    """The vector of a text, (dimension,), of length 1, and the mean cosine of unrelated texts."""

    vector: Doubles
    unrelated: float


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """What is compared of a text: its terms in order, stop words included, its profile over all reefs, of
    length 1 or 0, (MAX_REEFS,), and its vector if an encoder has read all of it."""

    table: TermTable
    terms: tuple[str, ...]
    profile: Doubles
    embedded: Embedded | None = None

    @classmethod
    def of(cls, scorer: Scorer, text: str, title: str = "") -> TextFeatures:
        """Read a text. `scorer` may have learned words, which change the profile alone."""
        joined = f"{title}\n\n{text}" if title else text
        reefs = scorer.score(joined, TOP_REEFS).reef_columns
        dense = np.zeros((1, MAX_REEFS))
        dense[0, reefs.reef_ids] = z_steps(np.array(reefs.z_scores)) / Z_STEPS
        return cls(term_table(scorer), tuple(terms_of(joined)), _units(dense)[0])

    @classmethod
    def of_stored(cls, scorer: Scorer, words: bytes, profile: bytes) -> TextFeatures:
        """Read a note from its columns `words` and `profile`."""
        return cls.of_all_stored(scorer, [(words, profile)])[0]

    @classmethod
    def of_all_stored(cls, scorer: Scorer, notes: Sequence[tuple[bytes, bytes]]) -> list[TextFeatures]:
        """Read notes from their columns `words` and `profile`."""
        profiles = Profiles.of([profile for _, profile in notes])
        dense = np.zeros((len(profiles), MAX_REEFS))
        dense[profiles.chunks, profiles.reef_ids] = profiles.z_scores
        table, units = term_table(scorer), _units(dense)
        return [
            cls(table, tuple(words.decode().split()), unit)
            for (words, _), unit in zip(notes, units, strict=True)
        ]

    @functools.cached_property
    def subjects(self) -> tuple[str, ...]:
        """The first distinct terms that are no stop words; of a text without any, all distinct terms."""
        distinct = dict.fromkeys(self.terms)
        subjects = tuple(itertools.filterfalse(STOP_TERMS.__contains__, distinct))
        return (subjects or tuple(distinct) or NO_TERMS)[:MAX_SUBJECTS]

    @functools.cached_property
    def numbers(self) -> Ints:
        """The numbers of `subjects` in the table."""
        return self.table.numbers(self.subjects)

    @functools.cached_property
    def statement(self) -> Statement:
        return Statement.of(self.terms)


def check_text(field: str, text: object) -> str:
    """Return a text that can be compared. Raises QueryError, which names the field."""
    if not isinstance(text, str):
        raise QueryError(field, f"must be a text, not {type(text).__name__}")
    if len(text) > MAX_CHARS:
        raise QueryError(field, f"has {len(text):,} characters; the limit is {MAX_CHARS:,}")
    if not terms_of(text):
        raise QueryError(field, "must have a word or a number")
    return text


def similarity(left: TextFeatures, right: TextFeatures) -> Similarity:
    """Compare two texts, with the reasons. The order of the texts does not matter."""
    left, right = sorted((left, right), key=lambda features: features.terms)
    measures = _measures(left, [right])
    same = SAME
    values, plain, has_cosine = _values(left, [right], measures)
    if has_cosine[0]:
        measures, same = np.c_[measures, _cosines(left, [right])], SAME_BY_VECTORS
    parts = tuple(
        SimilarityPart(name, round(value, DIGITS), round(value * weight, DIGITS) + 0.0)
        for name, value, weight in zip(VECTOR_MEASURES, measures[0].tolist(), same.weights, strict=False)
    )
    signs = opposites.signs(left.statement, right.statement)
    is_opposite = _is_opposite(float(plain[0]), signs, by_vectors=bool(has_cosine[0]))
    return Similarity(float(values[0]), is_opposite, parts, signs)


def similarities(
    text: TextFeatures, others: Sequence[TextFeatures], *, examined_from: float = LEAST_RELATED
) -> Similarities:
    """Compare one text with n others. Signs of a contradiction are looked for from the similarity
    `examined_from` on, which takes most of the time."""
    values, related, has_cosine = _values(text, others, _measures(text, others))
    is_opposite = np.zeros(len(others), dtype=np.bool_)
    for at in np.flatnonzero(values >= max(examined_from, LEAST_RELATED)).tolist():
        signs = opposites.signs(text.statement, others[at].statement)
        is_opposite[at] = _is_opposite(float(related[at]), signs, by_vectors=bool(has_cosine[at]))
    return Similarities(values, is_opposite)


def _is_opposite(related: float, signs: Signs, *, by_vectors: bool = False) -> bool:
    """Whether texts may contradict each other that are so much about the same matter."""
    if related < LEAST_RELATED or not any(signs):
        return False
    least = OPPOSITE_AT_LEAST_BY_VECTORS if by_vectors else OPPOSITE_AT_LEAST
    return float(OPPOSITE.probabilities(np.array([(*signs, related)]))[0]) >= least


def _values(
    text: TextFeatures, others: Sequence[TextFeatures], measures: Doubles
) -> tuple[Doubles, Doubles, NDArray[np.bool_]]:
    """Return similarities to n others, how much they are about the same matter, and which pairs have vectors,
    (n,) each. Texts are about the same matter if either way of comparing says so."""
    values = _with_equal(text, others, SAME.probabilities(measures))
    has_cosine = np.array([bool(text.embedded and other.embedded) for other in others], dtype=np.bool_)
    if not has_cosine.any():
        return values, values, has_cosine
    cosines = _cosines(text, [other for other, has in zip(others, has_cosine, strict=True) if has])
    by_vectors = values.copy()
    by_vectors[has_cosine] = SAME_BY_VECTORS.probabilities(np.c_[measures[has_cosine], cosines])
    by_vectors = _with_equal(text, others, by_vectors)
    return by_vectors, np.maximum(values, by_vectors), has_cosine


def _cosines(text: TextFeatures, others: Sequence[TextFeatures]) -> Doubles:
    """Return the measure `vectors` of one text and each other, (n,); all have vectors."""
    assert text.embedded is not None, "only texts with vectors are compared by them"
    vector, unrelated = text.embedded
    rows = np.stack([other.embedded.vector for other in others if other.embedded is not None])
    cosines = np.einsum("ij,j->i", rows, vector)
    scaled: Doubles = np.clip((cosines - unrelated) / max(1 - unrelated, TINY), 0.0, 1.0)
    return scaled


class RecallSimilarities(NamedTuple):
    """Of a question and n notes, each (n,), 0..1: how well each answers it, and the share of the question
    that it matches, without names of speakers."""

    values: Doubles
    matched: Doubles


def recall_similarities(
    question: TextFeatures, notes: Sequence[TextFeatures], names: frozenset[str] = frozenset()
) -> RecallSimilarities:
    """Return how well each of n notes answers a question. `names`: its terms that name speakers.

    Unlike in `similarities`, it does not matter what a note says beyond the question.
    """
    lenient = ANSWERS._replace(bias=ANSWERS.bias + LENIENCE)
    found = _compare(question, notes, names)
    measures = _recall_columns(found)
    return RecallSimilarities(_with_equal(question, notes, lenient.probabilities(measures)), found.matched)


def vector_similarity(matched: float, nearness: float, margin: float) -> float:
    """Return how well a note with a vector answers a question, 0..1.

    `matched`: the share of the question that the note matches; `nearness`: of both vectors; `margin`: how
    much nearer it is than any other note (`NoteRanking`). A note that is hardly nearer is hardly better.
    """
    measures = np.array([[matched, max(nearness, LEAST_NEARNESS), margin]])
    return round(float(VECTOR_ANSWERS.probabilities(measures)[0]), DIGITS)


def turn_similarity(matched: float, support: float) -> float:
    """Return how well a turn answers a question, 0..1.

    `matched`: the share of the question that the turn matches, without names of speakers; `support`, -1..1:
    how much better what the named speaker said fits than what others said. That the named person speaks is
    no evidence.
    """
    return round(float(TURN_ANSWERS.probabilities(np.array([[matched, support]]))[0]), DIGITS)


def _with_equal(text: TextFeatures, others: Sequence[TextFeatures], values: Doubles) -> Doubles:
    is_equal = np.fromiter((text.terms == other.terms for other in others), np.bool_, len(others))
    if not text.terms:
        return np.zeros(len(others))
    return np.where(is_equal, 1.0, values).round(DIGITS)


def _measures(text: TextFeatures, others: Sequence[TextFeatures]) -> Doubles:
    """Return `MEASURES` of one text and each other, (n, 4)."""
    found = _compare(text, others)
    gaps = found.gap, found.other_gap
    columns = found.profile, np.minimum(found.share, found.other_share), np.maximum(*gaps), np.minimum(*gaps)
    return np.stack(columns, axis=1)


def _recall_measures(question: TextFeatures, notes: Sequence[TextFeatures]) -> Doubles:
    """Return `RECALL_MEASURES` of a question and each note, (n, 4)."""
    return _recall_columns(_compare(question, notes))


def _recall_columns(found: _Comparison) -> Doubles:
    return np.stack((found.profile, found.other_share, found.share, found.gap), axis=1)


class _Comparison(NamedTuple):
    """Measures of one text and each of n others, (n,) each.

    profile  cosine of the profiles
    share    share of the weight of the text's terms that the other matches
    gap      weight of the heaviest term of the text that the other does not match
    other_share, other_gap  the same of the other's terms
    matched  `share` without names of speakers; with them, if the text has no other terms
    """

    profile: Doubles
    share: Doubles
    gap: Doubles
    other_share: Doubles
    other_gap: Doubles
    matched: Doubles


def _compare(
    text: TextFeatures, others: Sequence[TextFeatures], names: frozenset[str] = frozenset()
) -> _Comparison:
    most_terms = max(1, BLOCK // len(text.subjects))
    blocks = [_compare_block(text, block, names) for block in _blocks(others, most_terms)]
    return _Comparison(*map(np.concatenate, zip(*blocks, strict=True))) if blocks else _NOTHING


_NOTHING = _Comparison(*[np.empty(0)] * len(_Comparison._fields))


def _compare_block(text: TextFeatures, others: Sequence[TextFeatures], names: frozenset[str]) -> _Comparison:
    table, mine = text.table, text.numbers
    lengths = np.fromiter((len(other.subjects) for other in others), np.int64, len(others))
    starts = np.cumsum(lengths) - lengths
    theirs = table.numbers(list(itertools.chain.from_iterable(other.subjects for other in others)))
    related = np.clip(_products(table.vectors(mine), table.vectors(theirs)), 0.0, RELATED_AT_MOST)
    related[mine[:, None] == theirs] = 1.0
    weights, other_weights = table.weights(mine), table.weights(theirs)
    matched = np.maximum.reduceat(related, starts, axis=1)
    other_matched = related.max(axis=0)
    is_said = np.fromiter((term not in names for term in text.subjects), np.bool_, len(text.subjects))
    said = weights * is_said if is_said.any() else weights
    return _Comparison(
        np.minimum(np.einsum("ij,j->i", np.stack([other.profile for other in others]), text.profile), 1.0),
        np.einsum("i,ij->j", weights, matched) / max(float(weights.sum()), TINY),
        (np.minimum(weights / FULL_WEIGHT, 1.0)[:, None] * (1 - matched)).max(axis=0),
        np.add.reduceat(other_weights * other_matched, starts)
        / np.maximum(np.add.reduceat(other_weights, starts), TINY),
        np.maximum.reduceat(np.minimum(other_weights / FULL_WEIGHT, 1.0) * (1 - other_matched), starts),
        np.einsum("i,ij->j", said, matched) / max(float(said.sum()), TINY),
    )


def _products(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return left @ right.T in pieces that BLAS computes in the calling thread.

    Its threads wait for each other: on a busy machine, a product of 0.3 ms takes 50 ms with them. For the
    same reason other products here use `einsum`, which has no threads.
    """
    products = np.empty((len(left), len(right)), dtype=np.float32)
    for row in range(0, len(left), TILE):
        for column in range(0, len(right), TILE):
            piece = products[row : row + TILE, column : column + TILE]
            np.matmul(left[row : row + TILE], right[column : column + TILE].T, out=piece)
    return products


def _blocks(others: Sequence[TextFeatures], most_terms: int) -> Iterator[list[TextFeatures]]:
    block: list[TextFeatures] = []
    n_terms = 0
    for other in others:
        if block and n_terms + len(other.subjects) > most_terms:
            yield block
            block, n_terms = [], 0
        block.append(other)
        n_terms += len(other.subjects)
    if block:
        yield block


def _units(vectors: Doubles) -> Doubles:
    """Return each row divided by its length; rows of 0 as they are."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    units: Doubles = vectors / np.where(norms > 0, norms, 1.0)[:, None]
    return units
