"""What a library has learned: its own words as people see them, with the evidence they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lagoon.plurals import plurals
from lagoon.tokens import tokenise
from shoal.errors import NotFoundError
from shoal.learning.scorers import scorer_for
from shoal.storage import vocabulary_queries
from shoal.storage.vocabulary_queries import KnownWord, WordUser

if TYPE_CHECKING:
    from shoal.storage.database import Snapshot
    from shoal.storage.vocabulary_records import LearnedWord as Row

DOCUMENTS_PER_WORD = 3
"""Documents named as evidence of a word; the counts tell how many there are."""

OTHER_DATA = "these words were learned with other lagoon data and take no part in searches; `shoal rescore` learns them anew"


@dataclass(frozen=True, slots=True)
class Association:
    """A reef that a learned word belongs to; `strength` is 1.0 for its strongest. `reef_name` is None where the word
    was learned with other data of lagoon."""

    reef_id: int
    reef_name: str | None
    strength: float


@dataclass(frozen=True, slots=True)
class WordEvidence:
    """What a word was learned from, its regular plurals included: occurrences, documents, and some of these, those
    with the most passages first."""

    n_occurrences: int
    n_documents: int
    documents: tuple[WordUser, ...]


@dataclass(frozen=True, slots=True)
class LearnedWord:
    """A word or compound that a library has learned.

    `specificity` runs from -2 (at home in many reefs) to 2 (in few). It is as it is since `from_version` of the
    vocabulary. `reefs`: strongest first.
    """

    word: str
    is_compound: bool
    n_occurrences: int
    n_documents: int
    specificity: int
    from_version: int
    reefs: tuple[Association, ...]
    evidence: WordEvidence


@dataclass(frozen=True, slots=True)
class WordPage:
    """One page of the learned words; `total` counts those on all pages."""

    words: tuple[LearnedWord, ...]
    total: int
    vocabulary_version: int
    warnings: tuple[str, ...] = ()


def list_words(
    snapshot: Snapshot, scorer: Any, *, q: str | None = None, limit: int = 50, offset: int = 0
) -> WordPage:
    """Words of the newest version that hold `q`, however it is spelt; those met most often first."""
    newest = vocabulary_queries.newest(snapshot)
    asked = None if q is None else normal_form(q)
    if asked == "":
        return WordPage((), 0, newest.number)
    known, total = vocabulary_queries.list_words(snapshot, newest.number, q=asked, limit=limit, offset=offset)
    is_other = total > 0 and newest.data_checksum != scorer.data_checksum
    words = tuple(_describe(snapshot, scorer, known, newest))
    return WordPage(words, total, newest.number, (OTHER_DATA,) if is_other else ())


def find(snapshot: Snapshot, scorer: Any, words: Iterable[str]) -> dict[str, LearnedWord]:
    """Those of `words`, in their normal form, that are learned at the newest version."""
    newest = vocabulary_queries.newest(snapshot)
    known = vocabulary_queries.find_words(snapshot, sorted(set(words)), newest.number)
    return {one.word: one for one in _describe(snapshot, scorer, known, newest)}


def find_one(snapshot: Snapshot, scorer: Any, text: str) -> LearnedWord:
    """The learned word or compound that a text is, in singular or plural. Raises NotFoundError."""
    matches = scorer_for(text, snapshot, scorer).explain_words(text)
    learned = [match for match in matches if match.status == "custom"]
    first, last = min((m.start for m in matches), default=0), max((m.end for m in matches), default=0)
    for match in learned:
        if (match.start, match.end) == (first, last):
            return find(snapshot, scorer, [match.word])[match.word]
    raise NotFoundError(_not_learned(text, [m.status for m in matches], [m.word for m in learned]))


def _not_learned(text: str, statuses: Sequence[str], learned: Sequence[str]) -> str:
    whole = normal_form(text)
    if not whole:
        return f"{text!r} holds no word"
    if learned:
        return f"{whole!r} was not learned as a whole, but {', '.join(map(repr, learned))} was"
    if statuses == ["known"]:
        return f"{whole!r} is in the dictionary; learned words are those that it lacks"
    if statuses == ["stop"]:
        return f"{whole!r} is too common to say anything, and is never learned"
    if statuses == ["number"]:
        return f"{whole!r} is a number; numbers are never learned"
    return (
        f"{whole!r} was not learned: too few documents use it, or in no company that would tell its meaning"
    )


def normal_form(text: str) -> str:
    """A text as words are kept: small letters without accents, one space between tokens; '' without any."""
    stream = tokenise(text)
    return " ".join(stream.forms[i] for i in stream.ids.tolist())


def _describe(
    snapshot: Snapshot, scorer: Any, known: Iterable[KnownWord], newest: vocabulary_queries.Version
) -> list[LearnedWord]:
    rows = [one.learned for one in known if one.learned is not None]
    since = vocabulary_queries.from_versions(snapshot, [row.word for row in rows], newest.number)
    is_of_this_data = newest.data_checksum == scorer.data_checksum
    names = {reef.id: reef.name for reef in scorer.reefs} if is_of_this_data else {}
    return [_learned_word(snapshot, row, since[row.word], names) for row in rows]


def _learned_word(snapshot: Snapshot, row: Row, since: int, names: Mapping[int, str]) -> LearnedWord:
    users = vocabulary_queries.users_of(
        snapshot, row.word, _forms(row.word), is_compound=row.is_compound, limit=DOCUMENTS_PER_WORD
    )
    return LearnedWord(
        word=row.word,
        is_compound=row.is_compound,
        n_occurrences=row.n_occurrences,
        n_documents=row.n_documents,
        specificity=row.specificity,
        from_version=since,
        reefs=tuple(
            Association(reef.reef_id, names.get(reef.reef_id), round(reef.strength, 6)) for reef in row.reefs
        ),
        evidence=WordEvidence(row.n_occurrences, row.n_documents, tuple(users)),
    )


def _forms(word: str) -> list[str]:
    """A word and its regular plurals, which count as evidence for it."""
    before, space, last = word.rpartition(" ")
    return [word, *(before + space + many for many in plurals(last))]
