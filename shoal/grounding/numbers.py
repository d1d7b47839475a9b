"""The numbers of a text as values, so that "7,700", "7700" and "seven thousand seven hundred" are equal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

MAX_DIGITS = 24
"""Longer runs of digits are codes; their first digits are compared."""

_SMALL = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS = {word: value for value, word in enumerate(_SMALL.split())}
_TENS_OF = {word: 10 * value for value, word in enumerate(_TENS.split(), start=2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
NUMBER_WORDS = frozenset({*_UNITS, *_TENS_OF, *_SCALES, "hundred"})

_PIECE = re.compile(r"(?P<digits>\d+(?:[.,]\d+)*)|(?P<word>[^\W\d_]+)|(?P<gap>[^\w\s-])")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def find_numbers(text: str) -> frozenset[Decimal]:
    """Return the numbers that a text gives in digits or in English words.

    Ordinals and plurals without digits ("third", "thousands") are no numbers; "1990s" is 1990.
    """
    return frozenset(_numbers(text))


def _numbers(text: str) -> Iterator[Decimal]:
    reader = _Reader()
    for piece in _PIECE.finditer(text):
        if piece["digits"]:
            yield from reader.end()
            *others, last = _values(piece["digits"])
            yield from others
            reader.begin(last)
        elif piece["word"]:
            yield from reader.read(piece["word"].lower())
        else:
            yield from reader.end()
    yield from reader.end()


def _values(digits: str) -> list[Decimal]:
    """The values of digits with separators: one, or each part if they are a list or a date."""
    if _THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    if "," in digits or digits.count(".") > 1:
        return [Decimal(part[:MAX_DIGITS]) for part in re.split("[.,]", digits)]
    return [Decimal(digits[:MAX_DIGITS])]


class _Reader:
    """Adds up the words of one number: "two hundred and fifty thousand"."""

    def __init__(self) -> None:
        self._total: Decimal | None = None
        """Thousands and more, once a scale has been read."""
        self._group: Decimal | None = None
        """The number below the next scale."""
        self._is_word = False

    def begin(self, value: Decimal) -> None:
        """Begin a number that is given in digits."""
        self._group, self._is_word = value, False

    def read(self, word: str) -> Iterator[Decimal]:
        """Read the next word; yield the number that it ends."""
        value = _UNITS.get(word, _TENS_OF.get(word))
        if value is not None:
            if not self._takes(value):
                yield from self.end()
            self._group = (self._group or Decimal(0)) + value
            self._is_word = True
        elif word == "hundred" and self._group is not None and self._group < 100:
            self._group *= 100
            self._is_word = True
        elif word in _SCALES and self._group is not None:
            self._total = (self._total or Decimal(0)) + self._group * _SCALES[word]
            self._group = None
        elif not (word == "and" and self._group is not None and self._is_word and self._group >= 100):
            yield from self.end()

    def end(self) -> Iterator[Decimal]:
        """Yield the number that was being read."""
        if self._total is not None or self._group is not None:
            yield (self._total or Decimal(0)) + (self._group or Decimal(0))
        self._total = self._group = None

    def _takes(self, value: int) -> bool:
        """Whether a unit or ten continues the number, as "three" does after "twenty" and "hundred"."""
        if self._group is None:
            return True
        if not self._is_word:
            return False
        rest = self._group % 100
        return (rest == 0 and self._group > 0) or (rest >= 20 and rest % 10 == 0 and value < 10)
