"""Tokenize texts: spans, normal forms, and adjacency of tokens; stems, plurals and abbreviations of English.

A token is an acronym written with stops ("u.s.") or a run of letters and digits, with the combining marks on
them and inner apostrophes ("o'clock"). Its *form* is lower case with diacritics folded ("Café" -> "cafe");
vowel signs and other marks that spell a word stay ("हिंदी"). Tokens separated by hyphens, underscores or
white space are adjacent ("well-known"); tokens with any other punctuation between them are not.
"""

import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import Stemmer
from numpy.typing import NDArray

from lagoon.compounds import (
    MAX_KEYED,
    CodePoints,
    Narrowed,
    byte_keys,
    code_keys,
    code_points,
    distinct_spans,
    expand_spans,
    narrow,
)

_STOP_WORDS = """
    a about above after again against all also am an and any are as at be because been before being
    below between both but by can cannot could did do does doing done down during each either else etc
    ever few for from further had has have having he her here hers herself him himself his how however
    i if in into is it its itself just may me might more most must my myself neither no nor not now of
    off on once only or other others our ours ourselves out over own per same shall she should so some
    such than that the their theirs them themselves then there therefore these they this those though
    through thus to too under until up upon us very was we were what when where whether which while who
    whom whose why will with within without would yet you your yours yourself yourselves
    can't won't shan't ain't i.e. e.g. ie eg s t d ll re ve
"""

STOP_WORDS: frozenset[str] = frozenset(_STOP_WORDS.split())

# Endings after an apostrophe; words are looked up without them ("cat's" -> "cat").
CLITICS = ("n't", "'s", "'ll", "'re", "'ve", "'d", "'m")

# Letters that English spelling decomposes but Unicode does not.
_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ß": "ss", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
    | {"’": "'", "ʼ": "'"}
)

_APOSTROPHES = "'’"
_GAPS = "_-\u2010\u2011"  # underscore, hyphen-minus, hyphen, non-breaking hyphen
_INVISIBLE = "\u00ad\u200c\u200d\u2060\ufeff"  # soft hyphen, joiners, byte order mark
# Combining marks without a shape of their own: they select variants, or are never written.
_SELECTORS = frozenset(
    map(
        chr, (0x34F, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
    )
)

# Classes of characters.
_BREAK, _WORD, _GAP, _APOSTROPHE, _DOT, _MARK, _UNSEEN = range(7)


def _class_of(char: str) -> int:
    if char.isalnum():
        return _WORD
    if char.isspace() or char in _GAPS:
        return _GAP
    if char in _APOSTROPHES:
        return _APOSTROPHE
    if char == ".":
        return _DOT
    if char in _INVISIBLE or unicodedata.category(char) in ("Mn", "Mc"):
        return _MARK
    return _BREAK


def marks_of(text: str) -> frozenset[str]:
    """The distinct characters of a text that belong to the word of the letter before them."""
    return frozenset(char for char in set(text) if not char.isascii() and _class_of(char) == _MARK)


# Classes by byte of `keys.narrow`, and by code point for characters without a byte. The latter are computed
# on first use, because computing all 1.1 million would take every process a quarter of a second.
_BYTE_CLASSES = bytes(_class_of(chr(point)) for point in range(256))
_CLASSES = np.full(0x110000, _UNSEEN, dtype=np.uint8)

# Whether a byte of `keys.narrow` is a capital letter. "?" stands for letters beyond Latin-1.
_CAPITALS = np.array([chr(point).isupper() for point in range(256)], dtype=np.bool_)

# ASCII in lower case. Tokens with any other character are folded one by one.
_UNFOLDED = 0xFF
_FOLDED = bytes(range(128)).lower() + bytes([_UNFOLDED]) * 128


# A token of ASCII in lower case, and the text up to the next token.
_TOKEN = re.compile(r"((?:[a-z]\.){2,}|[a-z0-9]+(?:'[a-z0-9]+)*)([^a-z0-9]*)")

# Common characters of English texts besides ASCII -> ASCII with the same effect on tokens.
_PLAIN = str.maketrans(
    {"’": "'", "\u00a0": " ", "\u2010": "-", "\u2011": "-"} | dict.fromkeys("‘“”–—…•·£€°§«»¿¡†‡", "!")
)

# Texts up to this length are tokenized one token at a time.
_SHORT = 1000


@dataclass(frozen=True)
class TokenStream:
    """The tokens of one text, in order.

    forms   distinct normal forms, in order of first appearance
    ids     i32 (n,): index into `forms`
    starts, ends   i64 (n,): span in code points of the text
    joined  bool (n,): the token and the next are adjacent (last token: False)
    capital  bool (n,): the token, or its part after an article ("d'Artagnan"), begins with a capital letter
    """

    forms: list[str]
    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    joined: NDArray[np.bool_]
    capital: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)


class FoundTokens(NamedTuple):
    """Tokens like those of a `TokenStream`, without what is between them.

    inside, classes   bool, u8, by code point: whether it is part of a token, and its class
    """

    forms: list[str]
    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    inside: NDArray[np.bool_]
    classes: NDArray[np.uint8]


def fold(surface: str) -> str:
    """Return the normal form of a token: lower case, with diacritics folded."""
    surface = surface.lower()
    if surface.isascii():
        return surface
    # Character by character: normalizing a whole string would sort its combining marks, in quadratic time.
    decomposed = "".join(unicodedata.normalize("NFKD", char) for char in surface)
    plain = decomposed.lower().translate(_LETTERS)
    return "".join(char for char in plain if char.isalnum() or char in "'." or _is_spelling(char))


def _is_spelling(char: str) -> bool:
    """Whether a character is a combining mark without which a word would be another: a vowel sign, a virama,
    a nukta or a tone mark.

    Diacritics have combining classes from 200 on, or 1. The points of Hebrew, Arabic and Syriac, which most
    texts leave out, have 10 to 36.
    """
    if unicodedata.category(char) not in ("Mn", "Mc") or char in _SELECTORS:
        return False
    combining_class = unicodedata.combining(char)
    return combining_class in (0, 6, 7, 8, 9) or 36 < combining_class < 200


def _capitals(narrowed: Narrowed, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a capital letter stands at each place of a text."""
    read = np.frombuffer(narrowed.data, dtype=np.uint8)[places]
    capital = _CAPITALS[read]
    if len(narrowed.wide) and (unread := np.flatnonzero(read == ord("?"))).size:
        codes, code_of = np.unique(
            narrowed.codes[np.searchsorted(narrowed.wide, places[unread])], return_inverse=True
        )
        capital[unread] = np.array([chr(code).isupper() for code in codes.tolist()], dtype=np.bool_)[code_of]
    return capital


def tokenise(text: str) -> TokenStream:
    """Tokenize a text, in time linear in its length."""
    narrowed = narrow(text)
    found = find_tokens(text, narrowed)
    joined = _joined(found.inside, found.classes, found.starts, found.ends, found.forms, found.ids)
    capital = _capitals(narrowed, found.starts)
    elided = np.array([form[1:2] == "'" for form in found.forms], dtype=np.bool_)
    if elided.any():
        with_article = np.flatnonzero(elided[found.ids])
        capital[with_article] |= _capitals(narrowed, found.starts[with_article] + 2)
    return TokenStream(found.forms, found.ids, found.starts, found.ends, joined, capital)


def find_tokens(text: str, narrowed: Narrowed) -> FoundTokens:
    """Find the tokens of a text, given as it is and narrowed."""
    data, wide, codes = narrowed
    classes = np.frombuffer(bytearray(data).translate(_BYTE_CLASSES), dtype=np.uint8)
    folded = bytearray(data).translate(_FOLDED)
    if wide.size:
        classes[wide] = _classify(codes)
        np.frombuffer(folded, dtype=np.uint8)[wide] = np.where(codes == ord("’"), ord("'"), _UNFOLDED)
    inside = classes == _WORD
    _join_marks(inside, classes)
    _join_apostrophes(inside, classes)
    starts, ends = _runs(inside)
    starts, ends = _join_acronyms(inside, data, classes, starts, ends)
    forms, ids = _forms(text, bytes(folded), inside, starts, ends)
    return FoundTokens(forms, ids, starts, ends, inside, classes)


def _forms(
    text: str,
    folded: bytes,
    inside: NDArray[np.bool_],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> tuple[list[str], NDArray[np.int32]]:
    """(distinct normal forms in order of appearance, form of each token)."""
    keys = byte_keys(folded, starts, ends)
    odd = ends - starts > MAX_KEYED
    unfolded = np.flatnonzero(inside & (np.frombuffer(folded, dtype=np.uint8) == _UNFOLDED))
    odd[np.searchsorted(ends, unfolded, side="right")] = True
    if odd.any():
        keys[odd] = code_keys(text, code_points(text), starts[odd], ends[odd])
    first, ids = distinct_spans(keys)
    plain = folded.decode("latin-1")
    forms = [plain[a:b] for a, b in zip(starts[first].tolist(), ends[first].tolist(), strict=True)]
    if odd.any():
        for index in np.flatnonzero(odd[first]).tolist():
            token = first[index]
            forms[index] = fold(text[starts[token] : ends[token]])
        form_ids = dict(zip(dict.fromkeys(forms), itertools.count()))
        form_of = np.fromiter(map(form_ids.__getitem__, forms), dtype=np.int32, count=len(forms))
        return list(form_ids), form_of[ids]
    return forms, ids.astype(np.int32)


def short_tokens(text: str) -> list[tuple[str, str]] | None:
    """(normal form, text up to the next token) of each token, without the overhead of numpy.

    None if the text has characters that only `tokenise` supports.
    """
    if not text.isascii():
        text = text.translate(_PLAIN)
        if not text.isascii():
            return None
    return _TOKEN.findall(text.lower())


def token_list(text: str) -> list[str]:
    """Normal forms of the tokens of `text`, in order."""
    pairs = short_tokens(text) if len(text) <= _SHORT else None
    if pairs is not None:
        return [form for form, _ in pairs]
    stream = tokenise(text)
    return [stream.forms[index] for index in stream.ids.tolist()]


def normalise(text: str) -> str:
    """Normal forms of the tokens of `text`, separated by single spaces, as words are stored and hashed.

    "Well-Known" and "well_known" -> "well known", "Café’s" -> "cafe's", "U.S." -> "u.s.".
    """
    return " ".join(token_list(text))


def without_clitic(form: str) -> str:
    """The form without its clitic, the ending after an apostrophe: "cat's" -> "cat", "isn't" -> "is"."""
    if "'" in form:
        for clitic in CLITICS:
            if form.endswith(clitic) and len(form) > len(clitic):
                return form[: -len(clitic)]
    return form


def is_stop_word(form: str) -> bool:
    """Whether the form is a stop word, alone or with a clitic ("it's", "they'll", "don't")."""
    return form in STOP_WORDS or ("'" in form and without_clitic(form) in STOP_WORDS)


def has_letter(form: str) -> bool:
    """Whether the form has a letter; otherwise it is a number."""
    return any(map(str.isalpha, form))


def _classify(codes: CodePoints) -> NDArray[np.uint8]:
    classes = _CLASSES[codes]
    unseen = codes[classes == _UNSEEN]
    if unseen.size:
        for point in np.unique(unseen).tolist():
            _CLASSES[point] = _class_of(chr(point))
        classes = _CLASSES[codes]
    return classes


def _join_marks(inside: NDArray[np.bool_], classes: NDArray[np.uint8]) -> None:
    """Add combining marks and invisible characters after a letter to its token."""
    marks = classes == _MARK
    if not marks.any():
        return
    positions = np.where(marks, -1, np.arange(len(classes)))
    base = np.maximum.accumulate(positions)
    inside |= marks & (base >= 0) & (classes[base] == _WORD)


def _join_apostrophes(inside: NDArray[np.bool_], classes: NDArray[np.uint8]) -> None:
    """Add apostrophes between letters to their token."""
    at = np.flatnonzero(classes == _APOSTROPHE)
    at = at[(at > 0) & (at < len(classes) - 1)]
    inside[at[inside[at - 1] & (classes[at + 1] == _WORD)]] = True


def _runs(inside: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    padded = np.zeros(len(inside) + 2, dtype=np.bool_)
    padded[1:-1] = inside
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return edges[::2], edges[1::2]


def _join_acronyms(
    inside: NDArray[np.bool_],
    data: bytes,
    classes: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Merge two or more single letters, each followed by a stop, into one token with the stops."""
    dots = np.flatnonzero(classes == _DOT)
    letters = np.frombuffer(data, dtype=np.uint8)[dots - 1] | 0x20
    dots = dots[(dots > 0) & (letters >= ord("a")) & (letters <= ord("z"))]
    dots = dots[inside[dots - 1] & ((dots == 1) | ~inside[dots - 2])]  # after a single letter
    dots = dots[:-1][np.diff(dots) == 2]  # ... and before another such letter
    if not dots.size:
        return starts, ends
    inside[dots] = inside[dots + 2] = True
    linked = np.searchsorted(starts, dots - 1)
    follows = np.zeros(len(starts), dtype=np.bool_)  # the token continues the acronym of the token before
    follows[linked + 1] = True
    leads = np.zeros(len(starts), dtype=np.bool_)  # the next token continues the acronym
    leads[linked] = True
    ends = ends.copy()
    ends[follows & ~leads] += 1
    return starts[~follows], ends[~leads]


def _joined(
    inside: NDArray[np.bool_],
    classes: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    forms: list[str],
    ids: NDArray[np.int32],
) -> NDArray[np.bool_]:
    joined = np.zeros(len(ids), dtype=np.bool_)
    if len(ids) < 2:
        return joined
    separates = (classes != _GAP) & (classes != _MARK) & ~inside
    opens, closes = ends[:-1], starts[1:]
    n_separators = separates[opens].view(np.uint8)  # most gaps are a single space
    wide = np.flatnonzero(closes - opens > 1)
    n_separators[wide] += separates[opens[wide] + 1]
    wide = wide[closes[wide] - opens[wide] > 2]
    if wide.size:
        at, first = expand_spans(opens[wide], closes[wide] - opens[wide])
        n_separators[wide] = np.minimum(np.add.reduceat(separates[at], first, dtype=np.int64), 2)
    joined[:-1] = n_separators == 0
    # The stop of "St. Louis" and "Mt. Everest" is part of the spelling.
    stop = np.flatnonzero((n_separators == 1) & (classes[opens] == _DOT))
    if stop.size:
        title = np.array([form in TITLES for form in forms], dtype=np.bool_)
        joined[stop[title[ids[stop]]]] = True
    return joined


_PERSON_TITLES = """
    mr mrs ms mme dr prof rev sen capt col lt sgt
"""

_TITLES = """
    st ste hon gen maj cpt cpl adm cmdr cdr gov rep pres messrs mlle sra mt pvt supt insp amb atty vs viz
    cf eg ie e.g i.e ibid approx
"""

_NUMBERED = """
    no nos nr fig figs eq eqs vol vols p pp ch chap sec sect art arts v vv c ca l ll par para pt pts
    bk tab ex cap
"""

_ENDINGS = """
    etc al inc ltd co corp cos bros esq plc llc jr sr fr phd ph.d md ba ma bsc msc dept univ assn ave blvd
    rd sq bldg jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat
    sun a.m p.m am pm b.c a.d ad bc b.c.e c.e oz lb lbs hr hrs min mins secs km cm mm kg ft yd yds tel
    ext ref refs est max avg misc govt nat natl intl dist mfg mgr asst assoc ed eds trans tr op cit lib
"""

# The name of a person follows.
PERSON_TITLES = frozenset(_PERSON_TITLES.split())

# Never the end of a sentence: a name or a clause follows.
TITLES = PERSON_TITLES.union(_TITLES.split())

# Not the end of a sentence when a number follows ("no. 5", "p. 12").
NUMBERED = frozenset(_NUMBERED.split())

# The end of a sentence unless what follows starts in lower case ("etc. and").
ENDINGS = frozenset(_ENDINGS.split())

ABBREVIATIONS = TITLES | NUMBERED | ENDINGS


RELATED_CHARS = 8
"""Length from which a form that is its own stem is looked up by it. In the running text of the build, nine in
ten such forms are related to the word found ("crystallin": crystalline). Most shorter ones are names, and
they are not ("william": williams, "barrett": barrette)."""


@cache
def _stemmer() -> Stemmer.Stemmer:
    # Size 0: callers stem each distinct form once, and a cache would share state between concurrent calls.
    return Stemmer.Stemmer("english", 0)


def stem(token: str) -> str:
    """Stem of one normal token (lower case, folded)."""
    return str(_stemmer().stemWord(token))


def stem_many(tokens: Sequence[str]) -> list[str]:
    """Stems of normal tokens, in their order."""
    return list(_stemmer().stemWords(list(tokens)))


def sought_stem(form: str, base: str, stemmed: str) -> str:
    """Stem by which a form is looked up, "" for none; `base` is the form without clitic, `stemmed` its stem.

    A form that is its own stem has no ending, so it is an inflection only if older spelling writes the ending
    as a clitic ("seiz'd"). A long one is related to the words of its stem nevertheless ("crystallin").
    """
    return stemmed if stemmed != base or len(base) >= RELATED_CHARS or form.endswith("'d") else ""


# Shorter forms are seldom plurals: "gas", "bus" and initials ("dns", "sos").
_SHORTEST = 4
_SIBILANTS = ("ses", "xes", "zes", "ches", "shes")
_NO_PLURALS = ("ss", "us", "is", "'s")


def singular(form: str) -> str | None:
    """Singular of a normal form that is spelled like a regular plural, else None:
    "hobbits" -> "hobbit", "planaries" -> "planary", "microinches" -> "microinch", "chorus" -> None.

    Looks only at the spelling: "jones" gives "jone". Callers check that the singular exists.
    """
    if len(form) < _SHORTEST or not form.endswith("s") or form.endswith(_NO_PLURALS):
        return None
    if form.endswith("ies") and len(form) > _SHORTEST + 1:
        return form[:-3] + "y"
    if form.endswith(_SIBILANTS):
        return form[:-2]
    return form[:-1]


def plurals(form: str) -> list[str]:
    """Forms whose `singular` is this form."""
    endings = [form + "s", form + "es"] + ([form[:-1] + "ies"] if form.endswith("y") else [])
    return [plural for plural in endings if singular(plural) == form]
