"""Tell names from things: which words of a text are names there, and so no evidence for labels.

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.reading import Reading
from lagoon.tokens import PERSON_TITLES
from lagoon.vocabulary import NUMBER, STOP, WORD

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
_LEAST_STOP_SHARE = 0.2
_PRIOR_STOP_WORDS = 2
"""A document is English if so many of its words are stop words, with some more for short ones. English prose
has about two fifths, other languages of the alphabet below a tenth."""


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
    shown = capital & _is_english(reading, documents)[document_of]
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


def _is_english(reading: Reading, documents: Ints) -> Bools:
    borders = np.append(documents, len(reading.tokens))
    n_words, n_stop = (_between(flags, borders) for flags in (reading.kinds != NUMBER, reading.kinds == STOP))
    english: Bools = n_stop + _PRIOR_STOP_WORDS >= _LEAST_STOP_SHARE * n_words
    return english


def _between(flags: Bools, borders: Ints) -> Ints:
    """Number of flags between consecutive borders."""
    running = np.zeros(len(flags) + 1, dtype=np.int64)
    np.cumsum(flags, out=running[1:])
    return np.diff(running[borders])
