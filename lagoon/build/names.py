"""Decide which words of the vocabulary are names where they have a capital; see `lagoon.names`.

Running text writes such a word in lower case at least now and then ("an apple"). Words that are always names
("Madrid") keep their reefs. So do words that stand in the names of many things of their kind ("Lake
Superior", "the Church"): many texts write them with a capital, and the passages that do are about the reefs
of the word nearly as much as those with lower case, says the teacher of `lagoon.build.senses`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lagoon.analysis import TEXT_BREAK
from lagoon.custom import CustomWords
from lagoon.model import Model
from lagoon.names import inside_prose
from lagoon.reading import Reading, read_long
from lagoon.sentences import sentence_spans
from lagoon.vocabulary import BaseVocabulary

Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEAST_LOWER_SHARE = 0.1
"""Of the places of a word in prose where a capital would show something."""
FEWEST_TEXTS = 60
"""A word that stands in names of many kinds has a capital in so many texts of running text."""
FEWEST_PASSAGES = 4
LEAST_KEPT = 0.55
"""Mean judgement of a word's reefs in passages with a capital, as a share of that with lower case."""
LEAST_JUDGEMENT = 0.3


def with_name_words(
    model: Model, texts: Iterable[str], passages: Sequence[str], judgements: Doubles
) -> Model:
    """The model with `name_words` by running text. `judgements` (passages, reefs) as from the teacher."""
    vocabulary, custom = BaseVocabulary(model), CustomWords(model)
    with_capital, in_lower_case, texts_with_capital = np.zeros((3, model.n_words), dtype=np.int64)
    for text in texts:
        sentences, _ = sentence_spans(text)
        places = _Places.of(read_long(text, sentences, vocabulary, custom), sentences)
        counted = np.bincount(places.words[places.capital], minlength=model.n_words)
        with_capital += counted
        texts_with_capital += counted > 0
        in_lower_case += np.bincount(places.words[places.lower], minlength=model.n_words)
    is_written_small = in_lower_case > LEAST_LOWER_SHARE * (with_capital + in_lower_case)
    keeps = (texts_with_capital >= FEWEST_TEXTS) & _keeps_reefs(model, vocabulary, passages, judgements)
    return replace(model, name_words=np.packbits(is_written_small & ~keeps))


@dataclass(frozen=True)
class _Places:
    """Occurrences of words with the offsets where they begin; those with a capital that shows something, and
    those in lower case."""

    words: Longs
    starts: Longs
    capital: Bools
    lower: Bools

    @staticmethod
    def of(reading: Reading, sentences: Longs) -> _Places:
        tokens = reading.tokens
        last = reading.hit_tokens + reading.hit_lengths - 1
        bounds = np.append(np.searchsorted(tokens.starts, sentences), len(tokens))
        capital = tokens.capital[last]
        shown = inside_prose(reading, last, bounds)
        return _Places(reading.hit_words, tokens.starts[reading.hit_tokens], capital & shown, ~capital)


def _keeps_reefs(
    model: Model, vocabulary: BaseVocabulary, passages: Sequence[str], judgements: Doubles
) -> Bools:
    """Whether passages with each word in capitals are about its reefs about as much as others, (words,)."""
    text = TEXT_BREAK.join(passages)
    lengths = np.array([len(passage) + len(TEXT_BREAK) for passage in passages])
    begins = np.cumsum(lengths) - lengths
    sentences = np.union1d(sentence_spans(text)[0], begins)
    places = _Places.of(read_long(text, sentences, vocabulary, CustomWords(model)), sentences)
    passage_of = np.searchsorted(begins, places.starts, side="right") - 1
    strengths = sparse.csr_matrix(
        (model.row_bm25 * model.row_support.astype(np.float64), model.row_reefs, model.row_starts),
        (model.n_words, model.n_reefs),
    )
    centred = judgements - judgements.mean(axis=0)
    means = []
    for chosen in (places.capital, places.lower):
        pairs = np.unique(passage_of[chosen] * model.n_words + places.words[chosen])
        at, words = np.divmod(pairs, model.n_words)
        rows = strengths[words]
        sums = np.asarray(rows.multiply(centred[at]).sum(axis=1)).ravel()
        judged = sums / np.maximum(np.asarray(rows.sum(axis=1)).ravel(), 1.0)
        n_passages = np.bincount(words, minlength=model.n_words)
        total = np.bincount(words, weights=judged, minlength=model.n_words)
        means.append(np.where(n_passages >= FEWEST_PASSAGES, total / np.maximum(n_passages, 1), 0.0))
    capital, lower = means
    keeps: Bools = (lower >= LEAST_JUDGEMENT) & (capital >= LEAST_KEPT * lower)
    return keeps
