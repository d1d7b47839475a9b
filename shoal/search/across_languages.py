"""Searches across languages: the words of a query also stand for words of other languages that mean the same.

Wordnets say which do (`lagoon.wordnets`): a word has synsets, and so have words of other languages. The
words of the query are lemmas or have the stem of one. The longest lemma counts, of several words if there is
one; in scripts without spaces, it is found by its signs. Only lemmas with a word in the library count, so a
long one that leads nowhere does not hide a short one.

Of the words of a lemma, the likeliest stand for it: those whose senses have the largest shares in common with
it, over all of its senses. Like synonyms, they are other forms of the word of the query, in passages of their
language alone: the English *pain* is not the French one. A lemma has at most
`MAX_WORDS`, and a query `MAX_FORMS` in all languages. More of both, and other weights of senses, gain nothing
(`python -m benchmarks.languages --across`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lagoon.errors import LagoonError
from lagoon.tokens import fold
from lagoon.wordnets import WORDNETS, Wordnet, distribution_of, has_wordnet, load_wordnet
from shoal.declared.search import ALL_LANGUAGES
from shoal.search.library_index import LibraryIndex
from shoal.search.passage_languages import in_languages
from shoal.search.query_language import ParsedQuery, Term, Translation, plain_runs
from shoal.search.signals import find_matches
from shoal.support.languages import ENGLISH, LANGUAGES
from shoal.words.analysis import folded, stems_of, tokens_of
from shoal.words.detection import stop_words
from shoal.words.inflections import has_stemmer, inflections
from shoal.words.terms import TERMS, is_without_spaces

MAX_WORDS = 8
"""Words of one language that stand for a word."""
MAX_FORMS = 256
"""Words that stand for those of one query; each costs as much as a word of the query."""
MAX_CANDIDATES = 32
"""Likeliest words of a lemma that are looked up in the library."""
MAX_PARTS = 5
"""Words of a lemma."""
MAX_SIGNS = 8
"""Signs of a lemma in a script without spaces."""
MAX_QUERY_WORDS = 64
"""Words, or signs of a script without spaces, of a query that lemmas are looked for in."""


def languages_with_words(of_library: Sequence[str]) -> list[str]:
    """Return the languages that a query across languages may be in: those of the library, and those with a
    wordnet."""
    return sorted({*of_library, *filter(has_wordnet, LANGUAGES)})


def targets_of(wanted: Sequence[str], of_library: Sequence[str], own: Sequence[str]) -> list[str]:
    """Return the languages of the library that a query is to be searched in besides its own."""
    others = [code for code in of_library if ALL_LANGUAGES in wanted or code in wanted]
    return [code for code in others if own != (code,)]


def with_translations(
    library: LibraryIndex, parsed: ParsedQuery, wanted: Sequence[str], of_library: Sequence[str]
) -> ParsedQuery:
    """Return a query whose words also stand for words of other languages of the library."""
    targets = targets_of(wanted, of_library, parsed.languages)
    if not targets:
        return parsed
    synonyms = {term: list(others) for term, others in parsed.synonyms.items()}
    translations: list[Translation] = []
    parts: set[Term] = set()
    for code in parsed.languages:
        wordnet = _wordnet_of(code)
        others = {other: _wordnet_of(other) for other in targets if other != code}
        present = {other: each for other, each in others.items() if isinstance(each, Wordnet)}
        if not isinstance(wordnet, Wordnet) or not present:
            continue
        reader = _Reader(library, parsed, code, wordnet, present)
        for each in reader.translations():
            translations.append(each)
            for term in each.terms:
                synonyms.setdefault(term, []).append(each.form)
        parts |= reader.crossing
    return dataclasses.replace(
        parsed,
        synonyms={term: tuple(dict.fromkeys(others)) for term, others in synonyms.items()},
        translations=tuple(dict.fromkeys(translations)),
        parts=parsed.parts | _in_no_passage(library, parts.difference(synonyms)),
    )


def _in_no_passage(library: LibraryIndex, terms: Collection[Term]) -> set[Term]:
    found = find_matches(library, list(terms))
    return {term for term in terms if not found[term].n_chunks}


def missing_wordnets(wanted: Sequence[str], of_library: Sequence[str], own: Sequence[str]) -> list[str]:
    """Return a warning for each language that a query cannot be searched from or in."""
    targets = targets_of(wanted, of_library, own)
    warnings = []
    for code in dict.fromkeys((*own, *targets) if targets else ()):
        found = _wordnet_of(code) if code in LANGUAGES else None
        if isinstance(found, str):
            warnings.append(f"no search across languages for {LANGUAGES[code].name}: {found}")
    return warnings


def _wordnet_of(code: str) -> Wordnet | str:
    """The wordnet of a language, or why there is none."""
    try:
        wordnet = load_wordnet(code)
    except LagoonError as error:
        return str(error)
    if wordnet is not None:
        return wordnet
    return f"{distribution_of(code)} is not installed" if code in WORDNETS else "there is no wordnet of it"


@dataclass
class _Reader:
    """Finds the lemmas of one language in a query. `crossing`: terms of it between two lemmas, in scripts
    without spaces."""

    library: LibraryIndex
    parsed: ParsedQuery
    code: str
    wordnet: Wordnet
    others: Mapping[str, Wordnet]
    crossing: set[Term] = dataclasses.field(default_factory=set)

    @functools.cached_property
    def _plain(self) -> dict[tuple[str, ...], Term]:
        """The terms of single words, by their stem."""
        return {
            stems_of(term.tokens): term
            for term in self.parsed.terms
            if len(term.tokens) == 1 and not term.in_title and term not in self.parsed.required
        }

    @functools.cached_property
    def _most(self) -> int:
        """Words of each lemma in each language."""
        n_lemmas = max(len(self._plain), 1) * len(self.others) * len(self.parsed.languages)
        return max(1, min(MAX_WORDS, MAX_FORMS // n_lemmas))

    def translations(self) -> Iterator[Translation]:
        """Yield the translations of the lemmas with words in the library, the longest at each place."""
        n_left = MAX_QUERY_WORDS
        if any(map(is_without_spaces, self.parsed.plain)):
            yield from self._among_signs()
        for run in plain_runs(self.parsed):
            words = [word for word in run if not any(map(is_without_spaces, word))][:n_left]
            n_left -= len(words)
            at = 0
            while at < len(words):
                found, n_words = self._at(words, at)
                yield from found
                at += n_words

    def _at(self, words: Sequence[str], at: int) -> tuple[tuple[Translation, ...], int]:
        """The translations of the longest lemma at a place, and how many words it has."""
        for n_words in range(min(MAX_PARTS, len(words) - at), 0, -1):
            tokens = words[at : at + n_words]
            terms = tuple(self._plain[stem,] for stem in stems_of(tokens) if (stem,) in self._plain)
            if not terms or (n_words == 1 and folded(tokens[0]) in stop_words(self.code)):
                continue
            places = _by_stems(self.wordnet, self.code).get(_stems(tokens, self.code), [])
            found = self._words_for(" ".join(tokens), tuple(dict.fromkeys(terms)), places)
            if found:
                return found, n_words
        return (), 1

    def _among_signs(self) -> Iterator[Translation]:
        """Yield the translations of the lemmas in a text of a script without spaces."""
        text = self.parsed.plain
        longest = min(self.wordnet.most_letters, MAX_SIGNS)
        covered: list[tuple[int, int]] = []
        at, n_left = 0, MAX_QUERY_WORDS
        while at < len(text) and n_left:
            if not is_without_spaces(text[at]):
                at += 1
                continue
            n_left -= 1
            end = at + 1
            while end < len(text) and end - at < longest and is_without_spaces(text[end]):
                end += 1
            for stop in range(end, at, -1):
                place = self.wordnet.places.get(fold(text[at:stop]))
                own = self._term_at(at) if place is not None else None
                found = self._words_for(text[at:stop], (own,), [place]) if place is not None and own else ()
                if found:
                    yield from found
                    covered.append((at, stop))
                    break
            else:
                stop = at + 1
            at = stop
        self._note_crossing(covered)

    def _term_at(self, start: int) -> Term | None:
        """The term of the query that begins at a sign, or ends with it."""
        words = [word for word in self.parsed.words if word.advances]
        beginning = [word for word in words if word.start == start]
        for word in beginning or [word for word in words if word.end == start + 1]:
            term = self._plain.get(stems_of([self.parsed.plain[word.start : word.end]]))
            if term is not None:
                return term
        return None

    def _note_crossing(self, covered: Sequence[tuple[int, int]]) -> None:
        for word in self.parsed.words:
            surface = self.parsed.plain[word.start : word.end]
            if word.advances and any(map(is_without_spaces, surface)):
                term = self._plain.get(stems_of([surface]))
                if term is not None and not any(a <= word.start and word.end <= b for a, b in covered):
                    self.crossing.add(term)

    def _words_for(
        self, typed: str, terms: tuple[Term, ...], places: Sequence[int]
    ) -> tuple[Translation, ...]:
        """The words of other languages in the library that stand for lemmas, the likeliest first."""
        senses = [sense for place in places for sense in self.wordnet.senses(place)]
        return tuple(
            Translation(typed, terms, form, code)
            for code, other in self.others.items()
            for form in self._forms(code, _likeliest(senses, other, stop_words(code)))
        )

    def _forms(self, code: str, words: Sequence[str]) -> list[Term]:
        """The first of some words that the library has in passages of their language."""
        forms = [form for word in words if (form := form_in_index(word, code)) is not None]
        found = find_matches(self.library, forms)
        present = (form for form in forms if in_languages(found[form], [code]).n_chunks)
        return list(itertools.islice(present, self._most))


def _likeliest(senses: Sequence[tuple[int, float]], other: Wordnet, left_out: frozenset[str]) -> list[str]:
    """The words of a language with the largest shares of some senses."""
    chances: defaultdict[str, float] = defaultdict(float)
    for synset, share in senses:
        for word, of_word in other.words_of(synset):
            if word not in left_out:
                chances[word] += share * of_word
    return sorted(chances, key=lambda word: (-chances[word], word))[:MAX_CANDIDATES]


@functools.lru_cache(maxsize=100_000)
def form_in_index(word: str, code: str) -> Term | None:
    """Return what stands in the index for a word of a language in normal form; None for a word without
    letters or digits."""
    tokens = tuple(tokens_of(word))
    if not tokens:
        return None
    if has_stemmer(code):
        stems = [inflections(token, [code]) for token in tokens]
        if all(stems):
            return Term(tuple(stem for (stem,) in stems), written=word)
    return Term(tokens, written=word)


def _stems(tokens: Sequence[str], code: str) -> tuple[str, ...]:
    """The stems of words by the language, or by their script."""
    if code == ENGLISH or not has_stemmer(code):
        return stems_of(tokens)
    return tuple(next(iter(inflections(token, [code])), folded(token)) for token in tokens)


@functools.cache
def _by_stems(wordnet: Wordnet, code: str) -> dict[tuple[str, ...], list[int]]:
    """The lemmas of a language by the stems of their words."""
    found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    words = [word.split(" ") for word in wordnet.words]
    tokens = list(dict.fromkeys(itertools.chain.from_iterable(words)))
    # They are folded, so the analysis of words as typed is not needed: it takes seconds.
    by_script = code == ENGLISH or not has_stemmer(code)
    stems = TERMS.of_forms(tokens) if by_script else _stems(tokens, code)
    stem_of = dict(zip(tokens, stems, strict=True))
    for place, of_word in enumerate(words):
        found[tuple(map(stem_of.__getitem__, of_word))].append(place)
    return dict(found)
