"""Support: how much of a statement the passages say that it cites.

Coverage is the share of the statement's words that a window of `WINDOW` neighbouring sentences has, in any
inflection, each weighted by its rarity (inverse document frequency), 0..1. Stop words and numbers do not
count. Title and headings of a passage count as part of each of its windows. Coverage does not see the order
of words; so numbers, names, quotations and negations are compared by themselves.

A statement that cites several passages is compared with the best window of each, together.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from lagoon.sentences import sentence_spans
from lagoon.tokens import is_stop_word, token_list
from shoal.formats.masking import mask_inline
from shoal.grounding.numbers import NUMBER_WORDS, find_numbers
from shoal.search.query_language import TERMS, folded, stems_of, tokens_of

WINDOW = 2
"""Sentences of a window: a statement may sum up neighbours."""

_NEGATORS = """
    no not never none nor neither nobody nothing nowhere without cannot hardly seldom rarely
"""
NEGATORS = frozenset(_NEGATORS.split())
_ATTRIBUTIONS = """
    according article author authors document documents passage passages says source sources states text
    writes
"""
ATTRIBUTIONS = frozenset(_ATTRIBUTIONS.split())
"""Words by which a text names its sources: "according to the passage". They are no part of a claim."""

_CLAUSE_END = re.compile(r"[,;:()–—]")
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


def names(text: str) -> dict[str, str]:
    """Return the capitalised words of a sentence after its first word, by stem."""
    later = [token for token in tokens_of(text)[1:] if token[0].isupper() and len(token) > 1]
    found = [
        token for token in later if not is_stop_word(folded(token)) and folded(token) not in NUMBER_WORDS
    ]
    return dict(zip(stems_of(found), found, strict=True))


def has_negator(text: str) -> bool:
    """Whether a text has a negating word."""
    return any(form in NEGATORS or form.endswith("n't") for form in token_list(text))


def has_negator_about(words: Mapping[str, str], sentence: str) -> bool:
    """Whether a clause of a sentence has a negating word and at least half of its words are among `words`."""
    if not has_negator(sentence):
        return False
    for clause in filter(has_negator, _CLAUSE_END.split(sentence)):
        of_clause = content_words(clause)
        if 2 * len(of_clause.keys() & words.keys()) >= max(len(of_clause), 1):
            return True
    return False


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
        self._context_numbers = find_numbers(context)
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

    def numbers(self, first: int, last: int) -> frozenset[Decimal]:
        """Return the numbers of the sentences first..last and of the context."""
        return self._context_numbers.union(*map(self._numbers_of, range(first, last + 1)))

    def sentence(self, place: int) -> str:
        """Return a sentence without markup."""
        return self._sentences[place]

    @functools.cached_property
    def _numbers_by_place(self) -> dict[int, frozenset[Decimal]]:
        return {}

    def _numbers_of(self, place: int) -> frozenset[Decimal]:
        found = self._numbers_by_place.get(place)
        if found is None:
            found = self._numbers_by_place[place] = find_numbers(self._sentences[place])
        return found


@dataclass(frozen=True, slots=True)
class Support:
    """What passages say of a statement.

    coverage         share of the statement's words in the best windows together, 0..1
    coverages        the same for the best window of each passage alone
    windows          the best window of each passage
    missing_words    words of the statement in none of the best windows, heaviest first
    missing_numbers  numbers of the statement in none of them, as written in digits
    missing_names    capitalised words of the statement in none of the passages
    is_negated       whether the statement is negated and its best sentence is not, or the reverse; of the
                     sentence, only clauses about the statement count
    """

    coverage: float
    coverages: tuple[float, ...]
    windows: tuple[Window, ...]
    missing_words: tuple[str, ...]
    missing_numbers: tuple[str, ...]
    missing_names: tuple[str, ...]
    is_negated: bool

    @property
    def best(self) -> int:
        """The number of the passage that covers most."""
        return self.coverages.index(max(self.coverages))


def find_support(statement: str, passages: Sequence[Passage], weight_of: WeightOf) -> Support:
    """Compare a statement, without markup, with at least one passage."""
    words = content_words(statement)
    stems = list(words)
    weights = np.array([weight_of(stem) for stem in stems], dtype=np.float64)
    total = float(weights.sum()) or 1.0
    covered = np.zeros(len(stems), dtype=np.bool_)
    # "One" is hardly ever a count.
    wanted = find_numbers(statement) - {Decimal(1)}
    numbers: set[Decimal] = set()
    coverages, windows, sentences = [], [], []
    for passage in passages:
        present = passage.presence(stems)
        first, last, place, in_window = _best_window(present, weights)
        covered |= in_window
        if wanted:
            numbers |= passage.numbers(first, last)
        coverages.append(_fraction(float(weights[in_window].sum()), total, stems))
        sentence = passage.spans[place]
        windows.append(Window(passage.spans[first][0], passage.spans[last][1], *sentence))
        sentences.append(passage.sentence(place))
    missing = [stem for stem, is_in in zip(stems, covered.tolist(), strict=True) if not is_in]
    unnamed = {
        stem: name for stem, name in names(statement).items() if not any(p.has(stem) for p in passages)
    }
    best = sentences[coverages.index(max(coverages))]
    return Support(
        coverage=_fraction(float(weights[covered].sum()), total, stems),
        coverages=tuple(coverages),
        windows=tuple(windows),
        missing_words=tuple(words[stem] for stem in sorted(missing, key=lambda stem: -weight_of(stem))),
        missing_numbers=tuple(sorted(format(number, "f") for number in wanted - numbers)),
        missing_names=tuple(unnamed.values()),
        is_negated=has_negator(statement) != has_negator_about(words, best),
    )


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
