"""Support: how much of a statement the passages say that it cites.

Coverage is the share of the statement's words that a window of `WINDOW` neighbouring sentences has, in any
inflection, each weighted by its rarity (inverse document frequency), 0..1. Stop words, numbers and codes do
not count. Title and headings of a passage count as part of each of its windows. Coverage does not see the
order of words; so what a statement says exactly, names, quotations and negations are compared by themselves.

A statement that cites several passages is compared with the best window of each, together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lagoon.sentences import sentence_spans
from lagoon.tokens import is_stop_word, token_list
from shoal.formats.masking import mask_inline
from shoal.grounding.clauses import is_negation_reversed
from shoal.grounding.comparison import Part, check_exact, check_names, is_quoted
from shoal.grounding.notations import NUMBER_WORDS
from shoal.grounding.words import Token, read_tokens
from shoal.search.query_language import TERMS

WINDOW = 2
"""Sentences of a window: a statement may sum up neighbours."""

_ATTRIBUTIONS = """
    according article author authors document documents passage passages says source sources states text
    writes
"""
ATTRIBUTIONS = frozenset(_ATTRIBUTIONS.split())
"""Words by which a text names its sources: "according to the passage". They are no part of a claim."""

_NO_MEANING = NUMBER_WORDS | ATTRIBUTIONS

WeightOf = Callable[[str], float]
"""The weight of a stem, above 0."""


def content_words(text: str) -> dict[str, str]:
    """Return the words of a text that say something, by stem: no stop words, attributions, numbers or single
    letters."""
    forms = [form for form in token_list(text) if form not in _NO_MEANING and not is_stop_word(form)]
    words: dict[str, str] = {}
    for form, stems in zip(forms, TERMS.of_forms(forms), strict=True):
        for stem in stems:
            if len(stem) > 1 and stem.isalpha():
                words.setdefault(stem, form)
    return words


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring sentences of a passage, and the one of them that covers most: offsets in the passage."""

    start_char: int
    end_char: int
    sentence_start: int
    sentence_end: int


class Passage:
    """A text that statements cite, with its sentences."""

    def __init__(self, text: str, context: str = "") -> None:
        """`context`: title and headings, which say what the text is about."""
        self.text = text
        plain = mask_inline(text)
        firsts, lasts = sentence_spans(plain)
        self.spans = list(zip(firsts.tolist(), lasts.tolist(), strict=True)) or [(0, len(text))]
        self._sentences = [plain[start:end] for start, end in self.spans]
        self._context = frozenset(content_words(context))
        self.context = read_tokens(context)
        places: dict[str, list[int]] = {}
        for place, sentence in enumerate(self._sentences):
            for stem in content_words(sentence):
                places.setdefault(stem, []).append(place)
        self._places = {stem: np.array(found) for stem, found in places.items()}

    def has(self, stem: str) -> bool:
        """Whether the text or its context has a word with this stem."""
        return stem in self._places or stem in self._context

    def presence(self, stems: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each sentence has each stem, (n_stems, n_sentences)."""
        present = np.zeros((len(stems), len(self.spans)), dtype=np.bool_)
        for row, stem in enumerate(stems):
            if stem in self._context:
                present[row] = True
            elif (places := self._places.get(stem)) is not None:
                present[row, places] = True
        return present

    def tokens(self, place: int) -> list[Token]:
        """Return the tokens of a sentence, with their places in the passage."""
        found = self._tokens_by_place.get(place)
        if found is None:
            start = self.spans[place][0]
            found = self._tokens_by_place[place] = [
                replace(token, start=token.start + start, end=token.end + start)
                for token in read_tokens(self._sentences[place])
            ]
        return found

    @functools.cached_property
    def _tokens_by_place(self) -> dict[int, list[Token]]:
        return {}


@dataclass(frozen=True, slots=True)
class Support:
    """What passages say of a statement.

    coverage         share of the statement's words in the best windows together, 0..1
    coverages        the same for the best window of each passage alone
    windows          the best window of each passage
    missing_words    words of the statement in none of the best windows, heaviest first
    parts            what the statement says exactly, and its names, each with its place in a passage
    is_quoted        whether the best windows have the statement as it stands
    is_negated       whether the statement is negated and the clauses it rests on are not, or the reverse
    """

    coverage: float
    coverages: tuple[float, ...]
    windows: tuple[Window, ...]
    missing_words: tuple[str, ...]
    parts: tuple[Part, ...]
    is_quoted: bool
    is_negated: bool

    @property
    def best(self) -> int:
        """The number of the passage that covers most."""
        return self.coverages.index(max(self.coverages))


def find_support(statement: str, passages: Sequence[Passage], weight_of: WeightOf) -> Support:
    """Compare a statement, without markup, with at least one passage."""
    tokens = read_tokens(statement)
    words = content_words(_without_exact(statement, tokens))
    stems = list(words)
    weights = np.array([weight_of(stem) for stem in stems], dtype=np.float64)
    total = float(weights.sum()) or 1.0
    covered = np.zeros(len(stems), dtype=np.bool_)
    coverages, windows, sentences, regions = [], [], [], []
    for passage in passages:
        present = passage.presence(stems)
        first, last, place, in_window = _best_window(present, weights)
        covered |= in_window
        coverages.append(_fraction(float(weights[in_window].sum()), total, stems))
        windows.append(Window(passage.spans[first][0], passage.spans[last][1], *passage.spans[place]))
        sentences.append(passage.tokens(place))
        regions.append([token for each in range(first, last + 1) for token in passage.tokens(each)])
    missing = [stem for stem, is_in in zip(stems, covered.tolist(), strict=True) if not is_in]
    best = coverages.index(max(coverages))
    quoted = any(is_quoted(tokens, region) for region in regions)
    contexts = [passage.context for passage in passages]
    parts = [
        *check_exact(tokens, regions, contexts),
        *check_names(tokens, regions, lambda stem: any(passage.has(stem) for passage in passages)),
    ]
    return Support(
        coverage=_fraction(float(weights[covered].sum()), total, stems),
        coverages=tuple(coverages),
        windows=tuple(windows),
        missing_words=tuple(words[stem] for stem in sorted(missing, key=lambda stem: -weight_of(stem))),
        parts=tuple(sorted(parts, key=lambda part: part.start_char)),
        is_quoted=quoted,
        is_negated=not quoted and is_negation_reversed(tokens, sentences[best]),
    )


def _without_exact(statement: str, tokens: Sequence[Token]) -> str:
    """A statement with spaces in place of what it says exactly, which is compared by itself."""
    pieces, end = [], 0
    for token in tokens:
        if token.is_exact:
            pieces += [statement[end : token.start], " "]
            end = token.end
    return "".join([*pieces, statement[end:]])


def _fraction(covered: float, total: float, stems: Sequence[str]) -> float:
    """A share to six digits; a statement of numbers alone is covered as far as words go."""
    return min(round(covered / total, 6), 1.0) if stems else 1.0


def _best_window(
    present: NDArray[np.bool_], weights: NDArray[np.float64]
) -> tuple[int, int, int, NDArray[np.bool_]]:
    """(first and last sentence of the best window, its best sentence, which stems are in the window).

    Without stems, the window is the whole passage.
    """
    n = present.shape[1]
    if not len(weights):
        return 0, n - 1, 0, present[:, 0]
    united = present.copy()
    for step in range(1, min(WINDOW, n)):
        united[:, : n - step] |= present[:, step:]
    first = int(np.argmax(weights @ united))
    last = min(first + WINDOW, n) - 1
    alone = weights @ present[:, first : last + 1]
    return first, last, first + int(np.argmax(alone)), united[:, first]
