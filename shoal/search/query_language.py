"""The query language: words, "exact phrases", -excluded, title:word.

No text is an error. Everything outside this syntax is plain text. Only letters, digits and the marks on them
reach the full-text index, each term in quotes.

    words           rank; a chunk need not contain them
    "a phrase"      its words side by side, in any inflection; a chunk must contain it
    title:word      a word, or title:"a phrase", of the document's title; a chunk must have it
    -word           excludes chunks that contain it; also -"a phrase", -title:word

Operators count only at the start of a word, so 5"x3", well-known and a - b are plain text. A query with more
than `MAX_WORDS_WITH_OPERATORS` other words is a text and has no operators: quotation marks are its author's
then, and requiring what they enclose would leave no results.

The number of words searched for, including those of phrases and compounds, is limited: each costs time.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import Stemmer

from lagoon.tokens import STOP_WORDS, is_stop_word, without_clitic

MAX_WORDS_WITH_OPERATORS = 16
"""Longer queries are texts. The longest queries of cacm are paragraphs that cite titles; there lexical
nDCG@10 is 0.437 if the quoted titles are required and 0.452 if not. Queries that use operators have few
words."""

MAX_PHRASES = 8
"""Most required phrases, and most excluded ones. A phrase of stop words takes as long as four plain words:
eight required and eight excluded ones take as long as 64 frequent words."""
MAX_PHRASE_WORDS = 32
"""Most words of a phrase that are searched for. The full-text index reads the posting list of each word, so a
phrase takes longer the more words it has and the more common they are. Two chunks hardly ever share 32
consecutive words."""

_PIECE = re.compile(
    r"""[(\[{]+(?=-?(?:title:)?["“])                # brackets around what follows
      | (?<![^\s(\[{])                             # at the start of a word
        (?P<sign>-(?=["“\w]))? (?P<title>title:(?=["“\w]))?
        (?:"(?P<straight>[^"]*)" | “(?P<curly>[^“”]*)” | (?P<word>\S+))
      | (?P<rest>\S+)                              # text behind a quotation mark
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARKS = ("Mn", "Mc", "Me")
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'"})


@dataclass(frozen=True, slots=True)
class Term:
    """One token (a word), or several side by side (a phrase). A token is a run of letters and digits."""

    tokens: tuple[str, ...]
    in_title: bool = False

    @property
    def text(self) -> str:
        return " ".join(self.tokens)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query.

    about           the query with operators and excluded parts replaced by spaces; same length as the query
    terms           distinct words, compounds, phrases and title terms, which rank; stop words only in phrases
    required        those terms that a result must contain
    excluded        terms that no result contains
    n_ignored       number of terms beyond a limit, which neither rank nor are required
    n_not_excluded  number of terms beyond a limit, which are not excluded
    is_cut          whether a phrase has more words than are searched for
    is_text         whether the query is so long that operators count as plain text
    """

    about: str
    terms: tuple[Term, ...]
    required: tuple[Term, ...]
    excluded: tuple[Term, ...]
    n_ignored: int = 0
    n_not_excluded: int = 0
    is_cut: bool = False
    is_text: bool = False


def parse_query(query: str, *, max_words: int) -> ParsedQuery:
    """Parse a query. Its terms have at most `max_words` words in total, and so have its excluded terms.

    Raises nothing; takes time linear in the length of the query.
    """
    about = list(query)
    words: list[Term] = []
    required: list[Term] = []
    excluded: list[Term] = []
    n_plain = 0
    for piece in _PIECE.finditer(query):
        phrase = piece["straight"] if piece["straight"] is not None else piece["curly"]
        text = phrase if phrase is not None else piece["word"] or piece["rest"] or ""
        tokens = tuple(tokens_of(text))
        in_title = piece["title"] is not None
        if not tokens:
            continue
        if piece["sign"]:
            excluded.append(Term(tokens, in_title))
            _blank(about, piece.start(), piece.end())
        elif in_title or phrase is not None:
            required.append(Term(tokens, in_title))
            if in_title:
                _blank(about, piece.start("title"), piece.end("title"))
        else:
            words += _words(text, tokens)
            n_plain += len(tokens)
    if n_plain > MAX_WORDS_WITH_OPERATORS and (required or excluded):
        plain = [term for text in query.split() for term in _words(text, tuple(tokens_of(text)))]
        return _parsed(query, plain, [], [], max_words, is_text=True)
    return _parsed("".join(about), words, required, excluded, max_words)


def _parsed(
    about: str,
    words: list[Term],
    required: list[Term],
    excluded: list[Term],
    max_words: int,
    *,
    is_text: bool = False,
) -> ParsedQuery:
    longest = min(MAX_PHRASE_WORDS, max_words)
    all_required = _distinct(_shortened(required, longest))
    all_excluded = _distinct(_shortened(excluded, longest))
    limited = _limit_phrases(all_required)
    all_terms = _distinct([*limited, *_shortened(words, longest)])
    terms = _first_words(all_terms, max_words)
    limited_excluded = _first_words(_limit_phrases(all_excluded), max_words)
    return ParsedQuery(
        about=about,
        terms=terms,
        required=terms[: len(limited)],
        excluded=limited_excluded,
        n_ignored=len(all_required) - len(limited) + len(all_terms) - len(terms),
        n_not_excluded=len(all_excluded) - len(limited_excluded),
        is_cut=any(len(term.tokens) > longest for term in (*required, *words, *excluded)),
        is_text=is_text,
    )


def _shortened(terms: Iterable[Term], longest: int) -> Iterator[Term]:
    """The terms, each cut to its first `longest` words."""
    return (Term(term.tokens[:longest], term.in_title) for term in terms)


def _limit_phrases(terms: Sequence[Term]) -> list[Term]:
    """The terms without the phrases after the first `MAX_PHRASES`."""
    n_phrases = itertools.accumulate(len(term.tokens) > 1 for term in terms)
    return [
        term for term, n in zip(terms, n_phrases, strict=True) if len(term.tokens) == 1 or n <= MAX_PHRASES
    ]


def _first_words(terms: Sequence[Term], max_words: int) -> tuple[Term, ...]:
    """The first terms, with at most `max_words` words in total."""
    n_words = itertools.accumulate(len(term.tokens) for term in terms)
    return tuple(term for term, n in zip(terms, n_words, strict=True) if n <= max_words)


def stems_of(tokens: Iterable[str]) -> tuple[str, ...]:
    """Return the stems of tokens as the full-text index has them: without case, diacritics and inflection."""
    return tuple(_stemmer().stemWords([folded(token) for token in tokens]))


def tokens_of(text: str) -> list[str]:
    """Return the runs of letters and digits in a text, with the marks on them."""
    tokens: list[str] = []
    start = None
    for i, character in enumerate(text):
        if character.isalnum() or (start is not None and unicodedata.category(character) in _MARKS):
            start = i if start is None else start
        elif start is not None:
            tokens.append(text[start:i])
            start = None
    return tokens if start is None else [*tokens, text[start:]]


def folded(token: str) -> str:
    """Return a token in lower case, without diacritics."""
    if token.isascii():
        return token.lower()
    # By character: normalizing the whole token sorts its marks, which takes time quadratic in their number.
    decomposed = (part for character in token.lower() for part in unicodedata.normalize("NFD", character))
    return "".join(part for part in decomposed if not unicodedata.category(part).startswith("M"))


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    # Without its cache, which is not thread-safe.
    return Stemmer.Stemmer("porter", 0)


def _words(text: str, tokens: tuple[str, ...]) -> Iterator[Term]:
    """Yield the terms of plain text without white space: its words and, for codes such as `B-17`, `3.14` or
    `U.S.`, also the phrase of all of them, which is more specific.

    For other compounds (`well-known`) the phrase ranks worse: nDCG@10 of lexical search is lower by 0.001 to
    0.005 on scifact, cranfield, medline and cacm.
    """
    form = text.translate(_APOSTROPHES).lower().strip("'\".,;:!?()[]{}")
    if is_stop_word(form) or is_stop_word(f"{form}."):
        return
    stem = without_clitic(form)
    if len(tokens) > 1 and stem != form:
        tokens = tuple(tokens_of(text[: text.translate(_APOSTROPHES).lower().find(stem) + len(stem)]))
    if len(tokens) > 1 and (any(map(str.isdigit, form)) or all(len(token) == 1 for token in tokens)):
        yield Term(tokens)
    for token in tokens:
        # A single letter of "U.S." or "e-mail" counts only within the phrase.
        if token.lower() not in STOP_WORDS and (len(tokens) == 1 or len(token) > 1):
            yield Term((token,))


def _distinct(terms: Iterable[Term]) -> list[Term]:
    """The terms without those that differ from an earlier one only by inflection."""
    distinct: dict[tuple[tuple[str, ...], bool], Term] = {}
    for term in terms:
        distinct.setdefault((stems_of(term.tokens), term.in_title), term)
    return list(distinct.values())


def _blank(characters: list[str], start: int, end: int) -> None:
    characters[start:end] = " " * (end - start)
