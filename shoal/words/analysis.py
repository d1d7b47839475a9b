"""The analysis of words: which words a text has, where, and which of them share a position.

The index, queries, notes, synonyms, highlights and suggestions use it. Reefs, chunks and learned words are
made of the tokens of `lagoon`, which its tables were counted on, and `shoal.grounding.words` reads
statements.

A word is a token of `lagoon.tokens`; or a part or the whole of a compound (`shoal.words.compounds`); or one
of these kinds:

    quantities      a number and its unit also stand as one word: *230 V* has 230v, *M8 x 40* has m8x40;
                    so do the groups of a long number or account, *+49 30 901820*, and clauses: *12(a)* has
                    12a
    capitals        a stop word or single letter in capitals stands also as written: WHO, IT, *vitamin* C
    signs           emoji, symbols and signs that stand alone: 🚀, &&, ->
    neighbours      in scripts without spaces between words, every two neighbouring letters, and every letter
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.keys import expand_spans, narrow
from lagoon.tokens import STOP_WORDS, TokenStream, tokenise
from shoal.words import characters
from shoal.words.compounds import Word, words_of_piece

MAX_PIECE = 256
"""Characters of a piece without white space that is looked into; a longer one is encoded data, unless it is
of a script without spaces."""

_UNITS = """
    % ° °C °F °K C F K V kV mV A mA Ah mAh W kW MW GW Wh kWh MWh Hz kHz MHz GHz N kN Nm J kJ MJ Pa hPa kPa MPa
    bar psi m km cm mm nm µm μm ft in mi yd l L ml mL cl dl g kg mg µg μg t lb lbs oz s ms ns µs μs h min B KB
    kB MB GB TB PB KiB MiB GiB TiB bit kbit Mbit Gbit bps kbps Mbps Gbps dB lm lx cd mol rpm fps px dpi ppm
    ppb mph kn Ω kΩ MΩ F µF nF pF H mH € $ £ ¥ EUR USD GBP CHF
"""
_UNIT = "|".join(sorted(map(re.escape, _UNITS.split()), key=len, reverse=True))
_QUANTITY = re.compile(rf"(\d+(?:[.,]\d+)*)[ \u00a0\u202f]({_UNIT})(?!\w)")
_SIZE = re.compile(r"(\d{1,6})[ \u00a0][x×][ \u00a0](\d{1,6})(?!\w)")
_NUMBER = re.compile(r"\d{1,8}(?:(?:[ \u00a0\u202f/-]|\) ?| ?\()\d{1,8}){1,8}(?![\w.,:])")
_THOUSANDS = re.compile(r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+")
_CLAUSE = re.compile(r"(\d{1,6})\(([a-z])\)")
_ACCOUNT = re.compile(
    r"[A-Z]{2}\d\d(?:[ \u00a0\u202f][A-Z0-9]{4}){2,7}(?:[ \u00a0\u202f][A-Z0-9]{1,4})?(?!\w)"
)
"""An international bank account number (ISO 13616), printed in groups of four."""
_N_DIGITS = range(9, 16)
"""Digits of a number in groups."""

_ODD = re.compile(r"[^A-Za-z\s,;:!?()\"]|[A-Za-z][A-Z]|(?<![A-Za-z])[A-Z](?![a-z])")
"""What plain words do not have: digits, signs, and capitals inside words or alone."""
_RUN = re.compile(r"[A-Za-z]+")

_N_CLASSES = 8
_NONE, _SMALL, _CAPITAL, _DIGIT, _SPACE, _SIGN, _SUFFIX, _ALONE = range(_N_CLASSES)
_UNSEEN = _N_CLASSES
_SIGNS = characters.LINKS | characters.PREFIXES


def _class_of(char: str) -> int:
    if char.isspace():
        return _SPACE
    if characters.is_without_spaces(char) or characters.is_pictograph(char):
        return _ALONE
    if char.isdigit():
        return _DIGIT
    if char.isalpha():
        return _CAPITAL if char.isupper() else _SMALL
    if char in characters.SUFFIXES:
        return _SUFFIX
    return _SIGN if char in _SIGNS else _NONE


_BYTE_CLASSES = bytes(_class_of(chr(point)) for point in range(256))
_CLASSES = np.full(0x110000, _UNSEEN, dtype=np.uint8)
"""By code point, of characters without a byte; computed on first use."""

# What two neighbouring characters say of their piece.
_PLAIN_PAIR, _ODD_PAIR, _CAPITALS, _SPACE_SIGN = range(4)
_LETTERS = (_SMALL, _CAPITAL)
_WORDS = (*_LETTERS, _DIGIT)
_OTHERS = (_NONE, _SIGN, _SUFFIX)
_IS_OTHER = np.isin(np.arange(_N_CLASSES), _OTHERS)


def _kind_of_pair(first: int, second: int) -> int:
    if first == _SPACE and second in _OTHERS:
        return _SPACE_SIGN
    if first == second == _CAPITAL:
        return _CAPITALS
    is_odd = (
        first == _ALONE
        or (first in _LETTERS and second == _DIGIT)
        or (first == _DIGIT and second in _LETTERS)
        or (first == _SMALL and second == _CAPITAL)
        or (first in (_SIGN, _SUFFIX) and second in _WORDS)
        or (first in _WORDS and second == _SUFFIX)
    )
    return _ODD_PAIR if is_odd else _PLAIN_PAIR


_PAIRS = bytes(_kind_of_pair(*divmod(pair, _N_CLASSES)) for pair in range(_N_CLASSES**2)).ljust(256, b"\0")


@dataclass(frozen=True)
class WordStream:
    """The words of one text, in order.

    forms     distinct forms
    ids       i32 (n,): index into `forms`
    starts, ends   i64 (n,): span in code points of the text
    advances  bool (n,): whether the word stands behind the one before it, or at the same position
    anchors   i64 (n,), ascending: from where on the words of its piece of the text begin
    capitals  bool (n,): whether it begins with a capital letter
    """

    forms: Sequence[str]
    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    advances: NDArray[np.bool_]
    anchors: NDArray[np.int64]
    capitals: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def positions(self) -> NDArray[np.int64]:
        """The position of each word: 1 for the first that advances."""
        return np.cumsum(self.advances, dtype=np.int64)

    def words(self) -> Iterator[Word]:
        """Yield the words one by one."""
        for index, *place in zip(
            self.ids.tolist(), self.starts.tolist(), self.ends.tolist(), self.advances.tolist(), strict=True
        ):
            yield Word(self.forms[index], *place)


class _Rows(NamedTuple):
    """Words as columns, of the kinds of `WordStream`."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    advances: NDArray[np.bool_]
    anchors: NDArray[np.int64]


def analyze_words(text: str) -> WordStream:
    """Return the words of a text, in time linear in its length."""
    tokens = tokenise(text)
    classes = _classify(text)
    starts, ends = _odd_pieces(classes)
    spaced = list(_spaced(text, classes))
    every = np.ones(len(tokens), dtype=np.bool_)
    rows = _Rows(tokens.ids, tokens.starts, tokens.ends, every, tokens.starts)
    numbers = dict(zip(tokens.forms, itertools.count()))
    groups = [rows]
    if len(starts) or spaced:
        kept = _are_outside(tokens, starts, ends)
        pieces = _of_pieces(text, starts, ends, numbers)
        places, names = _names(text, classes, pieces, numbers)
        if len(places):
            pieces = _in_order([pieces, names], np.concatenate([np.arange(len(pieces.ids)), places]))
        groups = [_Rows._make(column[kept] for column in rows), pieces, _of_words(spaced, numbers)]
    _, names = _names(text, classes, groups[0], numbers)
    if len(groups) > 1 or len(names.ids):
        rows = _in_order([*groups, names])
    return WordStream(list(numbers), *rows, classes[rows.starts] == _CAPITAL)


def analyze_texts(texts: Sequence[str]) -> tuple[WordStream, NDArray[np.int64]]:
    """Return the words of several texts, and where those of each start among them, and the end. Read
    together, short texts take a fifth of the time."""
    stream = analyze_words("\n".join(texts))
    ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
    return stream, np.concatenate([[0], np.searchsorted(stream.anchors, ends)])


def words_of(text: str) -> list[Word]:
    """Return the words of a short text."""
    if text.isascii() and not _ODD.search(text):
        # Arrays take longer than a text of plain words.
        return [Word(match.group().lower(), *match.span()) for match in _RUN.finditer(text)]
    return list(analyze_words(text).words())


def _classify(text: str) -> NDArray[np.uint8]:
    data, wide, codes = narrow(text)
    classes = np.frombuffer(bytearray(data).translate(_BYTE_CLASSES), dtype=np.uint8)
    if wide.size:
        of_codes = _CLASSES[codes]
        unseen = codes[of_codes == _UNSEEN]
        if unseen.size:
            for point in np.unique(unseen).tolist():
                _CLASSES[point] = _class_of(chr(point))
            of_codes = _CLASSES[codes]
        classes[wide] = of_codes
    return classes


def _odd_pieces(classes: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The starts and ends of the pieces between white space that may have other words than tokens."""
    # The text between spaces, and what two neighbours say of it in one pass.
    spaced = np.full(len(classes) + 5, _SPACE, dtype=np.uint8)
    spaced[1:-4] = classes
    pairs = spaced[:-4] * np.uint8(_N_CLASSES)
    pairs += spaced[1:-3]
    kinds = np.frombuffer(pairs.tobytes().translate(_PAIRS), dtype=np.uint8)
    places = np.flatnonzero(kinds)
    kinds = kinds[places]
    third, fourth, fifth = (spaced[places + n] for n in (2, 3, 4))
    # One, two or three signs between white space.
    is_alone = _IS_OTHER[third] & ((fourth == _SPACE) | (_IS_OTHER[fourth] & (fifth == _SPACE)))
    is_alone |= third == _SPACE
    # HTTPServer, but not PCs.
    is_odd = (kinds == _ODD_PAIR) | ((kinds == _SPACE_SIGN) & is_alone)
    is_odd |= (kinds == _CAPITALS) & (third == _SMALL) & (fourth == _SMALL)
    odd = places[is_odd] - (kinds[is_odd] != _SPACE_SIGN)
    spaces = np.flatnonzero(spaced == _SPACE) - 1
    numbers = np.unique(np.searchsorted(spaces, odd, side="right"))
    starts, ends = spaces[numbers - 1] + 1, spaces[numbers]
    is_short = ends - starts <= MAX_PIECE
    if not is_short.all():
        is_short |= np.add.reduceat(classes == _ALONE, starts, dtype=np.int64) > 0
    return starts[is_short], ends[is_short]


def _spaced(text: str, classes: NDArray[np.uint8]) -> Iterator[Word]:
    """The quantities and numbers with spaces inside them, as words at the position of their first one."""
    is_first = classes == _DIGIT
    is_first[1:] &= classes[:-1] != _DIGIT
    end = 0
    for at in np.flatnonzero(is_first).tolist():
        before = text[at - 1] if at else " "
        if quantity := None if before in ".,:/-" or before.isalnum() else _QUANTITY.match(text, at):
            yield Word(quantity[1].replace(",", ".") + quantity[2].lower(), *quantity.span(), advances=False)
        elif size := _SIZE.match(text, at):
            start = at - 1 if before.isalpha() else at
            yield Word(f"{text[start:at].lower()}{size[1]}x{size[2]}", start, size.end(), advances=False)
        elif clause := None if before.isalnum() else _CLAUSE.match(text, at):
            yield Word(clause[1] + clause[2], *clause.span(), advances=False)
        elif (
            account := _ACCOUNT.match(text, at - 2)
            if at > 1 and not text[at - 3 : at - 2].isalnum()
            else None
        ):
            end = account.end()
            yield Word("".join(filter(str.isalnum, account[0])).lower(), *account.span(), advances=False)
        elif at >= end and before not in ".,:/-" and (number := _NUMBER.match(text, at)):
            end = number.end()
            digits = "".join(filter(str.isdigit, number.group()))
            is_long = len(digits) in _N_DIGITS and not number.group().replace("-", "").isdigit()
            if is_long or _THOUSANDS.fullmatch(number.group()):
                yield Word(digits, *number.span(), advances=False)


def _are_outside(
    tokens: TokenStream, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which tokens stand outside some pieces."""
    is_outside = np.ones(len(tokens), dtype=np.bool_)
    first, end = np.searchsorted(tokens.starts, starts), np.searchsorted(tokens.starts, ends)
    is_outside[expand_spans(first, end - first)[0]] = False
    return is_outside


def _of_pieces(
    text: str, starts: NDArray[np.int64], ends: NDArray[np.int64], numbers: dict[str, int]
) -> _Rows:
    """The words of pieces; equal ones are read once. `numbers` get those of new forms."""
    distinct: dict[str, int] = {}
    pieces = [
        distinct.setdefault(text[start:end], len(distinct))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    words = [words_of_piece(piece) for piece in distinct]
    of_distinct = _of_words(list(itertools.chain.from_iterable(words)), numbers)
    sizes = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    order = np.array(pieces, dtype=np.int64)
    places, _ = expand_spans((np.cumsum(sizes) - sizes)[order], sizes[order])
    anchors = np.repeat(starts, sizes[order])
    return _Rows(
        of_distinct.ids[places],
        of_distinct.starts[places] + anchors,
        of_distinct.ends[places] + anchors,
        of_distinct.advances[places],
        anchors,
    )


def _of_words(words: Sequence[Word], numbers: dict[str, int]) -> _Rows:
    """Words with their own places as anchors. `numbers` get those of new forms."""
    ids = np.array([numbers.setdefault(word.form, len(numbers)) for word in words], dtype=np.int32)
    starts = np.array([word.start for word in words], dtype=np.int64)
    ends = np.array([word.end for word in words], dtype=np.int64)
    advances = np.array([word.advances for word in words], dtype=np.bool_)
    return _Rows(ids, starts, ends, advances, starts)


def _in_order(rows: Sequence[_Rows], keys: NDArray[np.int64] | None = None) -> _Rows:
    """Words by ascending keys, their anchors if there are none; those of one key stay in order."""
    together = _Rows._make(map(np.concatenate, zip(*rows, strict=True)))
    order = np.argsort(together.anchors if keys is None else keys, kind="stable")
    return _Rows._make(column[order] for column in together)


def _names(
    text: str, classes: NDArray[np.uint8], rows: _Rows, numbers: dict[str, int]
) -> tuple[NDArray[np.int64], _Rows]:
    """The places of the stop words and single letters in capitals that are names, and these as written."""
    is_candidate = rows.advances & (classes[rows.starts] == _CAPITAL)
    is_candidate &= classes[rows.ends - 1] == _CAPITAL
    is_candidate &= rows.ids != numbers.get("i", -1)
    candidates = np.flatnonzero(is_candidate)
    forms = list(numbers)
    of_candidates = (candidates, *(column[candidates] for column in rows[:3]))
    found = [
        (place, Word(text[start:end], start, end, advances=False))
        for place, number, start, end in zip(*(column.tolist() for column in of_candidates), strict=True)
        if (len(forms[number]) == 1 or forms[number] in STOP_WORDS) and is_name_in_capitals(text, start, end)
    ]
    places = np.array([place for place, _ in found], dtype=np.int64)
    return places, _of_words([name for _, name in found], numbers)._replace(anchors=rows.anchors[places])


_NO_NAMES = frozenset(("I", "AND", "OR", "NOT", "THE"))
_SENTENCE_ENDS = frozenset(".!?:\n\r\"“”‘’'([{#*>-–—•|;")
_AROUND = 24
"""Characters before and behind a word in capitals, among which a small letter must be."""


def is_name_in_capitals(text: str, start: int, end: int) -> bool:
    """Return whether a stop word or single letter is written in capitals because it is a name.

    Not *I*, an *A* at the beginning of a sentence, a letter inside a compound, or a word among others in
    capitals.
    """
    word = text[start:end]
    if not word.isupper() or word in _NO_NAMES or (len(word) > 1 and not word.isalpha()):
        return False
    if _is_joined(text[max(start - 2, 0) : start][::-1]) or _is_joined(text[end : end + 2]):
        return False
    if len(word) == 1:
        before = text[max(start - 3, 0) : start].rstrip(" \t")
        return word != "A" or (bool(before) and before[-1] not in _SENTENCE_ENDS)
    around = text[max(start - _AROUND, 0) : start] + text[end : end + _AROUND]
    return any(map(str.islower, around)) or not any(map(str.isalpha, around))


def _is_joined(beside: str) -> bool:
    """Whether the two characters beside a word, the nearer one first, make it part of a compound."""
    if beside[:1] == ".":
        return beside[1:].isalnum()
    return beside[:1].isalnum() or (bool(beside) and beside[0] in "-_&'’@°")
