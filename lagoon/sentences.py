"""Sentences of texts with their offsets, and which of their words are names, and so no evidence for labels.

Rules split a text, not a model: the result is the same on every machine and takes one scan. Every character
that is not white space is in exactly one sentence.

"Apple sells phones" is not about fruits. A word that running text writes in lower case is a name where it
has a capital inside a sentence of prose, as in "phones of Apple", after a title ("Mr. Oak") and before what
ends a name ("Apple Inc.", "River Street"). Some words keep their meaning with a capital ("Lake Superior");
lagoon's data says which do not (`Model.name_words`). A learned word never keeps it.

One sense per document (Gale, Church and Yarowsky, "One sense per discourse", 1992): where a capital shows
nothing, at the start of a sentence, in a heading or a title, the word is what most places of the document
show. In lower case it is always a thing. Sentences in capitals throughout show nothing, nor do documents in
other languages than English: German writes every noun with a capital.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.compounds import CodePoints, code_points, narrow
from lagoon.reading import Reading
from lagoon.tokens import ABBREVIATIONS, ENDINGS, NUMBERED, PERSON_TITLES, TITLES
from lagoon.vocabulary import NUMBER, STOP, WORD

# Longer sentences are cut, so that a text without full stops still has citations of limited length.
MAX_SENTENCE_CHARS = 2000

# Characters scanned for the word before a full stop: more than any abbreviation or initials after quotes.
_WORD_WINDOW = 16
_LONGEST_ABBREVIATION = max(map(len, ABBREVIATIONS))

# Quotes and brackets skipped to find the first letter of the next sentence.
_MOST_OPENERS = 3

# Up to this length, stops are decided one by one, because the overhead of numpy is larger.
_SHORT = 1500

# Runs of spaces or closing brackets are scanned up to this length, then skipped by binary search.
_FEW_STEPS = 64

# Patterns begin with a plain character set, so that the regex engine skips ahead at memory speed, and look
# behind only after it. The look-behind allows one match per run, which keeps long runs linear.
_STOP = re.compile(r"""([.!?…‥](?<![.!?…‥][.!?…‥])[.!?…‥]*)(["'”’»›)\]}*_]*)\s+""")
_WIDE_STOP = re.compile(r"""[。！？｡](?<![。！？｡][。！？｡])[。！？｡]*["'”’»›)\]}」』）】]*\s*""")
_WIDE_STOPS = "。！？｡"

# A blank line, an underlined heading, or a line that begins a list item, a heading or a table row.
# Most lines begin with a word of at least three letters and are none of these.
_BREAK = re.compile(
    r"""[\n\u2029](?:
        (?<=\u2029)\s*
      | (?![^\W\d]\w\w)(?:
            [^\S\n]*\n\s*
          | (?:=+|-{2,})[^\S\n]*\n\s*
          | [^\S\n]*(?=[-*+•‣◦▪]\s | \d{1,3}[.)]\s | \(?\w{1,2}\)\s | \#{1,6}\s | \|)
        )
    )""",
    re.VERBOSE,
)
_HEADING = re.compile(r"#(?<![^\n]#)#{0,5}[ \t][^\n]*\n\s*")

_LONE_RETURN = re.compile(r"\r(?!\n)")

_LAST_WORD = re.compile(r"(?<![\w.])[._]*+([^\W_][\w.]*+)\Z")
_ROMAN_NUMBER = re.compile(r"[IVXLC]+\b")
_NEXT_WORD = re.compile(r"\w+")
_INITIAL = re.compile(r"[A-Z]\.")
_OPENERS = frozenset("\"'“‘«‹([{*_¿¡")
_OPENER_CODES = np.array(sorted(map(ord, _OPENERS)), dtype=np.uint32)
_CONTINUERS = frozenset(",;:—–-")

# Words that begin sentences far more often than they follow an initial or acronym ("the U.S. The …").
_FIRST_WORDS = frozenset(
    {"The", "A", "An", "In", "It", "He", "She", "They", "We", "I", "You", "This", "That", "These", "Those"}
    | {"But", "And", "Or", "When", "If", "As", "At", "For", "There", "What", "Who", "How", "His", "Her"}
    | {"Its", "Their", "My", "Our", "Then", "So", "On", "After", "Before", "While", "Although", "However"}
    | {"Why", "Where", "By", "From", "To", "With", "Not", "No", "Yes", "Since", "Such", "Some", "Most"}
)


# Classes of characters in long texts, by byte of `lagoon.compounds.narrow`, and by code point for
# characters without a byte.
_OTHER_SIGN, _SPACE_SIGN, _STOP_SIGN, _CLOSER_SIGN = range(4)
_SIGNS = np.zeros(0x110000, dtype=np.uint8)
# All white space is below U+3001.
_SIGNS[[point for point in range(0x3001) if chr(point).isspace()]] = _SPACE_SIGN
_SIGNS[[ord(char) for char in "…‥"]] = _STOP_SIGN
_SIGNS[[ord(char) for char in "”’›"]] = _CLOSER_SIGN
# After one of these, letters in lower case are only the end of a word.
_IN_WORD = np.array([chr(point).isalnum() or chr(point) in "._'" for point in range(128)])
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
_BEFORE = """
    miss professor sir madam madame monsieur judge captain colonel lieutenant sergeant reverend senator
    congressman governor mayor inspector detective
"""
_AFTER = """
    inc incorporated corp corporation co ltd limited llc plc gmbh ag street avenue ave road boulevard blvd
    lane fc afc cf united jr sr esq
"""
_BEFORE_NAMES, _AFTER_NAMES = PERSON_TITLES.union(_BEFORE.split()), frozenset(_AFTER.split())
_LEAST_LOWER_SHARE = 1 / 3
"""A sentence is prose if so many of its words, without stop words, are in lower case: no heading, title of a
work or list of names."""
_LEAST_STOP_SHARE_OF_PROSE = 0.2
LEAST_STOP_SHARE = 0.1
_PRIOR_STOP_WORDS = 2
"""A text is English if so many of its words are stop words, and English prose from twice as many on; both
with some more for short texts. Nearly all paragraphs of English prose have over a third, lists fewer;
German and Spanish ones have 2 to 3 %, and 97 of 100 have less than a tenth."""


def _sign_of(char: str) -> int:
    if char.isspace():
        return _SPACE_SIGN
    if char in ".!?…‥":
        return _STOP_SIGN
    return _CLOSER_SIGN if char in "\"'”’»›)]}*_" else _OTHER_SIGN


_BYTE_SIGNS = bytes(_sign_of(chr(point)) for point in range(256))


def _packed(word: str) -> int:
    """Key of a word of a-z: five bits for each letter, from its end."""
    key = 0
    for letter in reversed(word):
        key = key * 32 + (ord(letter) & 31)
    return key


_ABBREVIATION_KEYS = np.array(
    sorted(_packed(word) for word in ABBREVIATIONS if word.isalpha()), dtype=np.uint64
)


class Sentence(NamedTuple):
    """A sentence and its span in code points: text[start:end] == sentence.text, without surrounding white
    space."""

    text: str
    start: int
    end: int


def split_sentences(text: str) -> list[Sentence]:
    """Sentences of any text, in order, none longer than MAX_SENTENCE_CHARS."""
    starts, ends = (column.tolist() for column in sentence_spans(text))
    return [Sentence(text[start:end], start, end) for start, end in zip(starts, ends, strict=True)]


def sentence_spans(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and ends of the sentences of `text`, each (n,)."""
    starts, ends = _spans_in_short(text) if len(text) <= _SHORT else _spans_in_long(text)
    if (ends - starts > MAX_SENTENCE_CHARS).any():
        pieces = [
            piece
            for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
            for piece in _pieces(text, a, b)
        ]
        starts, ends = np.array(pieces, dtype=np.int64).T
    return starts, ends


def sentence_starts(text: str) -> list[int]:
    """Starts of the sentences of `text`."""
    starts: list[int] = sentence_spans(text)[0].tolist()
    return starts


def _spans_in_short(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    text = text.rstrip()
    first = len(text) - len(text.lstrip())
    cuts = sorted({cut for cut in (*_breaks(text), *stops_in_short(text)) if first < cut < len(text)})
    starts = [first, *cuts] if text else []
    ends = [len(text[a:b].rstrip()) + a for a, b in zip(starts, [*cuts, len(text)], strict=False)]
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)


def _spans_in_long(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    signs = _signs(text)
    cuts = np.concatenate((np.array(_breaks(text), dtype=np.int64), _stops_by_signs(text, signs)))
    cuts.sort()
    starts = np.concatenate(([len(text) - len(text.lstrip())], cuts))
    starts = starts[np.append(starts[1:] != starts[:-1], True)]
    starts = starts[starts < len(text)]
    return starts, _skip_back(signs, np.append(starts, len(text))[1:], _SPACE_SIGN)


def _breaks(text: str) -> list[int]:
    """Positions where sentences begin without a stop before them, unordered. A cut is the index of a
    character that is not white space, or the length of the text."""
    if "\r" in text:
        text = _LONE_RETURN.sub("\n", text)  # line ends of old Macintosh files
    cuts = [match.end() for match in _BREAK.finditer(text)]
    if "#" in text:
        cuts += [match.end() for match in _HEADING.finditer(text)]
    if any(stop in text for stop in _WIDE_STOPS):
        cuts += [match.end() for match in _WIDE_STOP.finditer(text)]
    return cuts


def stops_in_short(text: str) -> list[int]:
    """Starts of the sentences that follow a stop; decides stops one by one."""
    return [
        match.end()
        for match in _STOP.finditer(text)
        if _ends_sentence(text, match.start(), match.end(1), match.end())
    ]


def stops_in_long(text: str) -> NDArray[np.int64]:
    """Same as `stops_in_short`, but decides the clear cases, which are most, at once."""
    return _stops_by_signs(text, _signs(text))


def _signs(text: str) -> NDArray[np.uint8]:
    data, wide, codes = narrow(text)
    signs = np.frombuffer(bytearray(data).translate(_BYTE_SIGNS), dtype=np.uint8)
    signs[wide] = _SIGNS[codes]
    return signs


def _stops_by_signs(text: str, signs: NDArray[np.uint8]) -> NDArray[np.int64]:
    end = len(signs) - 1
    last = np.flatnonzero(signs == _STOP_SIGN)
    follows = signs[np.minimum(last + 1, end)]
    last = last[(follows != _STOP_SIGN) & (last < end)]
    closed = _skip(signs, last + 1, _CLOSER_SIGN)
    spaced = (signs[np.minimum(closed, end)] == _SPACE_SIGN) & (closed <= end)
    last, closed = last[spaced], closed[spaced]
    first = _skip_back(signs, last, _STOP_SIGN)
    after = _skip(signs, closed, _SPACE_SIGN)
    ends, clear = _clear_cases(code_points(text), first, last, after)
    for index in np.flatnonzero(~clear).tolist():
        ends[index] = _ends_sentence(text, int(first[index]), int(last[index]) + 1, int(after[index]))
    return after[ends]


def _clear_cases(
    codes: CodePoints, first: NDArray[np.int64], last: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(ends a sentence, is clear) for stops codes[first:last + 1] followed by codes[after].

    A sentence ends if a capital A-Z follows, perhaps after a quote, and the stop is either not a single full
    stop or follows a word in lower case that is not an abbreviation. It does not end if a-z follows and the
    stop is not a single full stop.
    """
    end = len(codes) - 1
    opened = after + _among(codes[np.minimum(after, end)], _OPENER_CODES)
    follower = np.where(opened <= end, codes[np.minimum(opened, end)], 0)
    capital = (follower >= ord("A")) & (follower <= ord("Z"))
    small = (follower >= ord("a")) & (follower <= ord("z"))
    full_stop = (first == last) & (codes[first] == ord("."))
    ends = capital & ~full_stop
    candidates = np.flatnonzero(capital & full_stop)
    ends[candidates] = _follows_plain_word(codes, first[candidates])
    return ends, ends | (small & ~full_stop)


def _follows_plain_word(codes: CodePoints, at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a whole word in lower case that is not an abbreviation ends before each position."""
    key = np.zeros(len(at), dtype=np.uint64)
    length = np.zeros(len(at), dtype=np.int64)
    inside = np.ones(len(at), dtype=np.bool_)
    for back in range(1, _LONGEST_ABBREVIATION + 2):
        letter = codes[np.maximum(at - back, 0)]
        inside &= (letter >= ord("a")) & (letter <= ord("z")) & (at >= back)
        key = np.where(inside, key * np.uint64(32) + (letter & 31), key)
        length += inside
    before = codes[np.maximum(at - length - 1, 0)]
    whole = (at == length) | ((before < 128) & ~_IN_WORD[before & 127])
    is_abbreviation = _among(key, _ABBREVIATION_KEYS)
    plain: NDArray[np.bool_] = (length > _LONGEST_ABBREVIATION) | ((length > 1) & whole & ~is_abbreviation)
    return plain


def _among(values: NDArray[Any], table: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each value is in a short sorted table; faster than np.isin, which has a larger overhead."""
    at = np.searchsorted(table, values)
    at[at == len(table)] = 0
    is_member: NDArray[np.bool_] = table[at] == values
    return is_member


def _skip(signs: NDArray[np.uint8], at: NDArray[np.int64], sign: int) -> NDArray[np.int64]:
    """Move positions forward over characters of one sign, up to the length of the text."""
    at = at.copy()
    moving = np.flatnonzero(signs[np.minimum(at, len(signs) - 1)] == sign)
    moving = moving[at[moving] < len(signs)]
    steps = 0
    while moving.size:
        at[moving] += 1
        moving = moving[at[moving] < len(signs)]
        moving = moving[signs[at[moving]] == sign]
        steps += 1
        if steps == _FEW_STEPS and moving.size:
            others = np.append(np.flatnonzero(signs != sign), len(signs))
            at[moving] = others[np.searchsorted(others, at[moving])]
            break
    return at


def _skip_back(signs: NDArray[np.uint8], at: NDArray[np.int64], sign: int) -> NDArray[np.int64]:
    """Move positions back while the character before has the sign, down to 0."""
    at = at.copy()
    moving = np.flatnonzero((at > 0) & (signs[at - 1] == sign))
    steps = 0
    while moving.size:
        at[moving] -= 1
        moving = moving[at[moving] > 0]
        moving = moving[signs[at[moving] - 1] == sign]
        steps += 1
        if steps == _FEW_STEPS and moving.size:
            others = np.append(-1, np.flatnonzero(signs != sign))
            at[moving] = others[np.searchsorted(others, at[moving]) - 1] + 1
            break
    return at


def _ends_sentence(text: str, at: int, end: int, after: int) -> bool:
    """Whether a sentence ends at the stops text[at:end], given the word before them and the text at
    `after`."""
    limit = after + _MOST_OPENERS
    follower = text[after : after + 1]
    while follower in _OPENERS and after < limit:
        after += 1
        follower = text[after : after + 1]
    if follower in _CONTINUERS:
        return False
    if text[at:end] != ".":
        return not follower.islower()
    if at > _LONGEST_ABBREVIATION and text[at - _LONGEST_ABBREVIATION - 1 : at].isalpha():
        return True  # a word longer than any abbreviation
    last_word = _LAST_WORD.search(text[max(0, at - _WORD_WINDOW) : at])
    if last_word is None:
        return not follower.islower()
    return _word_ends_sentence(text, last_word.group(1), at, after, follower)


def _word_ends_sentence(text: str, word: str, at: int, after: int, follower: str) -> bool:
    """Whether a sentence ends at the single full stop at `at`, which follows the short word `word`."""
    plain = word.lower()
    if plain in TITLES:
        return False
    if follower.islower():
        # Text entirely in lower case has sentences too.
        return len(word) > 1 and word.isalpha() and plain not in ABBREVIATIONS
    if plain in NUMBERED and (follower.isdigit() or _ROMAN_NUMBER.match(text, after)):
        return False
    if _is_enumerator(text, word, at):
        return False
    if plain in ENDINGS:
        return follower != "("
    if "." in word or (len(word) == 1 and word.isupper() and word != "I"):
        first = _NEXT_WORD.match(text, after)
        return first is not None and first.group() in _FIRST_WORDS and not _INITIAL.match(text, after)
    return not (word == "I" and _INITIAL.match(text, after))


def _is_enumerator(text: str, word: str, at: int) -> bool:
    """Whether the word is a number or letter that begins its line: "1. First", "IV. Of Man"."""
    if len(word) > 4 or not (word.isdigit() or len(word) == 1 or _ROMAN_NUMBER.fullmatch(word)):
        return False
    line = text[max(0, at - _WORD_WINDOW) : at].rpartition("\n")
    opens_text = at <= _WORD_WINDOW or bool(line[1])
    return opens_text and line[2].strip() == word


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a sentence into pieces of at most MAX_SENTENCE_CHARS, at the last white space that fits, else
    anywhere."""
    while end - start > MAX_SENTENCE_CHARS:
        window = text[start : start + MAX_SENTENCE_CHARS + 1]
        head = window.rsplit(None, 1)[0].rstrip() if not window[-1].isspace() else window.rstrip()
        size = min(len(head), MAX_SENTENCE_CHARS)
        yield start, start + size
        start += size
        # Skip white space by index: copying the rest at every cut is quadratic for a text without full stops.
        while start < end and text[start].isspace():
            start += 1
    if start < end:
        yield start, end


class Names(NamedTuple):
    """Names of documents.

    hits       bool (hits,): occurrences of words in the text that are names
    documents, words   i64 (n,): words that are names in a document where a capital shows nothing
    """

    hits: Bools
    documents: Ints
    words: Ints

    def among(self, documents: Ints, words: Ints) -> Bools:
        """Whether each word of a title or heading of a document is a name in it."""
        stride = int(max(self.words.max(initial=0), words.max(initial=0))) + 1
        found: Bools = np.isin(documents * stride + words, self.documents * stride + self.words)
        return found


def find_names(reading: Reading, sentences: Ints, documents: Ints, name_words: Bools) -> Names | None:
    """The names of a text of several documents; None if there are none.

    `sentences` (n + 1,): first token of each sentence, and the end. `documents` (d,): first token of each
    document. `name_words` (words,): base words that are names with a capital.
    """
    tokens = reading.tokens
    if not len(reading.hit_tokens) or not tokens.capital.any():
        return None
    last = reading.hit_tokens + reading.hit_lengths - 1
    capital = tokens.capital[last]
    document_of = np.searchsorted(documents, reading.hit_tokens, side="right") - 1
    borders = np.append(documents, len(tokens))
    shown = capital & are_english(reading, borders, _LEAST_STOP_SHARE_OF_PROSE)[document_of]
    shown &= _shows_name(reading, last, sentences, name_words)
    if not shown.any():
        return None
    stride = int(reading.hit_words.max()) + 1
    keys = document_of * stride + reading.hit_words
    found, place = np.unique(keys[shown], return_inverse=True)
    n_shown = np.bincount(place, minlength=len(found))
    at = np.searchsorted(found, keys)
    at[at == len(found)] = 0
    candidate = found[at] == keys
    n_lower = np.bincount(at[candidate & ~capital], minlength=len(found))
    is_name = n_shown >= n_lower
    hits = shown | (candidate & capital & is_name[at])
    names = found[is_name]
    return Names(hits, names // stride, names % stride)


def _shows_name(reading: Reading, last: Ints, sentences: Ints, name_words: Bools) -> Bools:
    """Whether the neighbours of each occurrence show that it is a name, if it has a capital. `last`: last
    token of each."""
    tokens = reading.tokens
    is_base = reading.hit_words < len(name_words)
    may_be_name = name_words[np.where(is_base, reading.hit_words, 0)] | ~is_base
    shown = inside_prose(reading, last, sentences) & may_be_name
    for words, step, adjacent in (
        (_BEFORE_NAMES, -1, np.append(False, tokens.joined)[last]),
        (_AFTER_NAMES, 1, tokens.joined[last]),
    ):
        forms = np.array([form in words for form in tokens.forms], dtype=np.bool_)
        if forms.any():
            near = np.clip(last + step, 0, len(tokens) - 1)
            shown |= adjacent & forms[tokens.ids[near]] & tokens.capital[near]
    return shown


def inside_prose(reading: Reading, last: Ints, sentences: Ints) -> Bools:
    """Whether each occurrence, given by its last token, follows another word within a sentence of prose:
    there a capital shows something. The last token of a compound always follows one."""
    tokens = reading.tokens
    is_word = reading.kinds == WORD
    n_words, n_lower = (_between(flags, sentences) for flags in (is_word, is_word & ~tokens.capital))
    is_prose = (n_lower > 0) & (n_lower >= _LEAST_LOWER_SHARE * n_words)
    of_tokens = np.repeat(is_prose, np.diff(sentences))
    inside: Bools = np.append(False, tokens.joined)[last] & of_tokens[last]
    return inside


def are_english(reading: Reading, borders: Ints, least_stop_share: float = LEAST_STOP_SHARE) -> Bools:
    """Whether each text between consecutive borders, (texts + 1,), is English by its share of stop words."""
    n_words, n_stop = (_between(flags, borders) for flags in (reading.kinds != NUMBER, reading.kinds == STOP))
    english: Bools = n_stop + _PRIOR_STOP_WORDS >= least_stop_share * n_words
    return english


def _between(flags: Bools, borders: Ints) -> Ints:
    """Number of flags between consecutive borders."""
    running = np.zeros(len(flags) + 1, dtype=np.int64)
    np.cumsum(flags, out=running[1:])
    return np.diff(running[borders])
