"""Inflections: the words of a passage by the stemmer of its language, beside its words as written.

The index stores one more word for each word of letters of a passage in a language with Latin letters other
than English: the language and the stem, at the position of the word. A query looks them up in its own
languages. So words as written keep the statistics that they have, two languages never share a stem, and a
passage whose language is taken for another one is still found by its words.

The stem is that of the word in lower case with its accents, which endings need, and is stored without them,
because queries often lack them.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import Stemmer
from numpy.typing import NDArray

from lagoon.tokens import fold
from shoal.support.languages import ENGLISH, LANGUAGES
from shoal.words.analysis import WordStream, analyze_texts
from shoal.words.terms import MARK, MAX_LETTERS

MAX_CACHED = 100_000
_TURKISH = str.maketrans({"I": "ı", "İ": "i"})
_ROMANIAN = str.maketrans("şţŞŢ", "șțȘȚ")


@functools.cache
def _stemmer(code: str) -> Stemmer.Stemmer:
    # Size 0: a cache would share state between concurrent calls.
    return Stemmer.Stemmer(LANGUAGES[code].stemmer, 0)


def has_stemmer(code: str) -> bool:
    """Return whether the words of a language have inflections here."""
    language = LANGUAGES.get(code)
    return language is not None and language.stemmer is not None and code != ENGLISH


def language_mark(code: str) -> str:
    """Return the word that stands in each passage of a language but English."""
    return f"{MARK}{code}"


@functools.lru_cache(maxsize=MAX_CACHED)
def inflection(word: str, code: str) -> str | None:
    """Return the word that stands for the inflections of a word as written; None for one of other characters
    than Latin letters, or of more than `MAX_LETTERS`. `code`: of a language that `has_stemmer`."""
    if len(word) < 2 or len(word) > MAX_LETTERS:
        return None
    if not word.isascii():
        word = unicodedata.normalize("NFC", word)
    if not word.isalpha() or not fold(word).isascii():
        return None
    if code == "tr":
        word = word.translate(_TURKISH)
    elif code == "ro":
        word = word.translate(_ROMANIAN)
    return f"{MARK}{code}:{fold(_stemmer(code).stemWord(word.lower()))}"


def inflections(word: str, codes: Iterable[str]) -> list[str]:
    """Return what stands for the inflections of a word in some languages."""
    found = (inflection(word, code) for code in codes if has_stemmer(code))
    return [each for each in found if each is not None]


def analyze_in(texts: Sequence[str], languages: Sequence[str]) -> tuple[WordStream, NDArray[np.int64]]:
    """Return the words of several texts with their inflections, and where those of each start, and the end.
    `languages`: of each text."""
    stream, starts = analyze_texts(texts)
    if all(code == ENGLISH for code in languages):
        return stream, starts
    codes = [() if code == ENGLISH else (code,) for code in languages]
    return _with_inflections("\n".join(texts), stream, starts, codes, with_marks=True)


def analyze_for(texts: Sequence[str], languages: Sequence[str]) -> tuple[WordStream, NDArray[np.int64]]:
    """Return the words of several texts, and where those of each start, and the end, with the inflections of
    all words in some languages: what a query in these languages finds in them."""
    stream, starts = analyze_texts(texts)
    codes = tuple(filter(has_stemmer, languages))
    if not codes:
        return stream, starts
    return _with_inflections("\n".join(texts), stream, starts, [codes] * len(texts), with_marks=False)


def _with_inflections(
    text: str,
    stream: WordStream,
    starts: NDArray[np.int64],
    languages: Sequence[Sequence[str]],
    *,
    with_marks: bool,
) -> tuple[WordStream, NDArray[np.int64]]:
    """The words of texts with their inflections in the languages of each, and the marks of these."""
    numbers = {form: number for number, form in enumerate(stream.forms)}
    places: list[int] = []
    added: list[int] = []
    for codes, first, end in zip(languages, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if not codes or first == end:
            continue
        if with_marks:
            places += [first] * len(codes)
            added += [numbers.setdefault(language_mark(code), len(numbers)) for code in codes]
        stemmed = list(filter(has_stemmer, codes))
        spans = zip(stream.starts[first:end].tolist(), stream.ends[first:end].tolist(), strict=True)
        for at, (start, stop) in enumerate(spans if stemmed else (), first):
            if stop - start <= MAX_LETTERS:
                for form in inflections(text[start:stop], stemmed):
                    places.append(at)
                    added.append(numbers.setdefault(form, len(numbers)))
    if not places:
        return stream, starts
    at_places = np.array(places, dtype=np.int64)
    behind = at_places + 1
    columns = (stream.starts, stream.ends, stream.anchors)
    of_words = (np.insert(column, behind, column[at_places]) for column in columns)
    starts_of_words, ends, anchors = of_words
    return WordStream(
        list(numbers),
        np.insert(stream.ids, behind, np.array(added, dtype=np.int32)),
        starts_of_words,
        ends,
        np.insert(stream.advances, behind, np.zeros(len(behind), dtype=np.bool_)),
        anchors,
        np.insert(stream.capitals, behind, np.zeros(len(behind), dtype=np.bool_)),
    ), starts + np.searchsorted(at_places, starts, side="left")
