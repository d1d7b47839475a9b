"""Why a passage is a result: the reasons that can be shown, the surest first.

1. Names, codes, phrases and rare words that query and passage share. A phrase has words that stand side by
   side in both. Names never are reasons through a reef.
2. The other words of the query, as the passage writes them, in its text or above it.
3. Topics: reefs that are reasons and labels of the passage.
4. Without a topic: related words, a pair of a word of the query and one of the passage that mean the same
   reef, in the sense of both.

A passage with none of these says what it was found by: learned words, the passages that match best, its
neighbours, its vector, or topics in the background.

Most shared reefs are background: a query has up to 60 reefs with feedback, and a passage 38. A reef is a
reason, which a person would accept, if the passage is about it and the query's own words ask for it. Its
probability is a logistic function of both probabilities (`lagoon.results`), fitted to judged reasons, and
that of a pair of words to judged pairs (`benchmarks/reason_truth.py`). The words that show a reef are those
of query and passage with the largest supported contributions to it.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import STOP_WORDS, token_list
from shoal.index.matching import is_name
from shoal.models.scores import Reason, ReasonKind, SharedReef
from shoal.models.vocabulary import Label
from shoal.scorer import Scorer
from shoal.search.library_index import LibraryIndex
from shoal.search.matched_terms import (
    NamedTerm,
    Occurrence,
    find_inflections,
    find_phrase,
    full_names,
    is_written_as_name,
)
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.query_language import Term
from shoal.search.ranking import Ranked
from shoal.search.signals import tag_spellings
from shoal.storage.chunk_queries import StoredProfiles
from shoal.storage.profiles import MAX_REEFS
from shoal.words.analysis import folded, stems_of
from shoal.words.terms import is_mark

MOST_WORDS, MOST_NAMES, MOST_PHRASES, MOST_TOPICS = 5, 3, 2, 2
"""Items of a reason."""
MOST_IN_PHRASE = 4
"""Words of the query that are looked for as one phrase."""
RARE_SHARE = 1 / 2000
"""Largest share of the passages of the library that have a rare word."""
RARE_COUNT, SMALL_SHARE = 5, 1 / 50
"""In a small library, most passages that have a word which is rare in ordinary text, too, and their share."""
RARE_WEIGHT = 6.0
"""Least weight of a word of the dictionary that is rare in ordinary text: the logarithm of 1 in 400 texts."""

_SIDE_BY_SIDE = re.compile(r"(?:[^.!?;:()\[\]\n]|\n(?!\s*\n))+")
"""Words without the end of a sentence or a blank line between them."""
_ORDER = {kind: place for place, kind in enumerate(ReasonKind)}

Doubles = NDArray[np.float64]

Found = Mapping[str, Sequence[Occurrence]]
"""The words of a text by their stems."""
INTERCEPT, PASSAGE, QUERY = 0.79, 0.58, 0.62
"""Coefficients of the log odds of the probabilities of passage and query."""
LEAST = 0.001
"""Probabilities are kept this far from 0 and 1."""
LEAST_ASKED, LEAST_MEANT = 0.3, 0.06
"""Least probability that the query's words are about the reef of a reason, and that from which on they count
with it if a word means the reef: a short query is hardly about anything by itself."""
PAIR_INTERCEPT, COSINE, SUPPORT, OF_PASSAGE, HELD = -2.55, 4.29, 2.03, 0.24, 0.36
"""Coefficients of a pair of related words: the cosine of their meanings, the support of the reef that
they have most in common, the logarithm of its probability in the passage, and whether the passage has the
word of the query, too."""
LEAST_RELATED = 0.75
"""Least probability of a pair that is shown: in it, a loose pair counts as half a related one."""
LEAST_OF_PASSAGE = 0.01
"""Is added to the probability before its logarithm is taken."""
SHORTEST_RELATED = 3
"""Letters of a word of a passage that is related to one of the query."""
MOST_RELATED = 16
"""Words of a query that may be related to words of a passage."""
PROBABILITY_DIGITS = 3
MOST_WORDS_OF_REEF = 3
"""Words of query and passage that a reason names."""
LEAST_SHARE = 0.25
"""Least contribution of a named word, as a share of the largest."""
MOST_QUOTED = 120
"""Characters of a sentence that a reason quotes."""
QUOTATION_MARKS = '"“”„«» '
"""Those at the ends of a sentence are left out, since the reason has its own."""


class Passage(NamedTuple):
    """A passage as its reasons need it.

    head      title, headings and path, a line for each
    in_text, in_head   the words of the query in both
    forms     returns its different words, folded
    labels    what it is about
    language  its own
    reefs     probability of each of its reefs that the query's words have, too
    """

    ranked: Ranked
    text: str
    head: str
    in_text: Found
    in_head: Found
    forms: Callable[[], Sequence[str]]
    tags: Sequence[str]
    labels: Sequence[Label]
    language: str
    reefs: Mapping[int, float]


class _Form(NamedTuple):
    """A term of the query, or a synonym of one; `form` is folded. Of a word of other languages, `languages`
    are those of the passages that it counts in, and `typed` is what it stands for."""

    form: str
    stems: tuple[str, ...]
    languages: Collection[str] = ()
    typed: str = ""

    @classmethod
    def of(cls, term: Term, languages: Collection[str] = (), typed: str = "") -> _Form:
        return cls(" ".join(map(folded, term.tokens)), stems_of(term.tokens), languages, typed)

    def counts_in(self, language: str) -> bool:
        """Whether it counts in passages of a language."""
        return not self.languages or language in self.languages


class _Match(NamedTuple):
    """A term in a text: as the text writes it, folded, where, whether it is no synonym, whether it is the
    word itself or an inflection, and no other word with its stem (*microscopes*, not *microscopic*), and
    what a word of another language stands for, as typed."""

    written: str
    form: str
    places: Sequence[Sequence[Occurrence]]
    is_own: bool
    is_same_word: bool
    typed: str = ""


@dataclass(frozen=True)
class ReasonFinder:
    """Finds the reasons of the results of a search. `scorer` has no learned words."""

    query: AnalyzedQuery
    library: LibraryIndex
    scorer: Scorer
    label_threshold: float

    @functools.cached_property
    def stems(self) -> frozenset[str]:
        """What is looked for in passages."""
        return frozenset(stem for forms in self._forms.values() for form in forms for stem in form.stems)

    def reefs_of(self, stored: StoredProfiles) -> dict[int, dict[int, float]]:
        """Return, by chunk, the probabilities of the reefs that the query's words have, too."""
        profiles = stored.profiles
        is_own = np.zeros(MAX_REEFS, dtype=np.bool_)
        is_own[[reef.reef_id for reef in self.query.profile.reefs]] = True
        in_query = np.flatnonzero(is_own[profiles.reef_ids])
        columns = (profiles.chunks, profiles.reef_ids, profiles.probabilities)
        reefs: dict[int, dict[int, float]] = {}
        for place, reef_id, chance in zip(*(column[in_query].tolist() for column in columns), strict=True):
            reefs.setdefault(stored.chunk_ids[place], {})[reef_id] = chance
        return reefs

    def find(self, passage: Passage) -> tuple[Reason, ...]:
        """Return the reasons of a passage, at least one."""
        reasons = (*self._by_words(passage), *self._by_topics(passage))
        return reasons or (self._found_by(passage),)

    # -- words

    @functools.cached_property
    def _forms(self) -> Mapping[Term, Sequence[_Form]]:
        """Each term of the query with its synonyms."""
        parsed = self.query.parsed
        languages, typed = parsed.languages_of_forms, parsed.typed_lemmas
        return {
            term: [
                _Form.of(term),
                *(
                    _Form.of(form, languages.get(form, ()), typed.get((term, form), ""))
                    for form in parsed.synonyms.get(term, ())
                ),
            ]
            for term in parsed.terms
            if term not in parsed.parts
        }

    @functools.cached_property
    def _typed(self) -> Mapping[str, str]:
        """The folded word as typed for each word that takes its place."""
        return {near.word: folded(near.typed) for near in self.query.near_words}

    @functools.cached_property
    def _names(self) -> frozenset[Term]:
        names = self.query.names
        return frozenset(
            term for term, (own, *_) in self._forms.items() if names.issuperset(own.form.split())
        )

    @functools.cached_property
    def _rare(self) -> frozenset[Term]:
        statistics = self.query.term_statistics
        most = RARE_SHARE * statistics.n_chunks
        most_unusual = max(most, min(RARE_COUNT, SMALL_SHARE * statistics.n_chunks))
        return frozenset(
            term
            for term in self._forms
            if 0 < (n := statistics.counts.get(term, 0)) <= most
            or (0 < n <= most_unusual and self._is_unusual(term))
        )

    def _is_unusual(self, term: Term) -> bool:
        """Whether a word is rare in ordinary text, or not in the dictionary."""
        if len(term.tokens) > 1 or not term.text.isalpha():
            return False
        row = self.scorer.stem_contributions(self._forms[term][0].stems[0])
        return row is None or row[0] >= RARE_WEIGHT

    @functools.cached_property
    def _is_name(self) -> Callable[[str], bool]:
        """Whether the library has a folded form as a name."""
        return functools.cache(functools.partial(is_name, self.library.index))

    def _by_words(self, passage: Passage) -> Iterator[Reason]:
        tags = frozenset(passage.tags)
        named: list[tuple[Term, _Match]] = []
        phrases = self._phrases(passage)
        within = {stem for stems in phrases for stem in stems}
        items: defaultdict[tuple[ReasonKind, str], dict[str, str]] = defaultdict(dict)
        for term, all_forms in self._forms.items():
            forms = [form for form in all_forms if form.counts_in(passage.language)]
            match = None if term.in_title else _first_match(forms, passage.text, passage.in_text)
            if match is not None:
                if self._is_named(term, match, passage):
                    named.append((term, match))
                elif not within.issuperset(forms[0].stems):
                    items[self._kind(term, match)].setdefault(match.form, self._described(match, term))
            elif (above := _first_match(forms, passage.head, passage.in_head)) is not None:
                lead = f"{_place(passage.head, above.places[0][0].start)} has"
                items[ReasonKind.heading, lead].setdefault(above.form, self._described(above, term))
            elif tags and (tag := next((each for each in tag_spellings(term.text) if each in tags), None)):
                items[ReasonKind.tag, "tagged"][tag] = tag
        found = full_names(passage.text, (self._named(*each) for each in named), self._is_name)
        for (term, match), name in zip(named, found, strict=True):
            if name is None:
                items[self._kind(term, match)].setdefault(match.form, self._described(match, term))
        names = [name for name in dict.fromkeys(found) if name is not None]
        names = [name for name in names if not any(name != other and name in other for other in names)]
        if names:
            yield Reason(ReasonKind.name, "names", tuple(names[:MOST_NAMES]))
        if phrases:
            items[ReasonKind.phrase, "has the phrase"].update(
                (written, written) for written in list(phrases.values())[:MOST_PHRASES]
            )
        for (kind, lead), described in sorted(items.items(), key=lambda pair: _ORDER[pair[0][0]]):
            words = tuple(described.values())
            more = f" {len(words)} words, such as" if len(words) > MOST_WORDS else ""
            yield Reason(kind, lead + more, words[:MOST_WORDS])

    @functools.cached_property
    def _runs(self) -> Sequence[Sequence[Term]]:
        """Neighbouring words of the query that are neither names nor codes, at most MOST_IN_PHRASE."""
        parsed = self.query.parsed
        own = {term.tokens: term for term in self._forms if len(term.tokens) == 1}
        known = own.keys() - {term.tokens for term in (*self._names, *parsed.identifiers)}
        pairs = [pair.tokens for pair in parsed.pairs if known.issuperset((pair.tokens[:1], pair.tokens[1:]))]
        runs = [list(pairs[0])] if pairs else []
        for before, pair in itertools.pairwise(pairs):
            if before[-1] == pair[0]:
                runs[-1].append(pair[1])
            else:
                runs.append(list(pair))
        windows = [
            [own[token,] for token in run[start : start + length]]
            for length in range(MOST_IN_PHRASE, 1, -1)
            for run in runs
            for start in range(len(run) - length + 1)
        ]
        phrases = [[term] for term in self._forms if len(term.tokens) > 1 and not term.in_title]
        return [*phrases, *windows]

    def _phrases(self, passage: Passage) -> dict[tuple[str, ...], str]:
        """The phrases of the query, and longest runs of its words, that a text has, by their stems."""
        found: dict[tuple[str, ...], str] = {}
        for run in self._runs:
            stems = tuple(stem for term in run for stem in self._forms[term][0].stems)
            if any(set(longer).issuperset(stems) for longer in found):
                continue
            for words in find_phrase(passage.in_text, stems):
                written = passage.text[words[0].start : words[-1].end]
                if _SIDE_BY_SIDE.fullmatch(written):
                    found[stems] = " ".join(written.split())
                    break
        return found

    def _is_named(self, term: Term, match: _Match, passage: Passage) -> bool:
        is_name_of_query = term in self._names and not match.written.isupper()
        return is_name_of_query and is_written_as_name(passage.text, self._same(term, match))

    def _same(self, term: Term, match: _Match) -> list[Sequence[Occurrence]]:
        """The places without inflection: Normans are not the Norman of a query."""
        own = self._forms[term][0].form
        return [words for words in match.places if _form_of(words) == own]

    def _named(self, term: Term, match: _Match) -> NamedTerm:
        names = self.query.names
        first, last = folded(term.tokens[0]), folded(term.tokens[-1])
        pairs = [tuple(map(folded, pair.tokens)) for pair in self.query.parsed.pairs]
        is_after = any(pair[1] == first and pair[0] in names for pair in pairs)
        is_before = any(pair[0] == last and pair[1] in names for pair in pairs)
        return NamedTerm(self._same(term, match), is_after, is_before)

    def _kind(self, term: Term, match: _Match) -> tuple[ReasonKind, str]:
        """What a term in a text is, and what is said of it."""
        if term in self.query.parsed.identifiers or (len(term.text) > 1 and match.written.isupper()):
            return ReasonKind.code, "has"
        if term in self._rare and match.is_own and match.is_same_word:
            return ReasonKind.rare_word, "holds the rare"
        return ReasonKind.word, "holds"

    def _described(self, match: _Match, term: Term) -> str:
        """A word as it is written, with the word of the query if it is another."""
        if match.typed:
            return f"{match.typed} → {match.written}"
        typed = self._typed.get(term.text)
        own = typed or self._forms[term][0].form
        if match.is_own and (len(term.tokens) > 1 or (match.is_same_word and typed is None)):
            return match.written
        return match.written if match.form == own else f"{match.written} (for {own})"

    # -- topics

    def _by_topics(self, passage: Passage) -> Iterator[Reason]:
        names = {label.reef_id: label.reef_name for label in passage.labels}
        chances = {
            reef_id: chance
            for reef_id in self._asked_for
            if reef_id in names and (chance := self._chance(passage, reef_id)) >= self.label_threshold
        }
        topics = sorted(chances, key=lambda reef_id: (-chances[reef_id], reef_id))[:MOST_TOPICS]
        if topics:
            known = tuple(names[reef_id] for reef_id in topics if not self._is_learned(reef_id))
            if known:
                yield Reason(ReasonKind.topic, "about", known)
            else:
                words = ", ".join(self._learned[topics[0]])
                yield Reason(
                    ReasonKind.learned, f"by what was learned of {words}, about", (names[topics[0]],)
                )
        elif pairs := self._pairs(passage):
            yield Reason(ReasonKind.related_words, "related words:", pairs)

    def _chance(self, passage: Passage, reef_id: int) -> float:
        asked = self.query.profile.probabilities[reef_id]
        is_meant = reef_id in self._query_words
        return reason_probability(passage.reefs.get(reef_id, 0.0), asked, is_meant=is_meant)

    def _pairs(self, passage: Passage) -> tuple[str, ...]:
        """The words of the query with a related word of the passage each, the most probable pairs first."""
        words = self._single_words
        others = [
            form for form in passage.forms() if len(form) >= SHORTEST_RELATED and form not in STOP_WORDS
        ]
        relations = self.scorer.relate_forms(words, others, passage.reefs)
        is_held = [any(stem in passage.in_text for stem in stems_of([word])) for word in words]
        of_reefs = np.zeros(MAX_REEFS)
        of_reefs[list(passage.reefs)] = list(passage.reefs.values())
        chances = pair_probability(
            relations.cosine, relations.support, of_reefs[relations.reef], np.array(is_held)[:, None]
        )
        written, least = passage.text.lower(), max(LEAST_RELATED, self.label_threshold)
        pairs: dict[str, str] = {}
        for place in np.argsort(-chances, axis=None, kind="stable").tolist():
            number, other = divmod(place, len(others))
            if chances[number, other] < least or len(pairs) == MOST_TOPICS:
                break
            word, related = words[number], others[other]
            is_new = word not in pairs and related not in pairs.values()
            if is_new and related in written and self._is_other(related):
                pairs[word] = related
        return tuple(f"{word} ~ {other}" for word, other in pairs.items())

    @functools.cached_property
    def _single_words(self) -> Sequence[str]:
        """The first words of the query that may be related to others."""
        forms = dict.fromkeys(token_list(self.query.topical))
        names = self.query.names
        return [form for form in forms if form not in STOP_WORDS and form not in names][:MOST_RELATED]

    def _is_other(self, word: str) -> bool:
        """Whether a word of a passage is neither one of the query nor a name."""
        own = self.stems.union(stems_of(self._single_words))  # A part of a compound is no term of its own.
        return own.isdisjoint(stems_of([word])) and not self._is_name(word)

    @functools.cached_property
    def _asked_for(self) -> list[int]:
        """The reefs that the query's words ask for."""
        chances = self.query.profile.probabilities.items()
        words = self._query_words
        return [reef for reef, chance in chances if chance >= (LEAST_MEANT if reef in words else LEAST_ASKED)]

    @functools.cached_property
    def _query_words(self) -> Mapping[int, Sequence[str]]:
        return words_that_ask(self.query)

    @functools.cached_property
    def _learned(self) -> Mapping[int, Sequence[str]]:
        """The learned words of the query by the reefs that no other word of it asks for."""
        scorer, text = self.query.scorer, self.query.topical
        reefs = [reef_id for reef_id in self._asked_for if reef_id not in self._query_words]
        if scorer is self.scorer or not reefs:
            return {}
        known = self.scorer.supporting_words(text, reefs)
        reefs = [reef_id for reef_id in reefs if reef_id not in known]
        return largest_words(scorer.supporting_words(text, reefs)) if reefs else {}

    def _is_learned(self, reef_id: int) -> bool:
        return reef_id not in self._query_words and reef_id in self._learned

    # -- neither

    def _found_by(self, passage: Passage) -> Reason:
        """What found a passage that shares neither words nor topics with the query."""
        ranked = passage.ranked
        if ranked.is_dense_match and ranked.dense_raw is not None:
            return Reason(ReasonKind.meaning, f"near in meaning: similarity {ranked.dense_raw:.2f}")
        if ranked.lexical_raw > 0:
            return Reason(ReasonKind.around, "only the passages around it hold words of the query")
        if ranked.is_pinned and not ranked.n_shared:
            return Reason(ReasonKind.pin, "put first by a pin")
        if not passage.reefs:
            lead = "holds no word of the query, and is like the passages that match it best"
            return Reason(ReasonKind.feedback, lead)
        if self._asked_for and all(map(self._is_learned, self._asked_for)):
            learned = dict.fromkeys(word for words in self._learned.values() for word in words)
            lead = "holds no word of the query, and is like what was learned of"
            return Reason(ReasonKind.learned, lead, tuple(learned))
        return Reason(ReasonKind.background, "holds no word of the query, and shares no clear topic with it")


def _first_match(forms: Sequence[_Form], text: str, found: Found) -> _Match | None:
    """The first form that a text has; as it is typed, if the text has it so somewhere, or else inflected."""
    for form in forms:
        if matches := find_phrase(found, form.stems):
            written = [_form_of(words) for words in matches]
            same = find_inflections((form.form,), written)
            likeness = [(each == form.form, each in same or is_mark(each)) for each in written]
            chosen = likeness.index(max(likeness))
            start, end = matches[chosen][0].start, matches[chosen][-1].end
            shown = " ".join(text[start:end].split())
            own = folded(shown) if is_mark(written[chosen]) else written[chosen]
            is_own, is_same_word = form is forms[0], any(likeness[chosen])
            return _Match(shown, own, matches, is_own, is_same_word, form.typed)
    return None


def _form_of(words: Sequence[Occurrence]) -> str:
    return " ".join(word.form for word in words)


def _place(head: str, start: int) -> str:
    """Which line of a head an offset is in: the title, a heading or the path."""
    n_before, n_behind = head.count("\n", 0, start), head.count("\n", start)
    return "its title" if not n_before else "its heading" if n_behind else "its path"


def reason_probability(passage: float, query: float, *, is_meant: bool = False) -> float:
    """Probability that a shared reef is a reason, from those that passage and query are about it, and whether
    a word of the query means it before others.

    0 if the query hardly asks for the reef, or no word of the passage shows it.
    """
    asked = max(query, LEAST_ASKED) if is_meant and query >= LEAST_MEANT else query
    if not passage or asked < LEAST_ASKED:
        return 0.0
    logit = INTERCEPT + PASSAGE * log_odds(passage) + QUERY * log_odds(asked)
    return round(1.0 / (1.0 + math.exp(-logit)), PROBABILITY_DIGITS)


def words_that_ask(query: AnalyzedQuery) -> dict[int, list[str]]:
    """The words of a query, names aside, that mean each of its reefs before others."""
    return query.scorer.supporting_forms(token_list(query.topical), query.profile.probabilities)


def asked_by_names(query: AnalyzedQuery, words: Mapping[int, Sequence[str]]) -> frozenset[int]:
    """The reefs that only names of a query mean, of those that its `words` mean. A name shows a reef only if
    the passage is about it: *Queen* is a band, too."""
    names = frozenset(stems_of(sorted(query.names)))
    return frozenset(reef for reef, meant in words.items() if names.issuperset(stems_of(meant)))


def pair_probability(
    cosine: Doubles, support: Doubles, of_passage: Doubles, is_held: NDArray[np.bool_]
) -> Doubles:
    """Probability that a word of a query and one of a passage are related in the sense of both. `cosine` and
    `support` as in `lagoon.scorer.FormRelations`; `of_passage`: probability of the reef in the passage;
    `is_held`: whether the passage has the word of the query."""
    logit = PAIR_INTERCEPT + COSINE * cosine + SUPPORT * support + HELD * is_held
    chances: Doubles = 1.0 / (1.0 + np.exp(-logit - OF_PASSAGE * np.log(of_passage + LEAST_OF_PASSAGE)))
    return chances.round(PROBABILITY_DIGITS)


def describe_nearest(sentence: str, similarity: float) -> str:
    """Say in words that a sentence of a passage is near to the query; `similarity` is the cosine."""
    quoted = " ".join(sentence.split()).strip(QUOTATION_MARKS)
    if len(quoted) > MOST_QUOTED:
        quoted = quoted[:MOST_QUOTED].rsplit(" ", 1)[0] + " …"
    return f"its sentence “{quoted}” is near in meaning ({similarity:.2f})"


def log_odds(probability: float) -> float:
    return math.log((probability + LEAST) / (1.0 - probability + LEAST))


def order_reasons(shared: Iterable[SharedReef]) -> tuple[SharedReef, ...]:
    """Put reasons first, most probable first; the order of the others stays."""
    return tuple(sorted(shared, key=lambda reef: -reef.probability if reef.is_reason else 0.0))


def largest_words(
    contributions: Mapping[int, Sequence[tuple[str, float]]],
) -> dict[int, tuple[str, ...]]:
    """By reef, the first words of `ReefScorer.supporting_words` that contribute enough to be named."""
    return {
        reef_id: tuple(
            dict.fromkeys(
                word for word, value in pairs[:MOST_WORDS_OF_REEF] if value >= LEAST_SHARE * pairs[0][1]
            )
        )
        for reef_id, pairs in contributions.items()
    }
