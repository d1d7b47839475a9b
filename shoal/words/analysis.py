"""The analysis of words: which words a text has, where, and which of them share a position.

The index, queries, notes, synonyms, highlights and suggestions use it. Reefs, chunks and learned words are
made of the tokens of `lagoon`, which its tables were counted on, and `shoal.grounding.words` reads
statements.

A word is a token of `lagoon.tokens`; or a part or the whole of a compound (`shoal.words.compounds`); or one
of these kinds:

    quantities      a number and its unit also stand as one word: *230 V* has 230v, *M8 x 40* has m8x40;
                    so do the groups of a long number: *+49 30 901820*
    capitals        a stop word or single letter in capitals stands also as written: WHO, IT, *vitamin* C
    signs           emoji, symbols and signs that stand alone: 🚀, &&, ->
    neighbours      in scripts without spaces between words, every two neighbouring letters, and every letter
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.keys import narrow
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
_N_DIGITS = range(9, 16)
"""Digits of a number in groups."""

_ODD = re.compile(r"[^A-Za-z\s,;:!?()\"]|[A-Za-z][A-Z]|(?<![A-Za-z])[A-Z](?![a-z])")
"""What plain words do not have: digits, signs, and capitals inside words or alone."""
_RUN = re.compile(r"[A-Za-z]+")

_NONE, _SMALL, _CAPITAL, _DIGIT, _SPACE, _SIGN, _SUFFIX, _ALONE = range(8)
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


class _Found(NamedTuple):
    """A word found beside the tokens, and from where on the piece begins that it belongs to."""

    anchor: int
    word: Word


def analyze_words(text: str) -> WordStream:
    """Return the words of a text, in time linear in its length."""
    stream = tokenise(text)
    classes = _classify(text)
    pieces = _odd_pieces(text, classes)
    found = [each for start, end in pieces for each in _of_piece(text, start, end)]
    found += [_Found(word.start, word) for word in _spaced(text, classes)]
    kept = _without(stream, pieces)
    found += _capitals(text, classes, stream, kept)
    return _united(stream, kept, found, classes)


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
        distinct, places = np.unique(codes, return_inverse=True)
        of_codes = np.array([_class_of(chr(point)) for point in distinct.tolist()], dtype=np.uint8)
        classes[wide] = of_codes[places]
    return classes


def _odd_pieces(text: str, classes: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """The pieces between white space that may have other words than tokens."""
    if not len(classes):
        return []
    is_letter = (classes == _SMALL) | (classes == _CAPITAL)
    is_digit = classes == _DIGIT
    is_word = is_letter | is_digit
    is_odd = (classes == _ALONE) | _is_sign_alone(classes)
    is_sign = (classes == _SIGN) | (classes == _SUFFIX)
    is_odd[:-1] |= (
        (is_letter[:-1] & is_digit[1:])
        | (is_digit[:-1] & is_letter[1:])
        | ((classes[:-1] == _SMALL) & (classes[1:] == _CAPITAL))
        | (is_sign[:-1] & is_word[1:])
        | (is_word[:-1] & (classes[1:] == _SUFFIX))
    )
    # HTTPServer, but not PCs.
    is_capital, is_small = classes == _CAPITAL, classes == _SMALL
    is_odd[:-3] |= is_capital[:-3] & is_capital[1:-2] & is_small[2:-1] & is_small[3:]
    odd = np.flatnonzero(is_odd)
    spaces = np.concatenate([[-1], np.flatnonzero(classes == _SPACE), [len(classes)]])
    numbers = np.unique(np.searchsorted(spaces, odd, side="right"))
    starts, ends = spaces[numbers - 1] + 1, spaces[numbers]
    is_short = ends - starts <= MAX_PIECE
    if not is_short.all():
        has_alone = np.add.reduceat(classes == _ALONE, starts, dtype=np.int64) > 0
        is_short |= has_alone
    return list(zip(starts[is_short].tolist(), ends[is_short].tolist(), strict=True))


def _is_sign_alone(classes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where a piece begins with a sign that is no word: it may have signs alone."""
    is_sign = (classes == _NONE) | (classes == _SUFFIX) | (classes == _SIGN)
    is_first = np.ones(len(classes), dtype=np.bool_)
    is_first[1:] = classes[:-1] == _SPACE
    is_last = np.ones(len(classes), dtype=np.bool_)
    is_last[:-1] = classes[1:] == _SPACE
    # One, two or three signs between white space.
    second = np.zeros_like(is_last)
    second[:-1] = is_sign[1:] & is_last[1:]
    third = np.zeros_like(is_last)
    third[:-1] = is_sign[1:] & second[1:]
    is_alone: NDArray[np.bool_] = is_sign & is_first & (is_last | second | third)
    return is_alone


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
        elif at >= end and before not in ".,:/-" and (number := _NUMBER.match(text, at)):
            end = number.end()
            digits = "".join(filter(str.isdigit, number.group()))
            is_long = len(digits) in _N_DIGITS and not number.group().replace("-", "").isdigit()
            if is_long or _THOUSANDS.fullmatch(number.group()):
                yield Word(digits, *number.span(), advances=False)


def _without(stream: TokenStream, pieces: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Which tokens stand outside some pieces."""
    if not pieces:
        return np.ones(len(stream), dtype=np.bool_)
    starts, ends = np.array(pieces, dtype=np.int64).T
    piece = np.searchsorted(starts, stream.starts, side="right") - 1
    is_outside: NDArray[np.bool_] = (piece < 0) | (stream.starts >= ends[piece])
    return is_outside


def _of_piece(text: str, start: int, end: int) -> Iterator[_Found]:
    """The words of a piece, and those of them that are names in capitals."""
    for word in words_of_piece(text[start:end]):
        placed = Word(word.form, start + word.start, start + word.end, word.advances)
        yield _Found(start, placed)
        if word.advances and (len(word.form) == 1 or word.form in STOP_WORDS):
            yield from _name(text, start, placed.start, placed.end)


def _capitals(
    text: str, classes: NDArray[np.uint8], stream: TokenStream, kept: NDArray[np.bool_]
) -> list[_Found]:
    """The stop words and single letters in capitals among the tokens that are kept."""
    if not len(stream):
        return []
    may_be = np.array([form in STOP_WORDS or len(form) == 1 for form in stream.forms], dtype=np.bool_)
    is_candidate = kept & may_be[stream.ids] & (classes[stream.starts] == _CAPITAL)
    is_candidate &= classes[stream.ends - 1] == _CAPITAL
    places = zip(stream.starts[is_candidate].tolist(), stream.ends[is_candidate].tolist(), strict=True)
    return [each for start, end in places for each in _name(text, start, start, end)]


def _name(text: str, anchor: int, start: int, end: int) -> Iterator[_Found]:
    """A word as written, if it is a name in capitals."""
    if is_name_in_capitals(text, start, end):
        yield _Found(anchor, Word(text[start:end], start, end, advances=False))


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


def _united(
    stream: TokenStream, kept: NDArray[np.bool_], found: Sequence[_Found], classes: NDArray[np.uint8]
) -> WordStream:
    """The tokens that are kept and the words that were found, in order."""
    forms = stream.forms
    if not found and kept.all():
        every = np.ones(len(stream), dtype=np.bool_)
        capitals = classes[stream.starts] == _CAPITAL
        return WordStream(forms, stream.ids, stream.starts, stream.ends, every, stream.starts, capitals)
    numbers = {form: number for number, form in enumerate(forms)}
    ids = [numbers.setdefault(each.word.form, len(numbers)) for each in found]
    places = np.array([(each.anchor, each.word.start, each.word.end) for each in found], dtype=np.int64)
    anchors, starts, ends = places.reshape(-1, 3).T
    all_anchors = np.concatenate([stream.starts[kept], anchors])
    # At one place, what advances comes first, and otherwise the order stays.
    order = np.argsort(all_anchors, kind="stable")
    advances = np.fromiter((each.word.advances for each in found), dtype=np.bool_, count=len(found))
    all_starts = np.concatenate([stream.starts[kept], starts])[order]
    return WordStream(
        list(numbers),
        np.concatenate([stream.ids[kept], np.array(ids, dtype=np.int32)])[order],
        all_starts,
        np.concatenate([stream.ends[kept], ends])[order],
        np.concatenate([np.ones(int(kept.sum()), dtype=np.bool_), advances])[order],
        all_anchors[order],
        classes[all_starts] == _CAPITAL,
    )
