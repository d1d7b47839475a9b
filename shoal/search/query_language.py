"""The query language: words, "exact phrases", -excluded, title:word. docs/searching.md has the rules.

No text is an error. Everything outside this syntax is plain text, and so is everything with `Syntax.plain`.

    words           rank; a passage need not contain them
    "a phrase"      its words side by side, in any inflection; a passage must contain it
    title:word      a word, or title:"a phrase", of the document's title; a passage must have it
    -word           excludes passages that contain it; also -"a phrase", -title:word

Operators count only at the start of a word, so 5"x3", well-known and a - b are plain text. A minus before a
word excludes only if the word has letters alone, as in *jaguar -car*, and the query is no question and no
command: *-40 degrees*, *tar -xzf* and *what does sort -unique do* are text. A query with more than
`MAX_WORDS_WITH_OPERATORS` other words is a text and has no operators: quotation marks are its author's then,
and requiring what they enclose would leave no results.

The number of words searched for, including those of phrases and compounds, is limited: each costs time.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lagoon.tokens import STOP_WORDS, token_list
from shoal.models.search import Syntax
from shoal.support.languages import ENGLISH
from shoal.words.analysis import is_in_contraction, stems_of, surface, tokens_of, words_of
from shoal.words.compounds import Word
from shoal.words.detection import stop_words
from shoal.words.terms import APOSTROPHES, HYPHENS, is_mark, is_without_spaces

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
MIN_EXCLUDED_LETTERS = 3
"""Letters of a word that a minus excludes; shorter ones are options, such as -rf."""
MAX_PARTS_BEFORE = 12
"""Words before a part of a compound among which its whole is looked for."""
PART_WEIGHT = 0.1
"""Factor of the BM25 of a part of an identifier, such as 17 of B-17."""
COMPOUND_WEIGHT = 0.25
"""Factor of the BM25 of a compound of words, such as *well-known*, beside its words."""

_QUOTED = r"""
    "(?P<straight>[^"]*)" | ＂(?P<wide>[^＂]*)＂ | [“„‟](?P<curly>[^“”„‟]*)[”“] | ”(?P<swedish>[^“”„‟]*)”
  | «(?P<outward>[^«»]*)» | »(?P<inward>[^«»]*)« | ‹(?P<single>[^‹›]*)› | ›(?P<turned>[^‹›]*)‹
"""
_OPENING = '["＂“„‟”«»‹›]'
_PIECE = re.compile(
    rf"""[(\[{{]+(?=-?(?:title:)?{_OPENING})           # brackets around what follows
      | (?<![^\s(\[{{])                               # at the start of a word
        (?P<sign>-(?=\w|{_OPENING}))? (?P<title>title:(?=\w|[.#@$]|{_OPENING}))?
        (?:{_QUOTED} | (?P<word>[^\s「『]+))
      | 「(?P<corner>[^「」]*)」 | 『(?P<double>[^『』]*)』
      | (?P<rest>[^\s「『]+|[「『])                    # text behind a quotation mark
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PHRASES = (
    "straight",
    "wide",
    "curly",
    "swedish",
    "outward",
    "inward",
    "single",
    "turned",
    "corner",
    "double",
)
_QUESTION = re.compile(
    r"\s*(?:what|how|why|when|where|which|who|whose|whom|is|are|was|were|do|does|did|can|could|should|would|will"
    r"|may|must|has|have|had)\b(?=.*\s\S+\s)|.*[?？]\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_CAMEL = re.compile(r"[a-z][A-Z]")
_VOWELS = frozenset("aeiouy")
NEGATIONS = frozenset(("not", "no", "never", "without", "neither", "nor", "cannot", "none", "non"))
_N_APOSTROPHES = frozenset(f"n{sign}" for sign in APOSTROPHES)
_COMMAND = re.compile(r"(?<!\S)(?:-[a-zA-Z0-9]{1,2}(?!\S)|--\w|\.{0,2}/\S|\||[.$>](?!\S))")


@dataclass(frozen=True, slots=True)
class Term:
    """One token (a word or compound), or several side by side (a phrase). `written`: as people write it, if
    its tokens do not show it: its script has no spaces and they overlap, or it is of another language."""

    tokens: tuple[str, ...]
    in_title: bool = False
    written: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        return " ".join(self.tokens)

    @property
    def is_inflection(self) -> bool:
        """Whether it stands for inflections of a word of the query."""
        return not self.written and is_mark(self.text)


class Translation(NamedTuple):
    """A word or phrase of another language that words of a query, as typed, also stand for
    (`shoal.search.across_languages`). `terms`: of the query, that these words are."""

    typed: str
    terms: tuple[Term, ...]
    form: Term
    language: str


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query.

    about           the query with operators and excluded parts replaced by spaces; same length as the query
    terms           distinct words, compounds, phrases and title terms, which rank; stop words only in phrases
                    and in a query without other words
    required        those terms that a result must contain
    excluded        terms that no result contains
    n_ignored       number of terms beyond a limit, which neither rank nor are required
    n_not_excluded  number of terms beyond a limit, which are not excluded
    is_cut          whether a phrase has more words than are searched for
    is_text         whether the query is so long that operators count as plain text
    frequencies     how often each term that is a plain word occurs
    pairs           distinct neighbouring words of the query as typed, with no stop word between them
    term_weights    factors of the BM25 of terms that were not typed, and of parts; 1 for all others
    also            terms beside `terms` that rank by words alone, each with the factor of its BM25
    synonyms        other forms of terms, which count as the term itself (`shoal.search.synonyms`)
    plain           the query with all operators, phrases and titles replaced by spaces; same length
    identifiers     those terms that are codes, numbers, or stop words and letters in capitals
    names           those terms that are written with a capital letter inside the query
    negation        the first negating word of the query
    parts           those terms that are parts of an identifier
    words           those of `about`
    languages       what it is analysed in (`shoal.search.query_inflections`)
    translations    words of other languages among the `synonyms`
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
    plain: str = ""
    identifiers: tuple[Term, ...] = ()
    names: tuple[Term, ...] = ()
    negation: str | None = None
    parts: frozenset[Term] = frozenset()
    words: tuple[Word, ...] = ()
    languages: tuple[str, ...] = (ENGLISH,)
    translations: tuple[Translation, ...] = ()

    @property
    def all_languages(self) -> tuple[str, ...]:
        """Its languages, and those of its translations."""
        return tuple(dict.fromkeys((*self.languages, *(each.language for each in self.translations))))

    @property
    def languages_of_forms(self) -> Mapping[Term, Collection[str]]:
        """Of each word of its translations, the languages of the passages that it counts in."""
        found: defaultdict[Term, set[str]] = defaultdict(set)
        for each in self.translations:
            found[each.form].add(each.language)
        return dict(found)

    @property
    def typed_lemmas(self) -> Mapping[tuple[Term, Term], str]:
        """The words as typed that a translation stands for, by one of their terms and its form."""
        return {(term, each.form): each.typed for each in reversed(self.translations) for term in each.terms}


@functools.lru_cache(maxsize=128)
def parse_query(
    query: str, *, max_words: int, syntax: Syntax = Syntax.simple, language: str = ENGLISH
) -> ParsedQuery:
    """Parse a query. Its terms have at most `max_words` words in total, and so have its excluded terms.

    `language`: whose stop words, beside those of English, are no terms. Raises nothing; takes time linear in
    the length of the query.
    """
    if syntax is Syntax.plain:
        return _parsed(query, query, [], [], max_words, language)
    about, plain = list(query), list(query)
    required: list[Term] = []
    excluded: list[Term] = []
    may_exclude = not (_QUESTION.match(query) or _COMMAND.search(query))
    for piece in _PIECE.finditer(query):
        phrase = next((piece[name] for name in _PHRASES if piece[name] is not None), None)
        text = phrase if phrase is not None else piece["word"] or piece["rest"] or ""
        in_title = piece["title"] is not None
        is_excluded = bool(piece["sign"]) and (
            phrase is not None or in_title or (may_exclude and _is_excludable(text))
        )
        if phrase is None and not in_title and not is_excluded:
            continue
        tokens = tuple(tokens_of(text))
        if not tokens:
            continue
        _blank(plain, piece.start(), piece.end())
        written = text.strip() if any(map(is_without_spaces, text)) else ""
        if is_excluded:
            excluded.append(Term(tokens, in_title, written))
            _blank(about, piece.start(), piece.end())
        else:
            required.append(Term(tokens, in_title, written))
            if in_title:
                _blank(about, piece.start("title"), piece.end("title"))
    outside = "".join(plain)
    if required or excluded:
        n_plain = len(token_list(outside))
        if n_plain > MAX_WORDS_WITH_OPERATORS:
            return _parsed(query, query, [], [], max_words, language, is_text=True)
    return _parsed("".join(about), outside, required, excluded, max_words, language)


def _is_excludable(text: str) -> bool:
    """Whether a minus before a text without white space excludes it."""
    word = text.rstrip(".,;:!)]}")
    letters = "".join(
        char for char in word if char not in "-'’" and unicodedata.category(char) not in ("Mn", "Mc")
    )
    if not letters.isalpha() or len(letters) < MIN_EXCLUDED_LETTERS:
        return not letters.isascii() and letters.isalpha()
    return not letters.isascii() or not _VOWELS.isdisjoint(letters.lower())


def _parsed(
    about: str,
    plain: str,
    required: list[Term],
    excluded: list[Term],
    max_words: int,
    language: str,
    *,
    is_text: bool = False,
) -> ParsedQuery:
    longest = min(MAX_PHRASE_WORDS, max_words)
    # Those of English depend on how they are written: WHO.
    found = _plain_words(plain, frozenset() if language == ENGLISH else stop_words(language))
    words, in_order, also = found.terms, found.in_order, found.compounds
    if not words and not required:
        words = _stop_words(plain)
        in_order = []
    all_required = _distinct(_shortened(required, longest))
    all_excluded = _distinct(_shortened(excluded, longest))
    limited = _limit_phrases(all_required)
    all_terms = _distinct([*limited, *_shortened(words, longest)])
    terms = _first_words(all_terms, max_words)
    parts = frozenset(found.parts).intersection(terms).difference(found.whole_words)
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
        pairs=tuple(_pairs(terms, in_order)),
        also=dict.fromkeys(_distinct(also)[:max_words], COMPOUND_WEIGHT),
        plain=plain,
        identifiers=tuple(each for each in _distinct(found.identifiers) if each in terms),
        names=tuple(each for each in _distinct(found.names) if each in terms),
        negation=found.negation,
        parts=parts,
        words=tuple(found.words if about == plain else words_of(about)),
        term_weights=dict.fromkeys(parts, PART_WEIGHT),
    )


class _PlainWords(NamedTuple):
    """The words of plain text.

    words        all, in order
    terms        in order
    in_order     the words that advance, None between words that are no neighbours
    compounds    of words, which are no terms
    identifiers, names, negation, parts   as in `ParsedQuery`
    """

    words: Sequence[Word]
    terms: list[Term]
    in_order: list[Term | None]
    compounds: list[Term]
    identifiers: list[Term]
    names: list[Term]
    negation: str | None
    parts: list[Term]

    @property
    def whole_words(self) -> list[Term]:
        """The terms that also stand outside identifiers."""
        counts = Counter(self.terms)
        return [term for term in self.parts if counts[term] > self.parts.count(term)]


def _plain_words(plain: str, stop_words_of_language: frozenset[str]) -> _PlainWords:
    """Return the words of plain text. Stop words of its language are no terms.

    Codes such as `B-17`, `3.14` or `C++` are terms as a whole, beside their parts of several letters or
    digits. For other compounds (`well-known`) the whole ranks worse as a term: nDCG@10 of lexical search is
    lower by 0.001 to 0.005 on scifact, cranfield, medline and cacm.
    """
    words = words_of(plain)
    terms: list[Term] = []
    in_order: list[Term | None] = []
    compounds: list[Term] = []
    identifiers: list[Term] = []
    names: list[Term] = []
    parts: list[Term] = []
    may_have_names = any(char.islower() for char in plain)
    end = 0
    for place, word in enumerate(words):
        if "  " in plain[end : word.start]:
            in_order.append(None)
        end = max(end, word.end)
        text = surface(plain, words, place)
        if not word.advances:
            whole = Term((plain[word.start : word.end],))
            if _is_code(plain, words, place):
                terms.append(whole)
                # M8 is a part of *M8 x 25*.
                (parts if _is_part(words, place) else identifiers).append(whole)
            elif _is_compound(plain, word):
                compounds.append(whole)
        elif word.form not in stop_words_of_language and _counts(plain, words, place, text):
            terms.append(Term((text,)))
            in_order.append(terms[-1])
            if _is_part(words, place):
                if any(_is_code(plain, words, at) for at in _wholes(words, place)):
                    parts.append(terms[-1])
                continue
            if not word.form.isalpha() or len(text) == 1 or text.lower() in STOP_WORDS:
                identifiers.append(terms[-1])
            elif may_have_names and text[0].isupper() and (plain[: word.start].strip() or text.isupper()):
                names.append(terms[-1])
        else:
            in_order.append(None)
    return _PlainWords(words, terms, in_order, compounds, identifiers, names, _negation(plain, words), parts)


def _negation(plain: str, words: Sequence[Word]) -> str | None:
    """The first negating word."""
    negating = (word for word in words if word.form in NEGATIONS or _is_contracted_not(plain, word))
    return next((plain[word.start : word.end] for word in negating), None)


def _is_contracted_not(plain: str, word: Word) -> bool:
    return word.form == "t" and plain[max(word.start - 2, 0) : word.start].lower() in _N_APOSTROPHES


def _is_code(plain: str, words: Sequence[Word], place: int) -> bool:
    """Whether a word that shares its position is more than the words of letters in it."""
    word = words[place]
    if not word.form.isalpha() or word.form in STOP_WORDS:
        return word.form not in STOP_WORDS and not _is_dashed_word(word.form)
    if not _is_compound(plain, word):
        return False
    written = plain[word.start : word.end]
    if "_" in written or _CAMEL.search(written):
        return True
    return any(
        len(other.form) == 1 for other in words if other.advances and word.start <= other.start < word.end
    )


def _is_dashed_word(form: str) -> bool:
    """Whether a form is a word with a minus before it, which may be a dash."""
    return form[:1] in HYPHENS and form[1:2] not in HYPHENS and _is_excludable(form[1:])


def _is_compound(plain: str, word: Word) -> bool:
    """Whether a word that shares its position is a compound, and not a name in capitals or a letter of a
    script without spaces."""
    return len(word.form) > 1 and word.form not in (plain[word.start : word.end], *STOP_WORDS)


def _counts(plain: str, words: Sequence[Word], place: int, text: str) -> bool:
    """Whether a word that advances is a term of its own."""
    word = words[place]
    if len(word.form) == 1 and _is_inside(words, place):
        return False
    if text.lower() in STOP_WORDS:
        return text.isupper()
    return not is_in_contraction(plain, word)


def _is_inside(words: Sequence[Word], place: int) -> bool:
    """Whether a single letter or digit is part of another word, as in *U.S.* and *e-mail*."""
    return any(other.end - other.start > 1 for other in _around(words, place))


def _is_part(words: Sequence[Word], place: int) -> bool:
    """Whether a word is part of a longer one."""
    word = words[place]
    return any(other.end - other.start > word.end - word.start for other in _around(words, place))


def _wholes(words: Sequence[Word], place: int) -> list[int]:
    """The places of the words that share a position and include one of the words."""
    word = words[place]
    return [
        at
        for at in range(max(place - MAX_PARTS_BEFORE, 0), min(place + 3, len(words)))
        if not words[at].advances and words[at].start <= word.start and words[at].end >= word.end
    ]


def _around(words: Sequence[Word], place: int) -> list[Word]:
    """The words that include one of them, itself among them."""
    word = words[place]
    near = words[max(place - MAX_PARTS_BEFORE, 0) : place + 3]
    return [other for other in near if other.start <= word.start and other.end >= word.end]


def _stop_words(plain: str) -> list[Term]:
    """The terms of a text of stop words alone: all of it, and each."""
    tokens = tuple(tokens_of(plain))
    phrase = [Term(tokens)] if len(tokens) > 1 else []
    return [*phrase, *(Term((token,)) for token in tokens)]


def _frequencies(terms: Sequence[Term], words: Sequence[Term]) -> dict[Term, int]:
    """How often each of the terms occurs among the words, in any inflection."""
    counts = Counter(stems_of(word.tokens) for word in words)
    return {term: max(1, counts[stems_of(term.tokens)]) for term in terms}


def _pairs(terms: Sequence[Term], in_order: Sequence[Term | None]) -> Iterator[Term]:
    """Yield the neighbouring words that are terms, in their first spelling."""
    spelling = {stems_of(term.tokens): term for term in terms if len(term.tokens) == 1 and not term.in_title}
    pairs: dict[tuple[str, ...], Term] = {}
    known = [None if word is None else spelling.get(stems_of(word.tokens)) for word in in_order]
    for first, second in itertools.pairwise(known):
        if first is not None and second is not None and first != second:
            pair = Term((*first.tokens, *second.tokens))
            pairs.setdefault(stems_of(pair.tokens), pair)
    yield from pairs.values()


def _shortened(terms: Iterable[Term], longest: int) -> Iterator[Term]:
    """The terms, each cut to its first `longest` words."""
    return (dataclasses.replace(term, tokens=term.tokens[:longest]) for term in terms)


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


def plain_runs(parsed: ParsedQuery) -> list[list[str]]:
    """Return the words of a query outside quotation marks and operators, in runs of neighbours; a code is one
    word."""
    words = words_of(parsed.plain)
    codes = {
        (word.start, word.end)
        for place, word in enumerate(words)
        if not word.advances and _is_code(parsed.plain, words, place)
    }
    runs: list[list[str]] = [[]]
    end = 0
    for place, word in enumerate(words):
        is_code = (word.start, word.end) in codes
        if not (is_code or word.advances) or word.start < end:
            continue
        covering = max((code for code in codes if code[0] <= word.start < code[1]), default=None)
        start, stop = covering or (word.start, word.end)
        if "  " in parsed.plain[end:start]:
            runs.append([])
        runs[-1].append(parsed.plain[start:stop] if covering else surface(parsed.plain, words, place))
        end = stop
    return [run for run in runs if run]


def _distinct(terms: Iterable[Term]) -> list[Term]:
    """The terms without those that differ from an earlier one only by inflection."""
    distinct: dict[tuple[tuple[str, ...], bool], Term] = {}
    for term in terms:
        distinct.setdefault((stems_of(term.tokens), term.in_title), term)
    return list(distinct.values())


def _blank(characters: list[str], start: int, end: int) -> None:
    characters[start:end] = " " * (end - start)
