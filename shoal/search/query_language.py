"""The query language: words, "exact phrases", -excluded, title:word.

No text is an error. Everything outside this syntax is plain text. Only letters, digits and the marks on them
reach the index.

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

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lagoon.tokens import STOP_WORDS, is_stop_word, normalise, without_clitic
from shoal.index.terms import Terms, word_pattern

MAX_WORDS_WITH_OPERATORS = 16
"""Longer queries are texts. The longest queries of cacm are paragraphs that cite titles; there lexical
nDCG@10 is 0.437 if the quoted titles are required and 0.452 if not. Queries that use operators have few
words."""

MAX_PHRASES = 8
"""Most required phrases, and most excluded ones. A phrase of stop words takes as long as four plain words:
eight required and eight excluded ones take as long as 64 frequent words."""
MAX_PHRASE_WORDS = 32
"""Most words of a phrase that are searched for. The index reads the posting list of each word, so a
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
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'"})

TERMS = Terms()
"""The terms of this process; their cache is worth sharing."""

MAX_STEMS = 50_000
"""Tokens as written whose stems are kept, in 8 MB: those of several hundred searches."""
MAX_KEPT_CHARS = 40
"""Stems of longer tokens are not kept."""
_STEMS: dict[str, str] = {}


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
    frequencies     how often each term that is a plain word occurs
    pairs           distinct neighbouring words of the query as typed, with no stop word between them
    term_weights    factors of the BM25 of terms that were not typed; 1 for all others
    also            terms beside `terms` that rank by words alone, each with the factor of its BM25
    synonyms        other forms of terms, which count as the term itself (`shoal.search.synonyms`)
    """

    about: str
    terms: tuple[Term, ...]
    required: tuple[Term, ...]
    excluded: tuple[Term, ...]
    n_ignored: int = 0
    n_not_excluded: int = 0
    is_cut: bool = False
    is_text: bool = False
    frequencies: Mapping[Term, int] = field(default_factory=dict)
    pairs: tuple[Term, ...] = ()
    term_weights: Mapping[Term, float] = field(default_factory=dict)
    also: Mapping[Term, float] = field(default_factory=dict)
    synonyms: Mapping[Term, tuple[Term, ...]] = field(default_factory=dict)


def parse_query(query: str, *, max_words: int) -> ParsedQuery:
    """Parse a query. Its terms have at most `max_words` words in total, and so have its excluded terms.

    Raises nothing; takes time linear in the length of the query.
    """
    about = list(query)
    words: list[list[Term]] = []  # of each piece of the query; none for a stop word or an operator
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
            words.append(list(_words(text, tokens)))
            n_plain += len(tokens)
            continue
        words.append([])
    if n_plain > MAX_WORDS_WITH_OPERATORS and (required or excluded):
        plain = [list(_words(text, tuple(tokens_of(text)))) for text in query.split()]
        return _parsed(query, plain, [], [], max_words, is_text=True)
    return _parsed("".join(about), words, required, excluded, max_words)


def _parsed(
    about: str,
    pieces: list[list[Term]],
    required: list[Term],
    excluded: list[Term],
    max_words: int,
    *,
    is_text: bool = False,
) -> ParsedQuery:
    longest = min(MAX_PHRASE_WORDS, max_words)
    words = list(itertools.chain.from_iterable(pieces))
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
        frequencies=_frequencies(terms, words),
        pairs=tuple(_pairs(terms, pieces)),
    )


def _frequencies(terms: Sequence[Term], words: Sequence[Term]) -> dict[Term, int]:
    """How often each of the terms occurs among the words, in any inflection."""
    counts = Counter(stems_of(word.tokens) for word in words)
    return {term: max(1, counts[stems_of(term.tokens)]) for term in terms}


def _pairs(terms: Sequence[Term], pieces: Iterable[Sequence[Term]]) -> Iterator[Term]:
    """Yield the neighbouring words that are terms, in their first spelling."""
    spelling = {stems_of(term.tokens): term for term in terms if len(term.tokens) == 1 and not term.in_title}
    pairs: dict[tuple[str, ...], Term] = {}
    # A piece of several words, such as "well-known", holds neighbours too.
    by_piece = [[spelling.get(stems_of(word.tokens)) for word in piece] or [None] for piece in pieces]
    for first, second in itertools.pairwise(itertools.chain.from_iterable(by_piece)):
        if first is not None and second is not None and first != second:
            pair = Term((*first.tokens, *second.tokens))
            pairs.setdefault(stems_of(pair.tokens), pair)
    yield from pairs.values()


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
    """Return the stem of each token as the index has it: without case, diacritics and inflection."""
    tokens = list(tokens)
    stems = list(map(_STEMS.get, tokens))
    if None in stems:
        missing = [token for token, stem in zip(tokens, stems, strict=True) if stem is None]
        found = _find_stems(missing)
        stems = [found[token] if stem is None else stem for token, stem in zip(tokens, stems, strict=True)]
    return tuple(stems)  # type: ignore[arg-type]


def _find_stems(tokens: Sequence[str]) -> dict[str, str]:
    terms = TERMS.of_forms([folded(token) for token in tokens])
    stems = {token: next(iter(found), "") for token, found in zip(tokens, terms, strict=True)}
    kept = {token: stem for token, stem in stems.items() if len(token) <= MAX_KEPT_CHARS}
    if len(_STEMS) + len(kept) > MAX_STEMS:
        _STEMS.clear()
    if len(kept) <= MAX_STEMS:
        _STEMS.update(kept)
    return stems


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text as written: the words of the index (`shoal.index.terms`)."""
    return word_pattern(text).findall(text)


def tokens_without_clitic(text: str) -> tuple[str, ...]:
    """Return the tokens of a text without white space as written, without those of a clitic at its end."""
    form = _form_of(text)
    stem = without_clitic(form)
    if stem != form:
        text = text[: text.translate(_APOSTROPHES).lower().find(stem) + len(stem)]
    return tuple(tokens_of(text))


def folded(token: str) -> str:
    """Return a token in lower case, without diacritics."""
    return token.lower() if token.isascii() else normalise(token)


def _words(text: str, tokens: tuple[str, ...]) -> Iterator[Term]:
    """Yield the terms of plain text without white space: its words and, for codes such as `B-17`, `3.14` or
    `U.S.`, also the phrase of all of them, which is more specific.

    For other compounds (`well-known`) the phrase ranks worse: nDCG@10 of lexical search is lower by 0.001 to
    0.005 on scifact, cranfield, medline and cacm.
    """
    form = _form_of(text)
    if is_stop_word(form) or is_stop_word(f"{form}."):
        return
    if len(tokens) > 1:
        tokens = tokens_without_clitic(text)
    if _is_code(form, tokens):
        yield Term(tokens)
    for token in tokens:
        # A single letter of "U.S." or "e-mail" counts only within the phrase.
        if token.lower() not in STOP_WORDS and (len(tokens) == 1 or len(token) > 1):
            yield Term((token,))


def _form_of(text: str) -> str:
    """A text without white space in lower case, without the punctuation around it."""
    return text.translate(_APOSTROPHES).lower().strip("'\".,;:!?()[]{}")


def _is_code(form: str, tokens: Sequence[str]) -> bool:
    """Whether plain text without white space, in lower case, is a code such as `B-17`, `3.14` or `U.S.`"""
    return len(tokens) > 1 and (any(map(str.isdigit, form)) or all(len(token) == 1 for token in tokens))


def plain_runs(query: str, parsed: ParsedQuery) -> list[list[str]]:
    """Return the words of a query outside quotation marks, codes and operators, in runs of neighbours."""
    runs: list[list[str]] = [[]]
    for piece in _PIECE.finditer(query):
        is_plain = piece["straight"] is None and piece["curly"] is None
        text = piece["word"] or piece["rest"] or ""
        if parsed.is_text:
            is_plain, text = True, piece.group()
        tokens = tokens_of(text)
        if (
            not is_plain
            or ((piece["sign"] or piece["title"]) and not parsed.is_text)
            or _is_code(text.lower(), tokens)
        ):
            runs.append([])
        else:
            runs[-1] += tokens
    return [run for run in runs if run]


def _distinct(terms: Iterable[Term]) -> list[Term]:
    """The terms without those that differ from an earlier one only by inflection."""
    distinct: dict[tuple[tuple[str, ...], bool], Term] = {}
    for term in terms:
        distinct.setdefault((stems_of(term.tokens), term.in_title), term)
    return list(distinct.values())


def _blank(characters: list[str], start: int, end: int) -> None:
    characters[start:end] = " " * (end - start)
