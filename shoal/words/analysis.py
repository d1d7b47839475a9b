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

The tokens of a query or another short text are the texts of its words that advance. One in capitals that is a
name stays so and is another term than the stop word or letter: WHO and *who*. The term of a token that is
typed as a compound, such as GPT-4, is its whole.
"""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from lagoon.compounds import Narrowed, expand_spans, narrow
from lagoon.tokens import STOP_WORDS, find_tokens, is_stop_word, normalise
from shoal.words import terms
from shoal.words.compounds import Word, words_of_piece
from shoal.words.terms import APOSTROPHES, TERMS, form_of, is_mark

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

_SPACES = " \u00a0"
_WIDE = ord("?")
"""The byte of a character beyond Latin-1 (`lagoon.compounds.narrow`), which may be any."""
_ODD = re.compile(r"[^A-Za-z\s,;:!?()\"]|[A-Za-z][A-Z]|(?<![A-Za-z])[A-Z](?![a-z])")
"""What plain words do not have: digits, signs, and capitals inside words or alone."""
_RUN = re.compile(r"[A-Za-z]+")
_N_CLASSES = 8
_NONE, _SMALL, _CAPITAL, _DIGIT, _SPACE, _SIGN, _SUFFIX, _ALONE = range(_N_CLASSES)
_UNSEEN = _N_CLASSES
_SIGNS = terms.LINKS | terms.PREFIXES
_CLASSES = np.full(0x110000, _UNSEEN, dtype=np.uint8)
"""By code point, of characters without a byte; computed on first use."""
# What two neighbouring characters say of their piece.
_PLAIN_PAIR, _ODD_PAIR, _CAPITALS, _SPACE_SIGN = range(4)
_LETTERS = (_SMALL, _CAPITAL)
_WORDS = (*_LETTERS, _DIGIT)
_OTHERS = (_NONE, _SIGN, _SUFFIX)
_IS_OTHER = np.isin(np.arange(_N_CLASSES), _OTHERS)
_NO_NAMES = frozenset(("I", "AND", "OR", "NOT", "THE"))
_SENTENCE_ENDS = frozenset(".!?:\n\r\"“”‘’'([{#*>-–—•|;")
_AROUND = 24
"""Characters before and behind a word in capitals, among which a small letter must be."""
MAX_TERMS = 50_000
"""Tokens whose terms are kept, in 8 MB: those of several hundred searches."""
MAX_KEPT_CHARS = 40
"""Terms of longer tokens are not kept."""
MAX_FOLDED = 10_000
"""Tokens whose forms are kept."""
_TERMS: dict[str, str] = {}
MAX_CONTRACTION = 12
_CONTRACTION = re.compile(rf"[^\W_]{{1,12}}(?:[{APOSTROPHES}][^\W_]{{1,12}}){{1,2}}")


def _behind_numbers() -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which two bytes may follow the digits of a number with spaces inside, and which two the space there."""
    chars = [chr(point) for point in range(256)]
    digits = "".join(filter(str.isdigit, chars)) + "?"
    follow, unit = np.zeros((2, 256, 256), dtype=np.bool_)
    small = string.ascii_lowercase
    for signs, behind in (
        (".,/-", digits),
        (")", digits + _SPACES),
        ("(", digits + small),
        (_SPACES, digits + "(x×"),
    ):
        follow[np.ix_(list(signs.encode("latin-1")), list(behind.encode("latin-1")))] = True
    follow[_WIDE] = True
    no_words = [point for point, char in enumerate(chars) if not (char.isalnum() or char == "_")]
    for name in _UNITS.split():
        first, *second = name[:2].encode("latin-1", "replace")
        unit[first, second or no_words] = True
    return follow, unit


_FOLLOW, _UNIT_BEGINS = _behind_numbers()


def _class_of(char: str) -> int:
    if char.isspace():
        return _SPACE
    if terms.is_without_spaces(char) or terms.is_pictograph(char):
        return _ALONE
    if char.isdigit():
        return _DIGIT
    if char.isalpha():
        return _CAPITAL if char.isupper() else _SMALL
    if char in terms.SUFFIXES:
        return _SUFFIX
    return _SIGN if char in _SIGNS else _NONE


_BYTE_CLASSES = bytes(_class_of(chr(point)) for point in range(256))


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

    @functools.cached_property
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
    narrowed = narrow(text)
    tokens = find_tokens(text, narrowed)
    classes = _classify(narrowed)
    starts, ends = _odd_pieces(classes)
    spaced = list(_spaced(text, narrowed.data, classes))
    every = np.ones(len(tokens.ids), dtype=np.bool_)
    rows = _Rows(tokens.ids, tokens.starts, tokens.ends, every, tokens.starts)
    numbers = dict(zip(tokens.forms, itertools.count()))
    if len(starts):
        kept = _are_outside(tokens.starts, starts, ends)
        rows = _Rows._make(column[kept] for column in rows)
    groups: list[_Rows] = []
    if len(starts):
        pieces = _of_pieces(text, starts, ends, numbers)
        places, names = _names(text, classes, pieces, numbers)
        groups.append(_with_more(pieces, names, places + 1))
    if spaced:
        groups.append(_of_words(spaced, numbers))
    _, names = _names(text, classes, rows, numbers)
    for more in (*groups, names):
        if len(more.ids):
            rows = _with_more(rows, more, np.searchsorted(rows.anchors, more.anchors, side="right"))
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


def _classify(narrowed: Narrowed) -> NDArray[np.uint8]:
    data, wide, codes = narrowed
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


def _numbers_with_more(data: bytes, classes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where the numbers begin that `_spaced` may join with what is around them; few of all numbers."""
    is_digit = np.zeros(len(classes) + 2, dtype=np.bool_)
    is_digit[1:-1] = classes == _DIGIT
    edges = np.flatnonzero(is_digit[1:] != is_digit[:-1])
    starts, ends = edges[::2], edges[1::2]
    padded = np.frombuffer(data + b"\n\n\n", dtype=np.uint8)
    first, second, third = (padded[ends + n] for n in range(3))
    is_space = np.isin(first, list(_SPACES.encode("latin-1")))
    has_more = _FOLLOW[first, second] | (is_space & _UNIT_BEGINS[second, third])
    before = classes[np.maximum(starts - 2, 0)], classes[np.maximum(starts - 1, 0)]
    is_after_capitals = (starts > 1) & (before[0] == _CAPITAL) & (before[1] == _CAPITAL)
    found: NDArray[np.int64] = starts[has_more | is_after_capitals]
    return found


def _spaced(text: str, data: bytes, classes: NDArray[np.uint8]) -> Iterator[Word]:
    """The quantities and numbers with spaces inside them, as words at the position of their first one."""
    end = 0
    for at in _numbers_with_more(data, classes).tolist():
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
    tokens: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which tokens, by their starts, stand outside some pieces."""
    is_outside = np.ones(len(tokens), dtype=np.bool_)
    first, end = np.searchsorted(tokens, starts), np.searchsorted(tokens, ends)
    is_outside[expand_spans(first, end - first)[0]] = False
    return is_outside


def _of_pieces(
    text: str, starts: NDArray[np.int64], ends: NDArray[np.int64], numbers: dict[str, int]
) -> _Rows:
    """The words of pieces; equal ones are read once. `numbers` get those of new forms."""
    distinct: dict[str, int] = {}
    order = _numbered([text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)], distinct)
    words = list(map(words_of_piece, distinct))
    of_distinct = _of_words(list(itertools.chain.from_iterable(words)), numbers)
    sizes = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
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
    forms, *places = zip(*words, strict=True) if words else ((), (), (), ())
    starts, ends = (np.array(column, dtype=np.int64) for column in places[:2])
    ids, advances = _numbered(forms, numbers), np.array(places[2], dtype=np.bool_)
    return _Rows(ids.astype(np.int32), starts, ends, advances, starts)


def _numbered(strings: Sequence[str], numbers: dict[str, int]) -> NDArray[np.int64]:
    """The number of each string; `numbers` get those of new ones."""
    new = [each for each in dict.fromkeys(strings) if each not in numbers]
    numbers.update(zip(new, itertools.count(len(numbers))))
    return np.fromiter(map(numbers.__getitem__, strings), dtype=np.int64, count=len(strings))


def _with_more(rows: _Rows, more: _Rows, places: NDArray[np.int64]) -> _Rows:
    """Words with more, each before the one at its place of `places`, which ascend."""
    is_more = np.zeros(len(rows.ids) + len(more.ids), dtype=np.bool_)
    is_more[places + np.arange(len(places))] = True
    is_old = ~is_more
    columns = []
    for old, new in cast("Iterable[tuple[NDArray[Any], NDArray[Any]]]", zip(rows, more, strict=True)):
        column = np.empty(len(is_more), dtype=old.dtype)
        column[is_old], column[is_more] = old, new
        columns.append(column)
    return _Rows._make(columns)


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


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text, in order; of one that has signs alone, the signs."""
    words = words_of(text)
    found = [surface(text, words, place) for place, word in enumerate(words) if word.advances]
    return found or [word.form for word in words]


def names_of(text: str) -> list[str]:
    """Return the tokens of a short text that names something, in order; a piece of it that is a code, such as
    AT&T, C++ or GPT-4, is one."""
    found: list[str] = []
    for piece in text.split():
        words = words_of(piece)
        whole = folded(piece)
        if len(words) > 1 and not whole.isalpha() and any(word.form == whole for word in words):
            found.append(max((piece[w.start : w.end] for w in words if w.form == whole), key=len))
        else:
            found += tokens_of(piece)
    return found


def surface(text: str, words: Sequence[Word], place: int) -> str:
    """Return the text of one of its words: a stop word or single letter in small letters, unless it is a
    name."""
    word = words[place]
    written = text[word.start : word.end]
    if len(written) > 1 and word.form not in STOP_WORDS:
        return written
    is_name = any(
        other.form == written for other in words[place + 1 : place + 3] if other.start == word.start
    )
    return written if is_name else written.lower()


def stems_of(tokens: Iterable[str]) -> tuple[str, ...]:
    """Return the term of each token: without case, diacritics and inflection if it is of letters alone."""
    tokens = list(tokens)
    terms = list(map(_TERMS.get, tokens))
    if None in terms:
        missing = [token for token, term in zip(tokens, terms, strict=True) if term is None]
        found = _find_terms(missing)
        terms = [found[token] if term is None else term for token, term in zip(tokens, terms, strict=True)]
    return tuple(terms)  # type: ignore[arg-type]


def terms_of(text: str) -> list[str]:
    """Return the terms of the words of a text that advance, in order."""
    return TERMS.of_forms([word.form for word in words_of(text) if word.advances])


def content_words(text: str) -> list[Word]:
    """Return the words of a text that advance, in order, without stop words."""
    return [
        word
        for word in words_of(text)
        if word.advances and word.form not in STOP_WORDS and not is_in_contraction(text, word)
    ]


def is_in_contraction(text: str, word: Word) -> bool:
    """Return whether a word is part of a stop word with an apostrophe, such as *don't*."""
    if (text[max(word.start - 1, 0) : word.start] or " ") not in APOSTROPHES and (
        text[word.end : word.end + 1] or " "
    ) not in APOSTROPHES:
        return False
    start, end = max(word.start - MAX_CONTRACTION, 0), word.end + MAX_CONTRACTION
    return any(
        match.start() + start <= word.start < match.end() + start and is_stop_word(normalise(match.group()))
        for match in _CONTRACTION.finditer(text[start:end])
    )


def folded(token: str) -> str:
    """Return the form of a token as the index has it; one that stands for an inflection stays as it is."""
    if is_mark(token):
        return token
    if token.isascii() and token.isalpha() and (token.islower() or (len(token) > 1 and token[1:].islower())):
        return token.lower()
    if token.isascii() and token.isdigit():
        return token
    if token.isupper() and is_name(token):
        return token
    return _folded(token) if len(token) <= MAX_KEPT_CHARS else _folded.__wrapped__(token)


@functools.lru_cache(maxsize=MAX_FOLDED)
def _folded(token: str) -> str:
    words = words_of(token)
    if not words:
        return form_of(token)
    # Of words of the same text, the one that does not advance is more specific.
    return max(words, key=lambda word: (word.end - word.start, not word.advances)).form


def is_name(token: str) -> bool:
    """Return whether a token in capitals is a stop word or single letter, and so a name as a token."""
    return token.isalpha() and (len(token) == 1 or token.lower() in STOP_WORDS)


def _find_terms(tokens: Sequence[str]) -> dict[str, str]:
    terms = dict(zip(tokens, TERMS.of_forms([folded(token) for token in tokens]), strict=True))
    kept = {token: term for token, term in terms.items() if len(token) <= MAX_KEPT_CHARS}
    if len(_TERMS) + len(kept) > MAX_TERMS:
        _TERMS.clear()
    if len(kept) <= MAX_TERMS:
        _TERMS.update(kept)
    return terms
