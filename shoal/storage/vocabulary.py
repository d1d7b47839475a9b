"""Learned words as they are at a version. A row holds from its version until the next row of the same word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.storage.database import IDS_PER_STATEMENT, listed

if TYPE_CHECKING:
    from shoal.learning.vocabulary import LearnedWord
    from shoal.storage.database import Snapshot

NEWEST = "SELECT version, data_checksum FROM vocabulary_versions ORDER BY version DESC LIMIT 1"
CHECKSUM_OF = "SELECT data_checksum FROM vocabulary_versions WHERE version = :version"

_COLUMNS = """w.id, w.word, w.word_id, w.retired, w.is_compound, w.specificity, w.idf_q, w.weight_q, w.n_occurrences,
    w.n_documents"""
# The row of a word that holds at a version.
_HOLDS = """w.from_version = (
    SELECT MAX(v.from_version) FROM custom_words v WHERE v.word = w.word AND v.from_version <= :version)"""

AT = f"SELECT {_COLUMNS} FROM custom_words w WHERE w.retired = 0 AND {_HOLDS} ORDER BY w.word_id"
SINCE = f"""
    SELECT {_COLUMNS} FROM custom_words w
    WHERE w.from_version > :since AND w.from_version <= :version AND {_HOLDS} ORDER BY w.word_id
"""
FIND = f"SELECT {_COLUMNS} FROM custom_words w WHERE w.word IN ({{words}}) AND {_HOLDS} ORDER BY w.word_id"
REEFS_OF = """
    SELECT custom_word_id, reef_id, bm25_q, association_strength FROM custom_word_reefs
    WHERE custom_word_id IN ({ids}) ORDER BY custom_word_id, association_strength DESC, reef_id
"""
N_WORDS = "SELECT n_words FROM vocabulary_versions WHERE version = :version"

IDS_OF = "SELECT word, MAX(word_id) AS word_id FROM custom_words WHERE word IN ({words}) GROUP BY word"
MAX_WORD_ID = "SELECT MAX(word_id) FROM custom_words WHERE from_version <= :version"

# The oldest version that the items of an open wave are scored with.
OLDEST_IN_USE = """
    SELECT MIN(w.vocabulary_version) FROM waves w JOIN jobs j ON j.id = w.job_id
    WHERE w.stage <> 'done' AND j.status IN ('enqueued', 'processing')
"""


class Version(NamedTuple):
    """A version of the vocabulary; `data_checksum` is that of lagoon's data its words belong to, None where it has
    none."""

    number: int
    data_checksum: str | None


class KnownWord(NamedTuple):
    """A word at some version, under its id; None for one that is retired."""

    word_id: int
    word: str
    learned: LearnedWord | None


def newest(snapshot: Snapshot) -> Version:
    """The version that searches use."""
    return Version(*snapshot.first(NEWEST))


def version(snapshot: Snapshot, number: int) -> Version:
    """A version that there is."""
    return Version(number, snapshot.value(CHECKSUM_OF, {"version": number}))


def words_at(snapshot: Snapshot, number: int) -> list[KnownWord]:
    """Every word known at a version."""
    return _known(snapshot, snapshot.rows(AT, {"version": number}))


def words_since(snapshot: Snapshot, since: int, number: int) -> list[KnownWord]:
    """Words that are other at a version than at an earlier one, the retired ones included."""
    return _known(snapshot, snapshot.rows(SINCE, {"since": since, "version": number}))


def find_words(snapshot: Snapshot, words: Iterable[str], number: int) -> list[KnownWord]:
    """Those of `words` that are or were known at a version."""
    rows = [
        row
        for some, given in _slices(words)
        for row in snapshot.rows(FIND.format(words=some), given | {"version": number})
    ]
    return _known(snapshot, rows)


def count_words(snapshot: Snapshot, number: int) -> int:
    """How many words are known at a version."""
    count: int = snapshot.value(N_WORDS, {"version": number})
    return count


def word_ids(snapshot: Snapshot, words: Collection[str]) -> dict[str, int]:
    """The ids of those words that ever had one."""
    return {
        row["word"]: row["word_id"]
        for some, given in _slices(words)
        for row in snapshot.rows(IDS_OF.format(words=some), given)
    }


def largest_word_id(snapshot: Snapshot, number: int) -> int | None:
    """The largest id that a word has or had, up to a version; None if there never was one."""
    found: int | None = snapshot.value(MAX_WORD_ID, {"version": number})
    return found


def oldest_in_use(snapshot: Snapshot, number: int) -> int:
    """The oldest version that someone may still score with, `number` being the newest."""
    oldest = snapshot.value(OLDEST_IN_USE)
    return number if oldest is None else min(number, oldest)


def _slices(words: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The words in parts that fit a statement, each as the inside of `IN (...)` and its parameters."""
    asked = list(words)
    for start in range(0, len(asked), IDS_PER_STATEMENT):
        yield listed("word", asked[start : start + IDS_PER_STATEMENT])


def _known(snapshot: Snapshot, rows: Sequence[Any]) -> list[KnownWord]:
    reefs = _reefs(snapshot, [row["id"] for row in rows if not row["retired"]])
    return [_known_word(row, reefs) for row in rows]


def _reefs(snapshot: Snapshot, row_ids: Sequence[int]) -> dict[int, list[tuple[int, int, float]]]:
    found: dict[int, list[tuple[int, int, float]]] = {}
    for start in range(0, len(row_ids), IDS_PER_STATEMENT):
        ids, parameters = listed("id", row_ids[start : start + IDS_PER_STATEMENT])
        for row_id, *reef in snapshot.tuples(REEFS_OF.format(ids=ids), parameters):
            found.setdefault(row_id, []).append((reef[0], reef[1], reef[2]))
    return found


def _known_word(row: Any, reefs: Mapping[int, Sequence[tuple[int, int, float]]]) -> KnownWord:
    from shoal.learning.vocabulary import LearnedReef, LearnedWord

    if row["retired"]:
        return KnownWord(row["word_id"], row["word"], None)
    learned = LearnedWord(
        word=row["word"],
        is_compound=bool(row["is_compound"]),
        specificity=row["specificity"],
        idf_q=row["idf_q"],
        weight_q=row["weight_q"],
        n_occurrences=row["n_occurrences"],
        n_documents=row["n_documents"],
        reefs=tuple(LearnedReef(*reef) for reef in reefs.get(row["id"], ())),
    )
    return KnownWord(row["word_id"], row["word"], learned)
