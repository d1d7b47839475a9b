"""Learned words as they are at a version. A row holds from its version until the next row of the same word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.storage.database import IDS_PER_STATEMENT, listed
from shoal.storage.document_queries import literal

if TYPE_CHECKING:
    from shoal.storage.database import Snapshot
    from shoal.storage.vocabulary_records import LearnedWord

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

# Words as a listing shows them, those met most often first; NULL stands for any word.
_LISTED = f"""
    FROM custom_words w
    WHERE w.retired = 0 AND (:pattern IS NULL OR w.word LIKE :pattern ESCAPE '!') AND {_HOLDS}
"""
COUNT_LISTED = "SELECT COUNT(*)" + _LISTED
LIST = f"""
    SELECT {_COLUMNS}, w.from_version {_LISTED} ORDER BY w.n_occurrences DESC, w.word LIMIT :limit OFFSET :offset
"""
FROM_VERSIONS = f"""
    SELECT w.word, w.from_version FROM custom_words w WHERE w.word IN ({{words}}) AND w.retired = 0 AND {_HOLDS}
"""
# Documents whose passages hold a phrase, those with the most such passages first; and how often each of them was
# seen to use a word in these forms: NULL where that was not kept, 0 where it does not use it.
USERS_OF = """
    SELECT d.id AS document_id, d.title, COUNT(*) AS n_chunks,
           (SELECT CASE WHEN EXISTS (SELECT 1 FROM word_observations t WHERE t.observed_id = o.id) THEN (
                SELECT COALESCE(SUM(w.n_occurrences), 0) FROM word_observations w
                WHERE w.observed_id = o.id AND w.kind = :kind AND w.word IN ({forms})) END
            FROM observed_documents o
            WHERE o.content_hash = d.content_hash AND o.state IN ('pending', 'learned')) AS n_occurrences
    FROM chunk_fts f
    JOIN chunks c ON c.id = f.rowid
    JOIN documents d ON d.id = c.document_id
    WHERE chunk_fts MATCH :phrase
    GROUP BY d.id
    ORDER BY n_chunks DESC, d.id
    LIMIT :limit
"""

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


class WordUser(NamedTuple):
    """A document that uses a word: in so many passages, so often (None where observations are not kept)."""

    document_id: int
    title: str
    n_chunks: int
    n_occurrences: int | None


_MORE_USERS = 4
"""How many times as many documents are looked at as are wanted: a few may use another word of the same stem."""


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


def list_words(
    snapshot: Snapshot, number: int, *, q: str | None = None, limit: int = 50, offset: int = 0
) -> tuple[list[KnownWord], int]:
    """Words known at a version that hold `q`, those met most often first, and how many there are on all pages."""
    asked = {"version": number, "pattern": None if q is None else f"%{literal(q)}%"}
    rows = snapshot.rows(LIST, {**asked, "limit": limit, "offset": offset})
    return _known(snapshot, rows), snapshot.value(COUNT_LISTED, asked)


def from_versions(snapshot: Snapshot, words: Iterable[str], number: int) -> dict[str, int]:
    """Since which version each of the words known at a version is as it is."""
    return {
        row["word"]: row["from_version"]
        for some, given in _slices(words)
        for row in snapshot.rows(FROM_VERSIONS.format(words=some), given | {"version": number})
    }


def users_of(
    snapshot: Snapshot, word: str, forms: Iterable[str], *, is_compound: bool, limit: int
) -> list[WordUser]:
    """Documents that use a learned word in one of its forms, those with the most passages first."""
    given, parameters = listed("form", forms)
    # The phrase is found by stem, as every word is.
    asked = {"phrase": f'"{word}"', "kind": 2 if is_compound else 1, "limit": limit * _MORE_USERS}
    rows = snapshot.rows(USERS_OF.format(forms=given), parameters | asked)
    # Of another word with that stem nothing was observed under these forms.
    return [WordUser(*row) for row in rows if row["n_occurrences"] != 0][:limit]


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
    from shoal.storage.vocabulary_records import LearnedReef, LearnedWord

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
