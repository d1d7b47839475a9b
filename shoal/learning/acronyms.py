"""Acronyms with their expansions in a text, by the algorithm of Schwartz and Hearst (A simple algorithm for
identifying abbreviation definitions in biomedical text, Pacific Symposium on Biocomputing 8, 2003).

A definition is "long form (short form)" or "short form (long form)". Each letter and digit of the short form,
from the last to the first, must be in the long form in that order, and the first one begins a word. The long
form has at most min(n + 5, 2 n) words for a short form of n letters; words such as *of* do not count.

On top of the paper, at least two letters of a short form are capitals, and half of them, and the last word
of a long form in brackets begins with a letter of the short form. That leaves out most glosses in brackets.
If the letters are the initials of the words before, these are the long form: *International Institute of
Refrigeration (IIR)*. The paper's algorithm takes their shortest end. Time is linear in the length of the
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MIN_LETTERS, MAX_LETTERS = 2, 10
MAX_IN_BRACKETS = 100
"""Longest text in brackets that is read."""
MAX_BEFORE = 160
"""Characters before the brackets in which a long form is looked for."""
MAX_PER_TEXT = 200
"""Most definitions of a text; texts have a dozen at most, lists of abbreviations some hundred."""

_BRACKETS = re.compile(rf"\(([^()]{{2,{MAX_IN_BRACKETS}}})\)")
_SHORT = re.compile(r"[^\W_](?:[^\W_]|[-&/.](?=[^\W_]))*")
_PLAIN_WORD = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[^\W_](?:[\w'’&/-]*\w)?")
_PART_END = re.compile(r"[.;:!?\n(){}\[\]\"“”]\s*|,\s")
_SEPARATORS = re.compile(r"[;,]|\bor\b|\babbreviated\b")
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_AROUND = " ,\t\n'\"“”‘’"
_EDGES = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "and",
        "or",
        "in",
        "on",
        "for",
        "to",
        "by",
        "with",
        "from",
        "at",
        "as",
        "is",
        "are",
        "was",
        "were",
        "also",
        "called",
        "known",
        "its",
        "their",
    ]
)


class Definition(NamedTuple):
    """An acronym with its expansion; `text[start:end]` holds both, in code points."""

    acronym: str
    expansion: str
    start: int
    end: int


def find_definitions(text: str) -> list[Definition]:
    """Return the definitions of a text in order, at most MAX_PER_TEXT, each pair once."""
    found: dict[tuple[str, str], Definition] = {}
    for definition in _definitions(text):
        key = definition.acronym, definition.expansion.lower()
        found.setdefault(key, definition)
        if len(found) == MAX_PER_TEXT:
            break
    return list(found.values())


def _definitions(text: str) -> Iterator[Definition]:
    for brackets in _BRACKETS.finditer(text):
        start = max(0, brackets.start() - MAX_BEFORE)
        before = text[start : brackets.start()].rstrip(_AROUND)
        if len(before) < MIN_LETTERS:
            continue
        # "(WHO; founded 1948)" and "(or WHO)" hold the short form with more.
        inside = brackets[1].strip()
        short = _SEPARATORS.split(inside, maxsplit=1)[0].strip(_AROUND) or inside
        if is_short_form(short):
            long_form = _long_form_before(short, before)
            if long_form is not None:
                yield Definition(short, before[long_form:], start + long_form, brackets.end())
                continue
        word = _last_word(before)
        if word is not None and is_short_form(before[word:]):
            long_form_text = _ARTICLE.sub("", _SEPARATORS.split(inside, maxsplit=1)[0].strip(_AROUND))
            if _is_long_form_of(before[word:], long_form_text):
                yield Definition(before[word:], long_form_text, start + word, brackets.end())


def is_short_form(text: str) -> bool:
    """Whether a text may be an acronym: a letter, then 1 to 9 letters and digits; at least two of all are
    capitals, and half of the letters."""
    if not _SHORT.fullmatch(text):
        return False
    letters = [letter for letter in text if letter.isalnum()]
    if not MIN_LETTERS <= len(letters) <= MAX_LETTERS or not letters[0].isalpha():
        return False
    n_capitals = sum(letter.isupper() for letter in letters)
    return n_capitals >= 2 and 2 * n_capitals >= sum(letter.isalpha() for letter in letters)


def _last_word(before: str) -> int | None:
    """The start of the last word of a text, which white space precedes."""
    start = max(before.rfind(" "), before.rfind("\n")) + 1
    return start if start < len(before) else None


def _long_form_before(short: str, before: str) -> int | None:
    """The start of the long form that ends a text; None if there is none."""
    n_letters = sum(letter.isalnum() for letter in short)
    words = list(_WORD.finditer(before))
    ends = [end.end() for end in _PART_END.finditer(before)]
    first = ends[-1] if ends else 0
    candidates = [word.start() for word in words if word.start() >= first and word[0].lower() not in _EDGES]
    candidates = candidates[-min(n_letters + 5, 2 * n_letters) :]
    if not candidates:
        return None
    begin = candidates[0]
    in_range = [word for word in words if word.start() >= begin]
    of_initials = _first_by_initials(short, in_range)
    at = _spells(short, before[begin:]) if of_initials is None else of_initials - begin
    if at is None:
        return None
    # The whole of a compound: "Public–private partnerships".
    start = max(begin, before.rfind(" ", begin, begin + at) + 1)
    long_form = before[start:]
    n_words = len(_PLAIN_WORD.findall(long_form))
    if n_words < 2 or len(long_form) <= len(short) or short.lower() in long_form.lower().split():
        return None
    last = _WORD.findall(long_form)[-1].lower()
    first_word = _WORD.findall(long_form)[0].lower()
    return None if last in _EDGES or first_word in _EDGES else start


def _first_by_initials(short: str, words: Sequence[re.Match[str]]) -> int | None:
    """The start of the words that end a text and have the letters of a short form as their initials; short
    words between them may be left out. None if there are none."""
    letters = [letter for letter in short.lower() if letter.isalnum()]
    for word in reversed(words):
        form = word[0].lower()
        if form[0] == letters[-1]:
            letters.pop()
            if not letters:
                return word.start()
        elif form not in _EDGES:
            return None
    return None


def _is_long_form_of(short: str, text: str) -> bool:
    """Whether a text in brackets is, as a whole, the long form of the short form before it: it begins with
    its first letter, and its last word with one of its letters."""
    words = _WORD.findall(text)
    n_letters = sum(letter.isalnum() for letter in short)
    return (
        2 <= len(words) <= min(n_letters + 5, 2 * n_letters)
        and text[0].lower() == short[0].lower()
        and words[-1][0].lower() in short.lower()
        and words[0].lower() not in _EDGES
        and _spells(short, text) is not None
    )


def _spells(short: str, long_form: str) -> int | None:
    """The start of the shortest end of a long form that has the letters of a short form in order, the first
    at the beginning of a word; None if there is none."""
    short, text = short.lower(), long_form.lower()
    if len(text) != len(long_form):  # Lower case changed the length of a letter.
        text = long_form
    place = len(text)
    letters = [letter for letter in short if letter.isalnum()]
    for number in range(len(letters) - 1, -1, -1):
        place -= 1
        letter = letters[number]
        is_first = number == 0
        while place >= 0 and (
            text[place] != letter or (is_first and place > 0 and text[place - 1].isalnum())
        ):
            place -= 1
        if place < 0:
            return None
    return place
