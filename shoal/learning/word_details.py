"""Learned words as shown to users, with their evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from lagoon.tokens import plurals, tokenise
from shoal.errors import NotFoundError
from shoal.learning.scorers import scorer_for
from shoal.scorer import Scorer
from shoal.storage import vocabulary_queries
from shoal.storage.vocabulary_queries import VocabularyEntry, WordUser

if TYPE_CHECKING:
    from shoal.storage.database import Snapshot
    from shoal.storage.vocabulary_records import LearnedWord as Row

DOCUMENTS_PER_WORD = 3
"""Documents listed as evidence of a word; the counts cover all documents."""

OTHER_DATA = (
    "these words were learned with other lagoon data and are not used in searches; "
    "`shoal rescore` learns them again"
)


@dataclass(frozen=True, slots=True)
class Association:
    """A reef of a learned word."""

    reef_id: int
    reef_name: Annotated[str | None, "null for a reef of other lagoon data"]
    strength: Annotated[float, "relative to the word's strongest reef, which has 1"]


@dataclass(frozen=True, slots=True)
class WordEvidence:
    """Evidence of a word, regular plurals included."""

    n_occurrences: Annotated[int, "number of occurrences"]
    n_documents: Annotated[int, "number of documents that use it"]
    documents: Annotated[tuple[WordUser, ...], "the three documents that use it in most chunks"]


@dataclass(frozen=True, slots=True)
class LearnedWord:
    """A word or compound that a library has learned."""

    word: Annotated[str, "the words of a compound joined by spaces"]
    is_compound: Annotated[bool, "whether it has several words"]
    n_occurrences: Annotated[int, "number of occurrences when it was learned"]
    n_documents: Annotated[int, "number of documents it was learned from"]
    specificity: Annotated[int, "-2 (in many reefs) to 2 (in few reefs)"]
    from_version: Annotated[int, "vocabulary version that last changed it"]
    reefs: Annotated[tuple[Association, ...], "strongest first"]
    evidence: Annotated[WordEvidence, "the evidence stored now"]


@dataclass(frozen=True, slots=True)
class WordPage:
    """One page of learned words."""

    words: Annotated[tuple[LearnedWord, ...], "a page of words, most frequent first"]
    total: int
    vocabulary_version: int
    warnings: tuple[str, ...] = ()


CountChunks = Callable[[str], Mapping[int, int]]
"""Counts the chunks that contain the words of a text side by side, in any inflection, by document id, most
first."""


def list_words(
    snapshot: Snapshot,
    scorer: Scorer,
    count_chunks: CountChunks | None,
    *,
    q: str | None = None,
    limit: int = 50,
    offset: int = 0,
) -> WordPage:
    """Words of the newest version that contain the normal form of `q`, most occurrences first.

    Without `count_chunks`, no documents are listed as evidence.
    """
    newest = vocabulary_queries.newest(snapshot)
    form = None if q is None else normal_form(q)
    if form == "":
        return WordPage((), 0, newest.number)
    entries, total = vocabulary_queries.list_words(
        snapshot, newest.number, q=form, limit=limit, offset=offset
    )
    is_other = total > 0 and newest.data_checksum != scorer.data_checksum
    words = tuple(_describe(snapshot, scorer, count_chunks, entries, newest))
    return WordPage(words, total, newest.number, (OTHER_DATA,) if is_other else ())


def find(
    snapshot: Snapshot, scorer: Scorer, count_chunks: CountChunks, words: Iterable[str]
) -> dict[str, LearnedWord]:
    """Find those of `words` (normal forms) that are learned at the newest version."""
    newest = vocabulary_queries.newest(snapshot)
    entries = vocabulary_queries.find_words(snapshot, sorted(set(words)), newest.number)
    return {learned.word: learned for learned in _describe(snapshot, scorer, count_chunks, entries, newest)}


def find_learned_word(
    snapshot: Snapshot, scorer: Scorer, count_chunks: CountChunks, text: str
) -> LearnedWord:
    """Find the learned word or compound that equals a text, in singular or plural. Raises NotFoundError."""
    matches = scorer_for(text, snapshot, scorer).explain_words(text)
    learned = [match for match in matches if match.status == "custom"]
    first, last = min((m.start for m in matches), default=0), max((m.end for m in matches), default=0)
    for match in learned:
        if (match.start, match.end) == (first, last):
            return find(snapshot, scorer, count_chunks, [match.word])[match.word]
    raise NotFoundError(_not_learned(text, [m.status for m in matches], [m.word for m in learned]))


def _not_learned(text: str, statuses: Sequence[str], learned: Sequence[str]) -> str:
    whole = normal_form(text)
    if not whole:
        return f"{text!r} contains no word"
    if learned:
        return f"{whole!r} was not learned as a whole, but {', '.join(map(repr, learned))} was"
    if statuses == ["known"]:
        return f"{whole!r} is in the dictionary; only words that are not in it are learned"
    if statuses == ["stop"]:
        return f"{whole!r} is a stop word; stop words are never learned"
    if statuses == ["number"]:
        return f"{whole!r} is a number; numbers are never learned"
    return (
        f"{whole!r} was not learned: too few documents use it, or the text around it has no topic in common"
    )


def normal_form(text: str) -> str:
    """Normal form of a text: lower case without accents, one space between tokens; '' without tokens."""
    stream = tokenise(text)
    return " ".join(stream.forms[i] for i in stream.ids.tolist())


def _describe(
    snapshot: Snapshot,
    scorer: Scorer,
    count_chunks: CountChunks | None,
    entries: Iterable[VocabularyEntry],
    newest: vocabulary_queries.Version,
) -> list[LearnedWord]:
    rows = [entry.learned for entry in entries if entry.learned is not None]
    since = vocabulary_queries.from_versions(snapshot, [row.word for row in rows], newest.number)
    is_of_this_data = newest.data_checksum == scorer.data_checksum
    names = {reef.id: reef.name for reef in scorer.reefs} if is_of_this_data else {}
    return [_learned_word(snapshot, count_chunks, row, since[row.word], names) for row in rows]


def _learned_word(
    snapshot: Snapshot, count_chunks: CountChunks | None, row: Row, since: int, names: Mapping[int, str]
) -> LearnedWord:
    users: Sequence[WordUser] = ()
    if count_chunks is not None:
        users = vocabulary_queries.documents_using(
            snapshot,
            count_chunks(row.word),
            _forms(row.word),
            is_compound=row.is_compound,
            limit=DOCUMENTS_PER_WORD,
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
    """A word and its regular plurals, which count as its evidence."""
    before, space, last = word.rpartition(" ")
    return [word, *(before + space + plural for plural in plurals(last))]
