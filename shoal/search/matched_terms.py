"""Where texts have the words of a query: inflections, highlights, names, matched terms and the field boost.

The index joins words by their stem, which joins different words too: *numeral* and *numerous*.
In 22 books and 33 articles, 15,100 pairs of forms with one Porter stem differ by the endings below. The
dictionary has 5,887 of these as two words (*block* and *blocked*). It joins 539 other pairs, mostly by a
wrong stem (*goeth* and *Goethe*), so the spelling alone decides.

Matched terms explain the BM25 of a chunk and its field boost. The field boost of a passage is the share of
the query's terms in its title, headings or tags. Each term counts once, for the first of the parts `title`,
`heading_path` and `tag_overlap` that has it, so the parts add up to the field boost.

A name is not a thing: a passage about *Jobs* is not about jobs. So names are reasons of their own, and no
reef is a reason through one. A word of a query is a name if it has a capital letter inside the query, where
other words have none, or if the library writes it with a capital letter in most places. A passage has it as a
name if it does so in most places, too, and at least once where no sentence begins.
"""

from __future__ import annotations

import calendar
import copy
import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lagoon.tokens import PERSON_TITLES, STOP_WORDS
from shoal.index.index import Index
from shoal.index.matching import count_form, is_name
from shoal.models.scores import FieldBoostParts, MatchedTerm
from shoal.models.search import SearchMode
from shoal.search.query_language import ParsedQuery, Term
from shoal.support.languages import ENGLISH
from shoal.words.analysis import folded, stems_of, tokens_of
from shoal.words.compounds import Word
from shoal.words.inflections import analyze_for
from shoal.words.script_stems import has_script_stem
from shoal.words.terms import TERMS

# Endings of plurals, -ed and -ing, and what the base has instead.
_ENDINGS = (
    ("s", ""),
    ("es", ""),
    ("ies", "y"),
    ("ed", ""),
    ("ed", "e"),
    ("ied", "y"),
    ("ing", ""),
    ("ing", "e"),
    ("ying", "ie"),
)
_SHORTEST = 2
"""Least letters of a base."""
Spans = tuple[tuple[int, int], ...]
"""Starts and ends in code points, end exclusive, in order, not overlapping."""
TITLE, HEADINGS, TEXT, TAG = "title", "headings", "text", "tag"
BOOSTED_PLACES = frozenset({TITLE, HEADINGS, TAG})
"""Places that count for the field boost."""
PLACES = (TITLE, HEADINGS, TAG)
"""The place of a matched term for each of `FieldBoostParts`, in their order."""
LEAST_COUNT = 5
"""Occurrences from which the library says that a word typed in small letters is a name."""
MOST_LOOKED_UP = 32
"""Words of a query that are looked up in the library."""
MOST_AROUND = 2
"""Words on either side that a name is completed by: Steve of *Steve Jobs*."""
MOST_OCCURRENCES = 16
"""Occurrences of names in a passage that are looked at."""
_WORD_BEFORE = re.compile(r"(?<![\w'’-])([^\W\d_][\w'’-]{1,29})(\.?) $")
_WORD_AFTER = re.compile(r" ([^\W\d_][\w'’-]{1,29})(?![\w'’-])")
_REACH = 32
"""Characters in which `_WORD_BEFORE` and `_WORD_AFTER` look for a word."""
_SENTENCE_END = frozenset(".!?:;…•*#|–—")
_BEFORE_A_WORD = " \t\r\n\"'“”‘’«»()[]{}_"
_TITLES = PERSON_TITLES | {"st", "gen"}
_NO_NAMES = STOP_WORDS | _TITLES
_LAST_WORD = re.compile(r"\b([^\W\d_]{1,5})\.\Z")
_DATES = frozenset(map(str.lower, (*calendar.day_name, *calendar.month_name)))


class Occurrence(NamedTuple):
    """A word in a text.

    form        as written, folded
    position    of words; those of a compound may share one
    start, end  in code points, end exclusive
    """

    form: str
    position: int
    start: int
    end: int


def find_phrase(
    found: Mapping[str, Sequence[Occurrence]], phrase: Sequence[str]
) -> list[tuple[Occurrence, ...]]:
    """Return the words wherever these terms are side by side in a text. `found`: its words by their terms."""
    if len(phrase) == 1:
        return [(each,) for each in found.get(phrase[0], ())]
    if not all(term in found for term in phrase):
        return []
    at = [{each.position: each for each in found[term]} for term in phrase]
    return [
        tuple(words[position + place] for place, words in enumerate(at))
        for position in at[0]
        if all(position + place in words for place, words in enumerate(at))
    ]


class TextWords:
    """The words of some texts by their terms."""

    def __init__(self, *groups: Sequence[str], languages: Sequence[str] = ()) -> None:
        """Read the texts of all groups at once, which takes less time than one group after another.
        `languages`: those that inflections are looked for in."""
        texts = list(itertools.chain.from_iterable(groups))
        self._stream, self._bounds = analyze_for(texts, languages)
        self._offsets = list(itertools.accumulate((len(text) + 1 for text in texts), initial=0))
        self._term_of = TERMS.of_forms(self._stream.forms)
        self._sizes = list(map(len, groups))
        self._texts = range(len(texts))
        self._found: tuple[frozenset[str], list[dict[str, list[Occurrence]]]] = (frozenset(), [])

    def by_group(self) -> list[TextWords]:
        """Return the words of each group."""
        ends = itertools.accumulate(self._sizes, initial=0)
        groups = []
        for start, end in itertools.pairwise(ends):
            group = copy.copy(self)
            group._texts = range(start, end)
            groups.append(group)
        return groups

    @property
    def all_forms(self) -> Sequence[str]:
        """The distinct forms in all the texts."""
        return self._stream.forms

    def forms_of_each(self) -> list[Callable[[], list[str]]]:
        """Return, for each text, what returns its distinct forms."""
        return [functools.partial(self._forms_of, text) for text in self._texts]

    def _forms_of(self, text: int) -> list[str]:
        ids = self._stream.ids[self._bounds[text] : self._bounds[text + 1]]
        return [self._stream.forms[number] for number in np.unique(ids).tolist()]

    def forms(self, terms: Collection[str]) -> set[str]:
        """Return the forms in any of the texts, of all groups, that have one of these terms."""
        wanted = frozenset(terms)
        return {form for form, term in zip(self._stream.forms, self._term_of, strict=True) if term in wanted}

    def find(self, terms: Collection[str]) -> list[dict[str, list[Occurrence]]]:
        """Return, for each text, the occurrences of those of these terms that it has, in order; those of
        other terms may be among them."""
        wanted = frozenset(terms)
        if wanted and wanted <= self._found[0]:
            return self._found[1]
        found: list[dict[str, list[Occurrence]]] = [{} for _ in self._texts]
        self._found = wanted, found
        is_wanted = np.array([term in wanted for term in self._term_of], dtype=np.bool_)
        if not is_wanted.any():
            return found
        stream = self._stream
        first, end = self._bounds[[self._texts.start, self._texts.stop]].tolist()
        places = np.flatnonzero(is_wanted[stream.ids[first:end]]) + first
        texts = np.searchsorted(self._bounds, places, side="right") - 1
        positions = stream.positions[places]
        columns = (texts, stream.ids[places], positions, stream.starts[places], stream.ends[places])
        for text, number, position, start, stop in zip(*(each.tolist() for each in columns), strict=True):
            before = self._offsets[text]
            occurrence = Occurrence(stream.forms[number], position, start - before, stop - before)
            found[text - self._texts.start].setdefault(self._term_of[number], []).append(occurrence)
        return found


def find_inflections(words: Iterable[str], forms: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the words that each form is an inflection of; forms of none are left out. All are folded.

    The same word has a common base and the same stem. Of scripts with stems of their own, the stem decides.
    """
    words, forms = list(words), list(forms)
    by_stem: defaultdict[str, set[str]] = defaultdict(set)
    for word, stem in zip(words, stems_of(words), strict=True):
        by_stem[stem].add(word)
    inflections = {}
    for form, stem in zip(forms, stems_of(forms), strict=True):
        if stem in by_stem:
            bases = base_forms(form)
            same = frozenset(
                by_stem[stem]
                if has_script_stem(form)
                else (word for word in by_stem[stem] if not bases.isdisjoint(base_forms(word)))
            )
            if same:
                inflections[form] = same
    return inflections


def base_forms(form: str) -> set[str]:
    """Return the forms that this one may be an inflection of by its spelling, and itself."""
    bases = {form}
    for ending, restored in _ENDINGS:
        base = form.removesuffix(ending)
        if base != form and len(base + restored) >= _SHORTEST:
            bases.add(base + restored)
            if not restored and base[-1] == base[-2]:
                bases.add(base[:-1])
    return bases


def is_inflection(form: str, word: str) -> bool:
    """Return whether a folded form is a word, or its regular plural, -ed or -ing, with the final consonant
    doubled where English does so: *charring*, but not *charing*, of *char*."""
    if form == word or form in (f"{word}s", f"{word}es"):
        return True
    if word.endswith("e"):
        return form in (f"{word}d", f"{word[:-1]}ing", f"{word[:-2]}ying")
    if word.endswith("y"):
        return form in (f"{word[:-1]}ies", f"{word[:-1]}ied", f"{word}ing", f"{word}ed")
    doubled = word + word[-1] if _doubles(word) else word
    return form in (f"{doubled}ed", f"{doubled}ing")


def with_doubled_letter(form: str) -> Iterator[str]:
    """Yield a form with each of its letters doubled: *running* of *runing*."""
    return (form[:i] + letter + form[i:] for i, letter in enumerate(form) if form[i - 1 : i] != letter)


def _doubles(word: str) -> bool:
    """Whether a word of one vowel ends in a vowel and a consonant that is doubled."""
    is_vowel = [letter in "aeiou" for letter in word]
    return sum(is_vowel) == 1 and len(word) > 2 and is_vowel[-2] and word[-1] not in "wxy"


@dataclass(frozen=True, slots=True)
class Highlighter:
    """What to highlight: folded words, and phrases of folded words side by side, in any inflection."""

    words: frozenset[str]
    phrases: tuple[tuple[str, ...], ...]
    languages: tuple[str, ...] = ()


def make_highlighter(parsed: ParsedQuery, mode: SearchMode, language: str | None = None) -> Highlighter:
    """Return what to highlight for a query. The words of a phrase count by themselves only in mode `reef`,
    where no result must have the phrase. `language`: of the texts; translations into others are left out."""
    terms = [term for term in parsed.terms if term not in parsed.parts]
    others = itertools.chain.from_iterable(parsed.synonyms.values())
    only_in = {} if language is None else parsed.languages_of_forms
    forms = [*terms, *parsed.also, *(each for each in others if language in only_in.get(each, (language,)))]
    words = [token for term in forms if len(term.tokens) == 1 for token in term.tokens]
    if mode is SearchMode.reef:
        about = (token for token in tokens_of(parsed.about) if len(token) > 1)
        words += [token for token in about if folded(token) not in STOP_WORDS]
    return Highlighter(
        words=frozenset(map(folded, words)),
        phrases=tuple(tuple(map(folded, term.tokens)) for term in forms if len(term.tokens) > 1),
        languages=parsed.all_languages,
    )


def find_highlights(
    texts: Sequence[str],
    highlighter: Highlighter,
    words_of_texts: TextWords | None = None,
    of_texts: Sequence[Highlighter] | None = None,
) -> list[Spans]:
    """Return the highlighted spans of each text; `words_of_texts` are its words, if already read. `of_texts`:
    a part of `highlighter` for each text, instead of all of it."""
    read = words_of_texts or TextWords(texts, languages=highlighter.languages)
    wanted = list(highlighter.words.union(*highlighter.phrases))
    term_of = dict(zip(wanted, stems_of(wanted), strict=True))
    terms = set(term_of.values())
    inflections = find_inflections(wanted, read.forms(terms))
    highlights = []
    for found, own in zip(read.find(terms), of_texts or [highlighter] * len(texts), strict=True):
        spans = [
            (occurrence.start, occurrence.end)
            for occurrences in found.values()
            for occurrence in occurrences
            if not own.words.isdisjoint(inflections.get(occurrence.form, ()))
        ]
        for phrase in own.phrases:
            stems = [term_of[word] for word in phrase]
            spans += _find_phrase(phrase, stems, found, inflections)
        highlights.append(_merge_spans(spans))
    return highlights


def _find_phrase(
    phrase: Sequence[str],
    stems: Sequence[str],
    found: Mapping[str, Sequence[Occurrence]],
    inflections: Mapping[str, frozenset[str]],
) -> Iterable[tuple[int, int]]:
    """The places of a phrase in a text."""
    if not all(stem in found for stem in stems):
        return
    ends: dict[int, int] = {}
    for place in range(len(phrase) - 1, -1, -1):
        starts = {
            occurrence.position: occurrence
            for occurrence in found[stems[place]]
            if phrase[place] in inflections.get(occurrence.form, ())
        }
        if place == len(phrase) - 1:
            ends = {position: occurrence.end for position, occurrence in starts.items()}
        else:
            ends = {position: ends[position + 1] for position in starts if position + 1 in ends}
        if place == 0:
            yield from ((starts[position].start, end) for position, end in ends.items())


def _merge_spans(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


class ChunkTexts(NamedTuple):
    """The indexed texts of a chunk, the tags of its document, and the language of its text."""

    title: str
    headings: Sequence[str]
    text: str
    tags: Sequence[str]
    language: str = ENGLISH


def find_matched_terms(
    terms: Sequence[Term],
    matching_tags: Mapping[Term, Sequence[str]],
    chunks: Sequence[ChunkTexts],
    synonyms: Mapping[Term, Sequence[Term]] | None = None,
    languages: Sequence[str] = (),
    languages_of_forms: Mapping[Term, Collection[str]] | None = None,
    typed_lemmas: Mapping[tuple[Term, Term], str] | None = None,
) -> list[tuple[MatchedTerm, ...]]:
    """Return the matched terms of each chunk, in the order of the query; compares stems like the index, and
    says if only the stem is the same. `synonyms`: other forms of terms; `languages`: of the query;
    `languages_of_forms`: of words of other languages among them, which count in chunks of these;
    `typed_lemmas`: what these stand for, by term and word."""
    only_in = languages_of_forms or {}
    if not terms:
        return [() for _ in chunks]
    term_stems = [(term, stems_of(term.tokens)) for term in terms]
    others = {
        term: [(other, stems_of(other.tokens)) for other in forms] for term, forms in (synonyms or {}).items()
    }
    wanted = {stem for _, stems in term_stems for stem in stems}
    wanted.update(stem for forms in others.values() for _, stems in forms for stem in stems)
    # The index holds the headings as one text.
    texts = [(chunk.title, "\n".join(chunk.headings), chunk.text) for chunk in chunks]
    words = TextWords(*map(list, zip(*texts, strict=True)), languages=languages)
    inflections = find_inflections(
        {folded(token) for term in terms for token in term.tokens},
        words.forms(wanted),
    )
    by_place = [group.find(wanted) for group in words.by_group()]
    matched = []
    for chunk, of_chunk, *found in zip(chunks, texts, *by_place, strict=True):
        places = dict(zip((TITLE, HEADINGS, TEXT), map(_TextWords, of_chunk, found), strict=True))
        tags = set(chunk.tags)
        left_out = {form for form, codes in only_in.items() if chunk.language not in codes}
        own = {term: [each for each in forms if each[0] not in left_out] for term, forms in others.items()}
        matched.append(
            tuple(_matched(term_stems, own, typed_lemmas or {}, places, inflections, matching_tags, tags))
        )
    return matched


def format_term(term: Term) -> str:
    """Return a term as typed in a query."""
    words = term.written or (f'"{term.text}"' if len(term.tokens) > 1 else term.text)
    return f"title:{words}" if term.in_title else words


class _TextWords:
    """The words of a text by their terms, for finding words and phrases."""

    def __init__(self, text: str, found: Mapping[str, Sequence[Occurrence]]) -> None:
        self._text = text
        self._found = found

    def find(self, phrase: tuple[str, ...]) -> list[tuple[Occurrence, ...]]:
        """The words wherever these terms are side by side."""
        return find_phrase(self._found, phrase)

    def written(self, words: Sequence[Occurrence]) -> str:
        """The words as the text has them."""
        return " ".join(self._text[word.start : word.end] for word in words)


def _matched(
    term_stems: Sequence[tuple[Term, tuple[str, ...]]],
    others: Mapping[Term, Sequence[tuple[Term, tuple[str, ...]]]],
    typed_lemmas: Mapping[tuple[Term, Term], str],
    places: Mapping[str, _TextWords],
    inflections: Mapping[str, frozenset[str]],
    matching_tags: Mapping[Term, Sequence[str]],
    tags: set[str],
) -> Iterable[MatchedTerm]:
    for term, stems in term_stems:
        searched = [TITLE] if term.in_title else list(places)
        words = {name: places[name].find(stems) for name in searched}
        for inflected in (stems for other, stems in others.get(term, ()) if other.is_inflection):
            words = {name: found or places[name].find(inflected) for name, found in words.items()}
        found = {
            other: [name for name in searched if places[name].find(stems)]
            for other, stems in others.get(term, ())
            if not other.is_inflection
        }
        matched_places = [
            name for name in searched if words[name] or any(name in by_form for by_form in found.values())
        ]
        matches = [(name, match) for name in matched_places for match in words[name]]
        same_stem = None
        if matches and not any(_is_inflection(match, term, inflections) for _, match in matches):
            name, match = matches[0]
            same_stem = places[name].written(match)
        if tags.intersection(matching_tags.get(term, ())):
            matched_places.append(TAG)
        if matched_places:
            present = {other: typed_lemmas.get((term, other)) for other, names in found.items() if names}
            yield MatchedTerm(
                format_term(term),
                tuple(matched_places),
                same_stem,
                tuple(other.text for other, typed in present.items() if typed is None),
                tuple(_translated(other, typed) for other, typed in present.items() if typed is not None),
            )


def _translated(form: Term, typed: str) -> str:
    """A word of another language, after the words that it stands for if they are several."""
    return f"{typed} → {form.written}" if " " in typed else form.written


def _is_inflection(
    words: Sequence[Occurrence], term: Term, inflections: Mapping[str, frozenset[str]]
) -> bool:
    pairs = zip(words, term.tokens, strict=True)
    return all(folded(token) in inflections.get(word.form, ()) for word, token in pairs)


def field_boost_parts(matched: Sequence[MatchedTerm], n_terms: int) -> FieldBoostParts:
    """Return the parts of a passage's field boost, 0..1 each, for a query of `n_terms` terms."""
    firsts = [next((place for place in PLACES if place in match.places), None) for match in matched]
    return FieldBoostParts(*(firsts.count(place) / max(n_terms, 1) for place in PLACES))


def typed_names(about: str, words: Iterable[Word]) -> frozenset[str]:
    """Return those words of a query, folded, that have a capital letter inside it, where others have none."""
    return _possible_names(about, words)[1]


def _possible_names(about: str, words: Iterable[Word]) -> tuple[list[Word], frozenset[str]]:
    """The words of a query that may be names, and the `typed_names` among them."""
    words = [word for word in words if word.advances and word.form not in _NO_NAMES]
    words = [word for word in words if len(word.form) > 1 and word.form.isalpha()]
    if not any(about[word.start].islower() for word in words):
        return words, frozenset()
    # Codes in capitals are no names, and the first word has a capital letter for its place.
    words = [word for word in words if not about[word.start : word.end].isupper()]
    typed = (word.form for word in words if about[word.start].isupper() and about[: word.start].strip())
    return words, frozenset(typed)


def without_names(
    index: Index, about: str, words: Iterable[Word], misleading: Callable[[Iterable[str]], Collection[str]]
) -> tuple[str, frozenset[str]]:
    """Return a query with spaces for its misleading names, of the same length, and all its names, folded.
    `words`: its words; `misleading` says which of some names mean another thing than the word."""
    words, typed = _possible_names(about, words)
    forms = dict.fromkeys(word.form for word in words if word.form not in typed)
    names = typed.union(
        form
        for form in list(forms)[:MOST_LOOKED_UP]
        if is_name(index, form) and count_form(index, form) >= LEAST_COUNT
    )
    chars = list(about)
    left_out = misleading(names) if names else ()
    for word in words if left_out else ():
        if word.form in left_out:
            chars[word.start : word.end] = " " * (word.end - word.start)
    return "".join(chars), names


def is_written_as_name(text: str, matches: Sequence[Sequence[Occurrence]]) -> bool:
    """Return whether a passage writes a term as a name. `matches`: its words wherever the passage has it."""
    capitals = [words[0].start for words in matches if text[words[0].start].isupper()]
    return 2 * len(capitals) > len(matches) and any(
        not _begins_sentence(text, start) for start in capitals[:MOST_OCCURRENCES]
    )


def _begins_sentence(text: str, start: int) -> bool:
    before = text[max(start - _REACH, 0) : start].rstrip(_BEFORE_A_WORD)
    if not before or before[-1] not in _SENTENCE_END:
        return not before
    word = _LAST_WORD.search(before)
    return word is None or (len(word[1]) > 1 and word[1].lower() not in _TITLES)


class NamedTerm(NamedTuple):
    """A name of a query in a passage.

    places              its matches
    is_after, is_before whether another name stands right before or after it in the query
    """

    places: Sequence[Sequence[Occurrence]]
    is_after: bool = False
    is_before: bool = False


def full_names(text: str, terms: Iterable[NamedTerm], is_a_name: Callable[[str], bool]) -> list[str | None]:
    """Return, for each term, the name that a passage has with it, as it writes it most often.

    None if the passage has it in other names only: Joseph Stiglitz is not the Joseph of *Joseph Schumpeter*.
    `is_a_name` says of a folded form whether the library has it as a name.
    """
    terms = list(terms)
    spans = [[(words[0].start, words[-1].end) for words in term.places[:MOST_OCCURRENCES]] for term in terms]
    starting = {start: end for of_term in spans for start, end in of_term}
    ending = {end: start for start, end in starting.items()}
    names: list[str | None] = []
    for term, of_term in zip(terms, spans, strict=True):
        written: Counter[str] = Counter()
        for start, end in of_term:
            own = _with_own_words(text, end, starting)
            # The first part of a name is not the name.
            if text[start].isupper() and (own > end or not term.is_before):
                name = _completed(text, start, own, term, ending, is_a_name)
                if name is not None:
                    written[name] += 1
        longest = max((len(each.split()) for each in written), default=0)
        completed = [each for each, _ in written.most_common() if longest == 1 or " " in each]
        names.append(completed[0] if completed else None)
    return names


def _with_own_words(text: str, end: int, starting: dict[int, int]) -> int:
    """The end of a name with the words of the query after it."""
    for _ in range(MOST_AROUND):
        after = _WORD_AFTER.match(text, end)
        if after is None or after.start(1) not in starting:
            break
        end = starting[after.start(1)]
    return end


def _completed(
    text: str, start: int, end: int, term: NamedTerm, ending: dict[int, int], is_a_name: Callable[[str], bool]
) -> str | None:
    """A name with what stands before it, such as a given name; None if it is part of another name."""
    first = start
    for _ in range(MOST_AROUND):
        before = _WORD_BEFORE.search(text, max(start - _REACH, 0), start)
        if before is None or (before[2] and before[1].lower() not in _TITLES):
            break
        if before.end(1) not in ending and not before[2]:
            if not _completes(before[1], is_a_name):
                break
            if term.is_after and start == first:
                return None
        start = before.start(1)
    return text[start:end]


def _completes(word: str, is_a_name: Callable[[str], bool]) -> bool:
    form = folded(word)
    is_capitalised = word[0].isupper() and not word.isupper()
    return is_capitalised and form not in STOP_WORDS | _DATES and is_a_name(form)
