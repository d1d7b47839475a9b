"""Names: which words of a query are names, and how a passage writes them.

A name is not a thing: a passage about *Jobs* is not about jobs. So names are reasons of their own, and no
reef is a reason through one.

A word of a query is a name if it has a capital letter inside the query, where other words have none, or if
the library writes it with a capital letter in most places. A passage has it as a name if it does so in most
places, too, and at least once where no sentence begins.
"""

from __future__ import annotations

import calendar
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lagoon.tokens import PERSON_TITLES, STOP_WORDS
from shoal.index.forms import count_form, is_name
from shoal.index.index import Index
from shoal.search.matched_terms import Occurrence
from shoal.words.compounds import Word
from shoal.words.typed import folded

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


def without_names(index: Index, about: str, words: Iterable[Word]) -> tuple[str, frozenset[str]]:
    """Return a query with spaces for its names, of the same length, and these names, folded. `words`: its
    words."""
    words = [word for word in words if word.advances and word.form not in _NO_NAMES]
    words = [word for word in words if len(word.form) > 1 and word.form.isalpha()]
    typed: set[str] = set()
    if any(about[word.start].islower() for word in words):
        # Codes in capitals are no names, and the first word has a capital letter for its place.
        words = [word for word in words if not about[word.start : word.end].isupper()]
        typed = {word.form for word in words if about[word.start].isupper() and about[: word.start].strip()}
    forms = dict.fromkeys(word.form for word in words if word.form not in typed)
    names = frozenset(typed).union(
        form
        for form in list(forms)[:MOST_LOOKED_UP]
        if is_name(index, form) and count_form(index, form) >= LEAST_COUNT
    )
    chars = list(about)
    for word in words if names else ():
        if word.form in names:
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
