"""Read short texts token by token: for a query or a note, the overhead of numpy exceeds the reading itself.

The results equal those of `tokens.tokenise` and of the arrays of `reading.read`.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lagoon.abbreviations import TITLES
from lagoon.custom import CustomWords
from lagoon.tokens import short_tokens
from lagoon.vocabulary import WORD, BaseVocabulary, unpack

# Above about this length, arrays are faster (`benchmarks/lagoon_speed.py` prints both times).
MOST_CHARS = 1200

# White space, hyphens and underscores: tokens around these are adjacent.
_JOINING = " -_\t\n\v\f\r\x1c\x1d\x1e\x1f"

# A sentence may begin in a gap with one of these, so that its tokens are not adjacent.
_MAY_PART = re.compile(r"[\n\r.]")


@dataclass(frozen=True)
class ShortReading:
    """Tokens of a short text resolved to words: like `reading.Reading`, but in lists.

    pairs  (form, text up to the next token) by token
    forms, joined, kinds, words, consumed   by token
    hits   (first token, word, number of tokens) of every occurrence of a word, ascending by token
    """

    text: str
    pairs: list[tuple[str, str]]
    forms: list[str]
    joined: list[bool]
    kinds: list[int]
    words: list[int]
    consumed: list[bool]
    hits: list[tuple[int, int, int]]

    @property
    def starts(self) -> list[int]:
        return _starts(self.text, self.pairs)


def read_short(
    text: str, parts: Callable[[], Sequence[int]], base: BaseVocabulary, custom: CustomWords
) -> ShortReading | None:
    """Resolve every token of `text`; None if it has characters that only `tokens.tokenise` supports.

    No compound crosses the positions `parts()` (sentence starts), which is called only if a compound might.
    """
    pairs = short_tokens(text)
    if pairs is None:
        return None
    forms = [form for form, _ in pairs]
    joined = [True] * len(pairs)
    may_part = False
    for at, (form, gap) in enumerate(pairs):
        if gap != " ":
            joined[at] = _joins(form, gap)
            may_part |= joined[at] and _MAY_PART.search(gap) is not None
    joined[-1:] = [False] * len(joined[-1:])
    if may_part:
        starts = _starts(text, pairs)
        for part in parts():
            token = bisect_left(starts, part)
            if token:
                joined[token - 1] = False
    kinds, words, part_ids = unpack(base.codes(forms))
    compounds = base.few_compounds(part_ids, words, joined)
    if len(custom):
        words = [
            custom.find_form(form) if word < 0 and kind == WORD else word
            for form, kind, word in zip(forms, kinds, words, strict=True)
        ]
    consumed = [False] * len(forms)
    for first, length, _ in compounds:
        consumed[first : first + length] = [True] * length
    hits = [(at, word, 1) for at, word in enumerate(words) if word >= 0 and not consumed[at]]
    more = [(first, word, length) for first, length, word in compounds]
    more += custom.few_compounds(forms, joined)
    if more:
        hits = sorted(hits + more, key=lambda hit: hit[0])
    return ShortReading(text, pairs, forms, joined, kinds, words, consumed, hits)


def _starts(text: str, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """Start offsets of tokens, given as pairs of form and gap up to the end of the text."""
    lengths = [len(form) + len(gap) for form, gap in pairs]
    return list(accumulate(lengths, initial=len(text) - sum(lengths)))[:-1]


def _joins(form: str, gap: str) -> bool:
    """Whether a token and the next are adjacent, given the gap between them."""
    if form in TITLES and gap.startswith("."):
        gap = gap[1:]  # the stop of "St. Louis" is part of the spelling
    return not gap.strip(_JOINING)
