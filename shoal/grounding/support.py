"""Support: how much of a statement the passages say that it cites.

Coverage is the share of the statement's words that a window of `WINDOW` neighbouring sentences has, in any
inflection, each weighted by its rarity (inverse document frequency), 0..1. Stop words, numbers and codes do
not count. Title and headings of a passage count as part of each of its windows. Coverage does not see the
order of words; so what a statement says exactly, names, quotations and negations are compared by themselves.

A statement that cites several passages is compared with the best window of each, together.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.sentences import sentence_spans
from lagoon.tokens import is_stop_word, token_list
from shoal.formats.masking import mask_inline
from shoal.grounding.comparison import Region, check_exact, check_names, is_quoted
from shoal.grounding.english import base_form
from shoal.grounding.notations import MONTHS, NUMBER_WORDS
from shoal.grounding.order import compare_opposites, compare_order
from shoal.grounding.statements import compare_negation
from shoal.grounding.words import Part, Token, read_tokens, with_inner_underscores
from shoal.words.analysis import stems_of

WINDOW = 2
"""Sentences of a window: a statement may sum up neighbours."""

_DAY_END = re.compile(r"\b\d{1,2}\.\s?\Z")
_TIE = 1e-9
MAX_TIED = 8
"""Most windows with the same coverage that are compared closer."""

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
    for form, stem in zip(forms, stems_of(map(base_form, forms)), strict=True):
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
        plain = with_inner_underscores(mask_inline(text), text)
        firsts, lasts = sentence_spans(plain)
        spans = zip(firsts.tolist(), lasts.tolist(), strict=True)
        self.spans = list(_with_whole_dates(plain, spans)) or [(0, len(text))]
        self._sentences = [plain[start:end] for start, end in self.spans]
        self._context = frozenset(content_words(context))
        self._context_text = context
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

    def region(self, first: int, last: int) -> Region:
        """Return the tokens of the sentences first..last, found by what they state."""
        found = self._regions.get((first, last))
        if found is None:
            tokens = [token for place in range(first, last + 1) for token in self.tokens(place)]
            found = self._regions[first, last] = Region(tokens)
        return found

    @functools.cached_property
    def context(self) -> Region:
        """The tokens of the title and the headings."""
        return Region(read_tokens(self._context_text))

    @functools.cached_property
    def _regions(self) -> dict[tuple[int, int], Region]:
        return {}

    @functools.cached_property
    def _tokens_by_place(self) -> dict[int, list[Token]]:
        return {}


def _with_whole_dates(plain: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans of sentences, joined where one ends within a date: "am 3. Oktober"."""
    held: tuple[int, int] | None = None
    for start, end in spans:
        if held is None:
            held = (start, end)
        elif _DAY_END.search(plain, max(held[0], held[1] - 5), held[1]) and _begins_with_month(
            plain[start:end]
        ):
            held = (held[0], end)
        else:
            yield held
            held = (start, end)
    if held is not None:
        yield held


def _begins_with_month(sentence: str) -> bool:
    word = sentence.split(maxsplit=1)[:1]
    return bool(word) and word[0].strip(".,").casefold() in MONTHS


@dataclass(frozen=True, slots=True)
class Support:
    """What passages say of a statement.

    coverage         share of the statement's words in the best windows together, 0..1
    coverages        the same for the best window of each passage alone
    windows          the best window of each passage
    missing_words    words of the statement in none of the best windows, heaviest first
    parts            what the statement says exactly, its names, and what it says otherwise than a passage
    is_quoted        whether the best windows have the statement as it stands
    """

    coverage: float
    coverages: tuple[float, ...]
    windows: tuple[Window, ...]
    missing_words: tuple[str, ...]
    parts: tuple[Part, ...]
    is_quoted: bool

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
    coverages: list[float] = []
    windows: list[Window] = []
    found: list[_Found] = []
    for passage in passages:
        present = passage.presence(stems)
        first, last, place, in_window = _best_window(passage, tokens, present, weights)
        covered |= in_window
        coverages.append(_fraction(float(weights[in_window].sum()), total, stems))
        windows.append(Window(passage.spans[first][0], passage.spans[last][1], *passage.spans[place]))
        found.append(_Found(passage, first, last, place))
    missing = [stem for stem, is_in in zip(stems, covered.tolist(), strict=True) if not is_in]
    best = coverages.index(max(coverages))
    regions = [each.window for each in found]
    quoted = any(is_quoted(tokens, region.tokens) for region in regions)
    contexts = [passage.context for passage in passages]
    parts = [
        *check_exact(tokens, regions, contexts),
        *check_names(tokens, regions, lambda stem: any(passage.has(stem) for passage in passages)),
    ]
    if not quoted:
        order = [best, *(each for each in range(len(found)) if each != best)]
        differing = {part.start_char: part for part in _compare(tokens, order, found)}
        parts = [part for part in parts if part.start_char not in differing] + list(differing.values())
    return Support(
        coverage=_fraction(float(weights[covered].sum()), total, stems),
        coverages=tuple(coverages),
        windows=tuple(windows),
        missing_words=tuple(words[stem] for stem in sorted(missing, key=lambda stem: -weight_of(stem))),
        parts=tuple(sorted(parts, key=lambda part: part.start_char)),
        is_quoted=quoted,
    )


class _Found(NamedTuple):
    """The best window of a passage, sentences first..last, and the best sentence in it."""

    passage: Passage
    first: int
    last: int
    best: int

    @property
    def window(self) -> Region:
        return self.passage.region(self.first, self.last)

    @property
    def sentence(self) -> Region:
        return self.passage.region(self.best, self.best)


def _compare(statement: Sequence[Token], order: Sequence[int], found: Sequence[_Found]) -> Iterator[Part]:
    """Compare a statement in order with the best sentence of each passage, then with what is around it."""
    taken: set[int] = set()
    for number in order:
        yield from compare_order(statement, found[number].sentence, taken, number)
    for number in order:
        passage, first, last, best = found[number]
        for place in range(first, min(last + 1, first + WINDOW)):
            if place != best:
                yield from compare_order(statement, passage.region(place, place), taken, number)
    best = order[0]
    sentence = found[best].sentence.tokens
    yield from compare_negation(statement, sentence, best)
    around = [token for each in found for token in each.window.tokens]
    yield from compare_opposites(statement, sentence, around, best)


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
    passage: Passage, tokens: Sequence[Token], present: NDArray[np.bool_], weights: NDArray[np.float64]
) -> tuple[int, int, int, NDArray[np.bool_]]:
    """(first and last sentence of the best window, its best sentence, which stems are in the window).

    Of several windows that cover as much, the one with most of the statement's tokens. Without stems, the
    window is the whole passage.
    """
    n = present.shape[1]
    if not len(weights):
        return 0, n - 1, 0, present[:, 0]
    united = present.copy()
    for step in range(1, min(WINDOW, n)):
        united[:, : n - step] |= present[:, step:]
    covered = weights @ united
    alone = weights @ present
    tied = np.flatnonzero(covered >= covered.max() - _TIE)[:MAX_TIED].tolist()

    def quality(first: int) -> tuple[int, float]:
        places = range(first, min(first + WINDOW, n))
        best = max(places, key=lambda place: alone[place])
        own = passage.tokens(best)
        forms = {token.form for token in own}
        return sum(token.form in forms for token in tokens) + len(tokens) * is_quoted(tokens, own), alone[
            best
        ]

    first = max(tied, key=quality) if len(tied) > 1 else tied[0]
    last = min(first + WINDOW, n) - 1
    return first, last, first + int(np.argmax(alone[first : last + 1])), united[:, first]
