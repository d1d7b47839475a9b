"""The words of a piece of text between white space that is not just a word: *node.js*, *C++*, *2024-03-15*.

A piece has compounds: runs of letters and digits joined by signs. The *parts* of a compound are its words in
their order, split also where small letters meet capitals and letters meet digits (*getUserProfile*, *GPT4*).
Its *whole* is one more word at the place of the first part, so that a compound stands above its parts, and
joined, split and hyphenated spellings meet:

    e-mail, E-Mail, email               email
    GPT-4, GPT4                         gpt4
    Node.js, nodejs                     nodejs
    user_profile, UserProfile           userprofile
    3.1.2, v3.1.2                       3.1.2
    1,234.50                            1234.50
    2024-03-15, 9:45, 12/24             with their signs between digits
    978-3-16-148410-0                   9783161484100, from `MIN_NUMBER_DIGITS` digits on
    AT&T, C++, .NET, @handle, $PATH     with their signs

A single letter with such a sign is no word without it: C++ has no part *c*. The whole of an abbreviation that
is spelled like a stop word is in capitals: U.S. is US, not *us*.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lagoon.tokens import STOP_WORDS
from shoal.words import terms
from shoal.words.terms import (
    APOSTROPHES,
    DEGREE,
    HYPHENS,
    LINKS,
    MAX_LETTERS,
    PREFIXES,
    SUFFIXES,
    TIMES,
    form_of,
    word_pattern,
)

MIN_NUMBER_DIGITS, MAX_NUMBER_DIGITS = 9, 20
"""Digits of a number that is written with or without separators: of a telephone, a card or a book."""
MAX_CHANGES = 3
"""Changes between letters and digits in a word that is split there. A word with more is encoded data."""
MAX_SPLIT = 40
"""Letters of a word that is split."""
MAX_CLITIC = 2
"""Letters behind an apostrophe that make no other word of the word before it: *cat's*, *they'll*."""
MAX_CACHED_CHARS = 48

_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)", re.IGNORECASE)
_SUBWORD = re.compile(r"[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]{2,}s(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_VERSION = re.compile(r"v\d+\.\d")
_THOUSANDS = re.compile(r"\d{1,3}(?:[,'’]\d{3})+(?:\.\d+)?")
_BEFORE_PREFIX = frozenset("([{<\"'“„«‹「,;=|")


class Word(NamedTuple):
    """A word in a text.

    start, end  in code points, end exclusive
    advances    whether it stands behind the word before it; otherwise at the same position
    """

    form: str
    start: int
    end: int
    advances: bool = True


def words_of_piece(piece: str) -> Sequence[Word]:
    """Return the words of a piece of text without white space, in order."""
    return _cached(piece) if len(piece) <= MAX_CACHED_CHARS else tuple(_words(piece))


@functools.lru_cache(maxsize=50_000)
def _cached(piece: str) -> Sequence[Word]:
    return tuple(_words(piece))


def _words(piece: str) -> Iterator[Word]:
    spans = [match.span() for match in word_pattern(piece).finditer(piece)]
    if not piece.isascii():
        spans = [run for span in spans for run in _runs(piece, *span)]
    done = first = 0
    while first < len(spans):
        last = first
        while last + 1 < len(spans) and _are_linked(piece, spans[last], spans[last + 1]):
            last += 1
        start, end = _with_signs(piece, spans[first][0], spans[last][1])
        yield from _pictures(piece, done, start)
        if terms.is_without_spaces(piece[spans[first][0]]):
            yield from _bigrams(piece, *spans[first])
        else:
            yield from _compound(piece, spans[first : last + 1], start, end)
        done, first = end, last + 1
    if not spans:
        yield from _signs(piece)
    else:
        yield from _pictures(piece, done, len(piece))


def _runs(piece: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a run of letters and digits in scripts with and without spaces between words."""
    if not any(map(terms.is_without_spaces, piece[start:end])):
        yield start, end
        return
    at = start
    while at < end:
        # A mark belongs to the letter before it.
        kind, stop = terms.is_without_spaces(piece[at]), at + 1
        while stop < end and (terms.is_without_spaces(piece[stop]) == kind or not (piece[stop].isalnum())):
            stop += 1
        yield at, stop
        at = stop


def _are_linked(piece: str, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether two neighbouring runs belong to one compound."""
    a, sign, b = piece[first[1] - 1], piece[first[1] : second[0]], piece[second[0]]
    if len(sign) != 1 or sign not in LINKS:
        return False
    if not (a.isascii() and b.isascii()) and any(map(terms.is_without_spaces, (a, b))):
        return False
    if sign == "/" and first[1] - first[0] == second[1] - second[0] == 1 and a.isalpha() and b.isalpha():
        return piece[second[1] : second[1] + 1] not in SUFFIXES
    if sign in ",/:":
        return a.isdigit() and b.isdigit()
    if sign == DEGREE:
        return a.isdigit() and b.isalpha()
    return True


def _with_signs(piece: str, start: int, end: int) -> tuple[int, int]:
    """The place of a compound with the signs that belong to it."""
    first, last = start, end
    if start and piece[start - 1] in PREFIXES:
        at = start - 2 if piece[:start].endswith("--") else start - 1
        sign = piece[at]
        if (at == 0 or piece[at - 1] in _BEFORE_PREFIX) and (sign != "." or piece[start].isalpha()):
            first = at
    if end < len(piece) and piece[end] in SUFFIXES:
        stop = end + 2 if piece[end : end + 2] == "++" else end + 1
        is_end = stop == len(piece) or not piece[stop].isalnum()
        is_name = piece[end] == "+" or (piece[end] == "#" and end - start <= 2) or piece[end - 1].isdigit()
        if is_end and is_name:
            last = stop
    return first, last


def _compound(piece: str, spans: Sequence[tuple[int, int]], start: int, end: int) -> Iterator[Word]:
    if (
        len(spans) > 1
        and piece[spans[-1][0] - 1] in APOSTROPHES
        and spans[-1][1] - spans[-1][0] <= MAX_CLITIC
    ):
        yield from _compound(piece, spans[:-1], start, spans[-2][1])
        yield from _parts(piece, *spans[-1])
        return
    prefix, suffix = piece[start : spans[0][0]], piece[spans[-1][1] : end]
    parts = [part for span in spans for part in _parts(piece, *span)]
    forms = [form_of(piece[a:b]) for a, b in spans]
    whole = _joined(forms, [piece[a[1] : b[0]] for a, b in itertools.pairwise(spans)])
    if _VERSION.match(whole):
        whole = whole[1:]
    wholes = []
    if prefix or suffix:
        wholes.append(prefix + whole + suffix)
        if len(parts) == 1 and len(whole) == 1 and suffix and whole.isalpha():
            yield Word(wholes[0], start, end)
            return
    if len(parts) > 1:
        wholes.append(whole.upper() if whole in STOP_WORDS and piece[start:end].isupper() else whole)
    yield parts[0]
    for form in wholes:
        if len(form) <= MAX_LETTERS:
            yield Word(form, start, end, advances=False)
    yield from parts[1:]


def _parts(piece: str, start: int, end: int) -> Iterator[Word]:
    """The words of a run of letters and digits."""
    run = piece[start:end]
    if not run.isascii():
        yield from _number_parts(piece, start, end)
        return
    if len(run) == 1 or run.isdigit() or (run.isalpha() and run[1:].islower()):
        yield Word(run.lower(), start, end)
        return
    subwords = list(_SUBWORD.finditer(run)) if len(run) <= MAX_SPLIT else []
    n_changes = sum(
        a.group()[-1].isdigit() != b.group()[0].isdigit() for a, b in itertools.pairwise(subwords)
    )
    if len(subwords) < 2 or n_changes > MAX_CHANGES or _ORDINAL.fullmatch(run):
        yield Word(run.lower(), start, end)
        return
    for subword in subwords:
        yield Word(subword.group().lower(), start + subword.start(), start + subword.end())


def _number_parts(piece: str, start: int, end: int) -> Iterator[Word]:
    """The words of a run with letters beyond ASCII, split between letters and digits: CO₂."""
    bounds = [at for at in range(start + 1, end) if piece[at - 1].isdigit() != piece[at].isdigit()]
    bounds = [at for at in bounds if piece[at - 1].isalnum() and piece[at].isalnum()]
    if len(bounds) > MAX_CHANGES:
        bounds = []
    for a, b in itertools.pairwise([start, *bounds, end]):
        yield Word(form_of(piece[a:b]), a, b)


def _joined(forms: Sequence[str], signs: Sequence[str]) -> str:
    """The whole of a compound of these forms and the signs between them."""
    if len(forms) == 1:
        return forms[0]
    if all(map(str.isdigit, forms)):
        written = "".join(form + sign for form, sign in zip(forms, (*signs, ""), strict=True))
        if _THOUSANDS.fullmatch(written):
            return written.translate(_NO_THOUSANDS)
        n_digits = sum(map(len, forms))
        if MIN_NUMBER_DIGITS <= n_digits <= MAX_NUMBER_DIGITS and all(sign in HYPHENS for sign in signs):
            return "".join(forms)
    whole = forms[0]
    for sign, form in zip(signs, forms[1:], strict=True):
        whole += _between(sign, whole[-1].isdigit() and form[0].isdigit()) + form
    return whole


_NO_THOUSANDS = str.maketrans("", "", ",'’")


def _between(sign: str, is_number: bool) -> str:
    """What stands for a sign in a whole."""
    if sign in "&@" or (sign == "/" and not is_number):
        return sign
    if sign == DEGREE:
        return DEGREE
    if sign == TIMES:
        return "x"
    if not is_number or sign in APOSTROPHES:
        return ""
    return "-" if sign in f"{HYPHENS}_" else "." if sign == "," else sign


def _bigrams(piece: str, start: int, end: int) -> Iterator[Word]:
    """Every two neighbouring letters, and each letter at the same position, of a script without spaces."""
    starts = [at for at in range(start, end) if piece[at].isalnum()]
    ends = [*starts[1:], end]
    forms = [form_of(piece[a:b]) for a, b in zip(starts, ends, strict=True)]
    for i, at in enumerate(starts):
        if i + 1 < len(starts):
            yield Word(forms[i] + forms[i + 1], at, ends[i + 1])
        yield Word(forms[i], at, ends[i], advances=i + 1 == len(starts))


def _pictures(piece: str, start: int, end: int) -> Iterator[Word]:
    """The emoji and symbols between words."""
    if piece.isascii():
        return
    for at in range(start, end):
        if terms.is_pictograph(piece[at]):
            yield Word(piece[at], at, at + 1, advances=False)


def _signs(piece: str) -> Iterator[Word]:
    """The word of a piece of signs alone: *&&*, *->*, an emoji."""
    pictures = list(_pictures(piece, 0, len(piece)))
    if pictures:
        yield from pictures
    elif len(piece) <= MAX_CHANGES and not all(char in terms.NO_WORDS for char in piece):
        yield Word(piece, 0, len(piece), advances=False)
