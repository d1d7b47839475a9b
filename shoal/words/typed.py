"""Words as typed: the tokens of a query or another short text, and the terms that the index has for them.

A token is the text of a word that advances (`shoal.words.analysis`). One in capitals that is a name stays so
and is another term than the stop word or letter: WHO and *who*. The term of a token that is typed as a
compound, such as GPT-4, is its whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lagoon.tokens import STOP_WORDS, is_stop_word, normalise
from shoal.words.analysis import words_of
from shoal.words.compounds import Word
from shoal.words.terms import APOSTROPHES, TERMS, form_of

MAX_TERMS = 50_000
"""Tokens whose terms are kept, in 8 MB: those of several hundred searches."""
MAX_KEPT_CHARS = 40
"""Terms of longer tokens are not kept."""
_TERMS: dict[str, str] = {}
MAX_CONTRACTION = 12
_CONTRACTION = re.compile(rf"[^\W_]{{1,12}}(?:[{APOSTROPHES}][^\W_]{{1,12}}){{1,2}}")


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
    """Return the form of a token as the index has it."""
    if token.isascii() and token.isalpha() and (token.islower() or (len(token) > 1 and token[1:].islower())):
        return token.lower()
    if token.isascii() and token.isdigit():
        return token
    if token.isupper() and is_name(token):
        return token
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
