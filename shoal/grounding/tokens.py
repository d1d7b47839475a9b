"""Tokens of a text, and when two of them state the same."""

from __future__ import annotations

import enum
import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

from lagoon.tokens import is_stop_word, normalise
from shoal.grounding.notations import Unit

ORDINAL_END = re.compile(r"(?:\dst|\dnd|\drd|\dth|first|second|third|fifth|[a-z]th|\ds)\Z")
"""The end of an ordinal, or of a plural of digits: "20th", "third", "1990s"."""


class Kind(enum.StrEnum):
    """What a token is. All but words and signs are exact: they are compared whole."""

    word = "word"
    sign = "sign"
    number = "number"
    date = "date"
    time = "time"
    version = "version"
    address = "address"
    code = "code"
    letter = "letter"


Day = tuple[int | None, int | None, int | None]
"""Year, month and day, as far as they are given."""


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a text, `text[start:end]`.

    form     as written, in lower case, with width and accents folded
    key      equal for the same thing in another form: the stem of a word, a code without separators
    initial  whether it begins a sentence, so that a capital says nothing
    values   what a number may stand for; more than one if its notation is ambiguous
    unit     the unit of a number; `implied` if it stands behind a later number: "10 to 12 km"
    days     what a date may stand for
    """

    kind: Kind
    start: int
    end: int
    text: str
    form: str
    key: str
    initial: bool = False
    values: tuple[Decimal, ...] = ()
    unit: Unit | None = None
    implied: bool = False
    days: tuple[Day, ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.kind not in (Kind.word, Kind.sign)

    @property
    def is_name(self) -> bool:
        """Whether it is a capitalised word that does not begin its sentence."""
        return self.kind is Kind.word and not self.initial and self.is_capitalised

    @property
    def is_capitalised(self) -> bool:
        return self.kind is Kind.word and self.text[:1].isupper() and not self.is_common

    @property
    def is_common(self) -> bool:
        """Whether it is a stop word; an acronym such as "WHO" is none, nor is the month May."""
        is_month = self.text == "May" and not self.initial
        return self.kind is Kind.word and not is_month and not self.key.isupper() and is_stop_word(self.form)


def same(one: Token, other: Token) -> bool | None:
    """Whether two exact tokens state the same; None if their notations leave it open."""
    if one.form == other.form and (one.unit == other.unit or one.implied or other.implied):
        return True
    kinds = {one.kind, other.kind}
    if kinds == {Kind.number}:
        return _same_number(one, other)
    if kinds == {Kind.date}:
        return _same_date(one, other)
    if kinds == {Kind.date, Kind.number}:
        # A year alone is part of a date; only the stated part must agree.
        date, number = (one, other) if one.kind is Kind.date else (other, one)
        return one is number and number.unit is None and any(day[0] in number.values for day in date.days)
    if kinds == {Kind.version, Kind.number}:
        return one.key == other.key
    return one.kind is other.kind and one.key == other.key


def _same_number(one: Token, other: Token) -> bool | None:
    if one.unit and other.unit and not (one.implied or other.implied):
        if one.unit.measures != other.unit.measures:
            return False
        first = {value * one.unit.factor for value in one.values}
        second = {value * other.unit.factor for value in other.values}
    else:
        first, second = set(one.values), set(other.values)
    if not first & second:
        return False
    return True if len(first) == len(second) == 1 else None


def _same_date(stated: Token, other: Token) -> bool | None:
    """Whether each part of a stated date is in another date."""
    agreeing = [
        [
            all(part is None or part == known for part, known in zip(day, found, strict=True))
            for found in other.days
        ]
        for day in stated.days
    ]
    if not any(map(any, agreeing)):
        return False
    return True if len(stated.days) == len(other.days) == 1 else None


def identity(token: Token) -> str:
    """Return what two tokens that are written in different ways have in common, where that is one text."""
    return format(token.values[0].normalize(), "f") if token.values else token.key


def fold(text: str) -> str:
    """Return a text in lower case, with width and forms of signs folded."""
    return unicodedata.normalize("NFKC", text).casefold().replace("−", "-").replace("μ", "µ")


def is_day(day: Day) -> bool:
    _, month, number = day
    return (month is None or 1 <= month <= 12) and (number is None or 1 <= number <= 31)


def hour_of_day(hour: int, half: str | None) -> int:
    if not half or hour > 12:
        return hour
    return hour % 12 + (12 if half[0] in "pP" else 0)


def make_word(text: str, at: int) -> Token:
    form = (text.lower() if text.isascii() else normalise(text)) or fold(text)
    return Token(Kind.word, at, at + len(text), text, form, form)
