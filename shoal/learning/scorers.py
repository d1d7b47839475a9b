"""Scorers that know the learned words of a library, as they are at some version.

A process that scores documents keeps the words of the last few versions and loads only what is new. A search needs
but the words of its query: it looks those up, at the newest version, in the very state it searches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lagoon.plurals import singular
from lagoon.tokens import TokenStream, tokenise, without_clitic
from shoal.storage import vocabulary_queries
from shoal.storage.database import Database, Snapshot

N_KEPT = 3
"""Versions that a process keeps: jobs that overlap are scored with one each."""

LONGEST_COMPOUND = 3
"""Words of a learned compound, at most."""


TEXTS_LOOKED_UP = 8
"""Texts of a version whose words are looked up, before a scorer is made that knows all: making it takes as long as
scoring dozens of notes (5 ms for a thousand words), which is much for a wave of one note."""


@dataclass(slots=True)
class _Kept:
    """The words of a version, each with its id, and the scorer that knows them once it is made."""

    words: dict[str, tuple[int, Any]]
    scorer: Any = None
    n_texts: int = 0


class Vocabularies:
    """The scorers of a process. Safe to share between threads."""

    def __init__(self, database: Database, scorer: Any) -> None:
        """`scorer` has learned nothing; without lagoon's `with_custom_words` it is used for every version."""
        self._database = database
        self.base = scorer
        self._kept: dict[int, _Kept] = {}
        self._lock = threading.Lock()

    def newest(self) -> int:
        """The number of the newest version, whose words are kept from here on: those of a version that no wave is
        scored with may be removed once there is a newer one."""
        with self._lock, self._database.snapshot() as snapshot:
            number = vocabulary_queries.newest(snapshot).number
            if number and can_learn(self.base):
                self._words(number, snapshot)
            return number

    def at(self, number: int) -> Any:
        """The scorer that knows the words of a version; the base scorer where there are none for its data."""
        if number == 0 or not can_learn(self.base):
            return self.base
        with self._lock, self._database.snapshot() as snapshot:
            kept = self._words(number, snapshot)
            if kept.scorer is None:
                kept.scorer = self._with(kept.words.values())
            return kept.scorer

    def reading(self, number: int, texts: Sequence[TokenStream]) -> Any:
        """A scorer that reads these texts as `at(number)` does. It may know no other words."""
        if number == 0 or not can_learn(self.base):
            return self.base
        with self._lock, self._database.snapshot() as snapshot:
            kept = self._words(number, snapshot)
            kept.n_texts += 1
            if kept.scorer is None and kept.n_texts <= TEXTS_LOOKED_UP:
                possible = set().union(*map(_possible_words, texts))
                return self._with(kept.words[word] for word in sorted(possible & kept.words.keys()))
        return self.at(number)

    def _with(self, words: Iterable[tuple[int, Any]]) -> Any:
        from shoal.learning.vocabulary import with_vocabulary

        given = list(words)
        return with_vocabulary(self.base, given) if given else self.base

    def _words(self, number: int, snapshot: Snapshot) -> _Kept:
        found = self._kept.pop(number, None) or _Kept(self._load(number, snapshot))
        # The one used last stays longest.
        self._kept[number] = found
        if len(self._kept) > N_KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    def _load(self, number: int, snapshot: Snapshot) -> dict[str, tuple[int, Any]]:
        if vocabulary_queries.version(snapshot, number).data_checksum != self.base.data_checksum:
            return {}
        earlier = max((kept for kept in self._kept if kept < number), default=None)
        words = dict(self._kept[earlier].words) if earlier is not None else {}
        if words and earlier is not None:
            known = vocabulary_queries.words_since(snapshot, earlier, number)
        else:
            known = vocabulary_queries.words_at(snapshot, number)
        for one in known:
            words.pop(one.word, None)
            if one.learned is not None:
                words[one.word] = one.word_id, one.learned
        return words


def can_learn(scorer: Any) -> bool:
    """Whether words can be learned with a scorer: with lagoon's own; others may lack what it takes."""
    return hasattr(scorer, "with_custom_words")


def scorer_for(text: str, snapshot: Snapshot, scorer: Any) -> Any:
    """A scorer that reads a short text as one would that knows all words of the newest version."""
    if not can_learn(scorer):
        return scorer
    newest = vocabulary_queries.newest(snapshot)
    if newest.data_checksum != scorer.data_checksum:
        return scorer
    found = vocabulary_queries.find_words(snapshot, sorted(_possible_words(tokenise(text))), newest.number)
    words = [(one.word_id, one.learned) for one in found if one.learned is not None]
    if not words:
        return scorer
    from shoal.learning.vocabulary import with_vocabulary

    return with_vocabulary(scorer, words)


def _possible_words(stream: TokenStream) -> set[str]:
    """Every form under which a word or compound of a text may have been learned."""
    spelt = [_spellings(form) for form in stream.forms]
    tokens = [stream.forms[i] for i in stream.ids.tolist()]
    ends = [spelt[i] for i in stream.ids.tolist()]
    possible: set[str] = set()
    for i, end in enumerate(ends):
        for length in range(LONGEST_COMPOUND):
            if length <= i:
                before = tokens[i - length : i]
                possible.update(" ".join([*before, last]) for last in end)
    return possible


def _spellings(form: str) -> set[str]:
    """A form, without its genitive, and the singulars it may be the plural of."""
    found = {form, without_clitic(form)}
    for _ in range(2):
        found |= {one for form in found if (one := singular(form)) is not None}
    return found
