"""Input for learning words from an analyzed document: its tokens, and the profiles of its sentences and
segments."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagoon.reading import Reading
from lagoon.scoring import ScoredTexts
from lagoon.vocabulary import NUMBER, WORD


@dataclass(frozen=True)
class ReadContexts:
    """Titles and headings in tokens. The context of section i is tokens bounds[i]..bounds[i+1]-1 of
    `reading`; the section begins at sentence `section_starts[i]`."""

    reading: Reading
    bounds: NDArray[np.int64]
    section_starts: NDArray[np.int64]

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """bool (tokens,), as in ObservedText."""
        return _unknown(self.reading)


@dataclass(frozen=True)
class ObservedText:
    """The tokens of a document, token t having the normal form `forms[form_of[t]]`.

    unknown      bool (tokens,): a word that is not in the vocabulary and not part of a compound
    is_word      bool (tokens,): neither a number nor a stop word
    is_number    bool (tokens,)
    consumed     bool (tokens,): part of a base compound
    joined       bool (tokens,): adjacent to the next token of its sentence
    sentence_of  i64 (tokens,);  segment_of  i64 (sentences,)
    first_sentences  i64 (texts + 1,): first sentence of each text
    sentences, segments   scored, by index
    contexts     of the sections, None if none was scored
    """

    forms: list[str]
    form_of: NDArray[np.int32]
    unknown: NDArray[np.bool_]
    is_word: NDArray[np.bool_]
    is_number: NDArray[np.bool_]
    consumed: NDArray[np.bool_]
    joined: NDArray[np.bool_]
    sentence_of: NDArray[np.int64]
    segment_of: NDArray[np.int64]
    first_sentences: NDArray[np.int64]
    sentences: ScoredTexts
    segments: ScoredTexts
    contexts: ReadContexts | None

    @property
    def n_texts(self) -> int:
        return len(self.first_sentences) - 1

    @cached_property
    def text_of_sentence(self) -> NDArray[np.int64]:
        """i64 (sentences,)."""
        return np.repeat(np.arange(self.n_texts), np.diff(self.first_sentences))


def observe(
    sentences: ScoredTexts,
    segments: ScoredTexts,
    cuts: list[int],
    first_sentences: NDArray[np.int64],
    contexts: ReadContexts | None,
) -> ObservedText:
    """Build the input for learning. `sentences` and `segments` have the same reading; segments start at
    `cuts`."""
    reading = sentences.reading
    n_sentences = len(sentences)
    sizes = np.diff(sentences.bounds)  # every token is in a sentence
    segment_sizes = np.diff(np.array([*(cuts or [0]), n_sentences]))
    return ObservedText(
        forms=reading.tokens.forms,
        form_of=reading.tokens.ids,
        unknown=_unknown(reading),
        is_word=reading.kinds == WORD,
        is_number=reading.kinds == NUMBER,
        consumed=reading.consumed,
        joined=reading.tokens.joined,
        sentence_of=np.repeat(np.arange(n_sentences), sizes),
        segment_of=np.repeat(np.arange(len(segment_sizes)), segment_sizes),
        first_sentences=first_sentences,
        sentences=sentences,
        segments=segments,
        contexts=contexts,
    )


def _unknown(reading: Reading) -> NDArray[np.bool_]:
    unknown: NDArray[np.bool_] = (reading.kinds == WORD) & (reading.words < 0) & ~reading.consumed
    return unknown
