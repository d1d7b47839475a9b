"""What people type, taken apart: words, "exact phrases", -excluded, title:word.

Nothing typed is an error. What does not read as one of these is plain text, and no character of the query reaches the
full-text index but letters, digits and marks on them, each term in quotes.

    words           rank; a passage need not hold them
    "a phrase"      its words side by side, in any inflection; a passage must hold it
    title:word      a word, or title:"a phrase", of the document's title; a passage must have it
    -word           no passage that holds it; also -"a phrase", -title:word

Signs count only at the start of a word, so 5"x3", well-known and a - b are plain text. In a text of more than
`MAX_DEMANDING_WORDS` besides them nothing is a sign: quotation marks are those of an author then, and to demand what
stands in them would leave nothing to find.

The words that are searched for are limited, those of phrases and compounds included: each costs time.
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

MAX_DEMANDING_WORDS = 16
"""Longer queries are texts. In cacm, whose longest are paragraphs that cite titles, lexical nDCG@10 is 0.437 if these
are demanded and 0.452 if not; whoever types signs types few words besides."""

MAX_PHRASES = 8
"""Phrases that are demanded, and as many that are excluded. A phrase of stop words takes as long as four plain words: eight
of them, and as many excluded, take as long as 64 frequent words."""
MAX_PHRASE_WORDS = 32
"""Words of a phrase that are looked for. The full-text index goes through the passages of each, so a phrase takes longer
the more words it has and the more common they are. Hardly two passages have the same 32 words side by side."""

_PIECE = re.compile(
    r"""[(\[{]+(?=-?(?:title:)?["“])                # brackets around what follows
      | (?<![^\s(\[{])                             # at the start of a word
        (?P<sign>-(?=["“\w]))? (?P<title>title:(?=["“\w]))?
        (?:"(?P<straight>[^"]*)" | “(?P<curly>[^“”]*)” | (?P<word>\S+))
      | (?P<rest>\S+)                              # what stands behind a quotation mark
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARKS = ("Mn", "Mc", "Me")
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'"})


@dataclass(frozen=True, slots=True)
class Term:
    """Tokens that stand side by side, each a run of letters and digits; one of them is a word."""

    tokens: tuple[str, ...]
    in_title: bool = False

    @property
    def text(self) -> str:
        return " ".join(self.tokens)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query taken apart.

    about     as long as the query, blank where it says what to leave out, and instead of signs: what it is about
    terms     distinct words, compounds, phrases and title terms, which rank; stop words only as parts of others
    required  those of them that a passage must have
    excluded  terms that no result holds
    n_ignored terms beyond a limit, which do not rank and are not demanded
    n_allowed terms beyond a limit, which are not excluded
    is_cut    whether a phrase has more words than are looked for
    is_text   whether it is so long that signs in it were not taken for signs
    """

    about: str
    terms: tuple[Term, ...]
    required: tuple[Term, ...]
    excluded: tuple[Term, ...]
    n_ignored: int = 0
    n_allowed: int = 0
    is_cut: bool = False
    is_text: bool = False


def parse_query(query: str, *, max_words: int) -> ParsedQuery:
    """Take a query apart. The terms that rank have at most `max_words` words together, and so have the excluded ones.
    Never fails, linear in its length."""
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
    if n_plain > MAX_DEMANDING_WORDS and (required or excluded):
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
    demanded = _distinct(_shortened(required, longest))
    all_excluded = _distinct(_shortened(excluded, longest))
    within = _few_phrases(demanded)
    all_terms = _distinct([*within, *_shortened(words, longest)])
    terms = _first_words(all_terms, max_words)
    kept_out = _first_words(_few_phrases(all_excluded), max_words)
    return ParsedQuery(
        about=about,
        terms=terms,
        required=terms[: len(within)],
        excluded=kept_out,
        n_ignored=len(demanded) - len(within) + len(all_terms) - len(terms),
        n_allowed=len(all_excluded) - len(kept_out),
        is_cut=any(len(term.tokens) > longest for term in (*required, *words, *excluded)),
        is_text=is_text,
    )


def _shortened(terms: Iterable[Term], longest: int) -> Iterator[Term]:
    """The terms, each with its first `longest` words."""
    return (Term(term.tokens[:longest], term.in_title) for term in terms)


def _few_phrases(terms: Sequence[Term]) -> list[Term]:
    """The terms without the phrases after the first `MAX_PHRASES`."""
    n_phrases = itertools.accumulate(len(term.tokens) > 1 for term in terms)
    return [
        term for term, n in zip(terms, n_phrases, strict=True) if len(term.tokens) == 1 or n <= MAX_PHRASES
    ]


def _first_words(terms: Sequence[Term], most: int) -> tuple[Term, ...]:
    """The first of the terms, as many as have `most` words together."""
    n_words = itertools.accumulate(len(term.tokens) for term in terms)
    return tuple(term for term, n in zip(terms, n_words, strict=True) if n <= most)


def stems_of(tokens: Iterable[str]) -> tuple[str, ...]:
    """Tokens with case, diacritics and inflection taken off, as the full-text index does it."""
    return tuple(_stemmer().stemWords([folded(token) for token in tokens]))


def tokens_of(text: str) -> list[str]:
    """Runs of letters and digits with the marks on them."""
    found: list[str] = []
    start = None
    for i, character in enumerate(text):
        if character.isalnum() or (start is not None and unicodedata.category(character) in _MARKS):
            start = i if start is None else start
        elif start is not None:
            found.append(text[start:i])
            start = None
    return found if start is None else [*found, text[start:]]


def folded(token: str) -> str:
    """A token in lower case without diacritics."""
    if token.isascii():
        return token.lower()
    # One by one: of a whole token the marks would be put in order, in the square of their number, and then left out.
    decomposed = (part for one in token.lower() for part in unicodedata.normalize("NFD", one))
    return "".join(part for part in decomposed if not unicodedata.category(part).startswith("M"))


@functools.cache
def _stemmer() -> Stemmer.Stemmer:
    # Without a cache of its own, which concurrent calls would share.
    return Stemmer.Stemmer("porter", 0)


def _words(text: str, tokens: tuple[str, ...]) -> Iterator[Term]:
    """The terms of plain text without white space: its words and, of codes such as `B-17`, `3.14` or `U.S.`, all of
    them side by side too, which is more telling than each. Of other compounds (`well-known`) that ranks worse: nDCG@10
    of lexical search is lower on scifact, cranfield, medline and cacm by 0.001 to 0.005."""
    form = text.translate(_APOSTROPHES).lower().strip("'\".,;:!?()[]{}")
    if is_stop_word(form) or is_stop_word(f"{form}."):
        return
    stem = without_clitic(form)
    if len(tokens) > 1 and stem != form:
        tokens = tuple(tokens_of(text[: text.translate(_APOSTROPHES).lower().find(stem) + len(stem)]))
    if len(tokens) > 1 and (any(map(str.isdigit, form)) or all(len(token) == 1 for token in tokens)):
        yield Term(tokens)
    for token in tokens:
        # What a letter of "U.S." or "e-mail" says, it says beside the others.
        if token.lower() not in STOP_WORDS and (len(tokens) == 1 or len(token) > 1):
            yield Term((token,))


def _distinct(terms: Iterable[Term]) -> list[Term]:
    """The first of those that differ by no more than inflection."""
    found: dict[tuple[tuple[str, ...], bool], Term] = {}
    for term in terms:
        found.setdefault((stems_of(term.tokens), term.in_title), term)
    return list(found.values())


def _blank(characters: list[str], start: int, end: int) -> None:
    characters[start:end] = " " * (end - start)
