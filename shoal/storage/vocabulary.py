"""Observed and learned words as stored in the database: records, queries, and the writing of new versions.

Rows are written before their version exists and have no effect until then. So a learn can write many rows in
short transactions and publish them in one. No function here begins or ends a transaction.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lagoon.compounds import fnv1a64
from shoal.models.vocabulary import WordUser
from shoal.storage.database import IDS_PER_STATEMENT, Query, Transaction, listed
from shoal.storage.document_queries import literal

if TYPE_CHECKING:
    from shoal.storage.database import Snapshot


NEWEST = "SELECT version, data_checksum FROM vocabulary_versions ORDER BY version DESC LIMIT 1"
CHECKSUM_OF = "SELECT data_checksum FROM vocabulary_versions WHERE version = :version"
_COLUMNS = """w.id, w.word, w.word_id, w.retired, w.is_compound, w.specificity, w.idf_q, w.weight_q,
    w.n_occurrences, w.n_documents"""
# Selects the row of a word that is valid at a version.
_HOLDS = """w.from_version = (
    SELECT MAX(v.from_version) FROM custom_words v WHERE v.word = w.word AND v.from_version <= :version)"""
AT = f"SELECT {_COLUMNS} FROM custom_words w WHERE w.retired = 0 AND {_HOLDS} ORDER BY w.word_id"
SINCE = f"""
    SELECT {_COLUMNS} FROM custom_words w
    WHERE w.from_version > :since AND w.from_version <= :version AND {_HOLDS} ORDER BY w.word_id
"""
FIND = f"SELECT {_COLUMNS} FROM custom_words w WHERE w.word IN ({{words}}) AND {_HOLDS} ORDER BY w.word_id"
# The newest version, with those of some words that are known or retired at it, and their reefs.
FIND_NEWEST = f"""
    SELECT n.version, n.data_checksum, {_COLUMNS}, r.reef_id, r.bm25_q, r.association_strength, r.probability
    FROM ({NEWEST}) n
    LEFT JOIN custom_words w ON w.word IN ({{words}}) AND w.from_version = (
        SELECT MAX(v.from_version) FROM custom_words v WHERE v.word = w.word AND v.from_version <= n.version)
    LEFT JOIN word_reefs r ON r.custom_word_id = w.id AND w.retired = 0
    ORDER BY w.word_id, w.id, r.association_strength DESC, r.reef_id
"""
REEFS_OF = """
    SELECT custom_word_id, reef_id, bm25_q, association_strength, probability FROM word_reefs
    WHERE custom_word_id IN ({ids}) ORDER BY custom_word_id, association_strength DESC, reef_id
"""
CHANGED_NAMES = """
    SELECT DISTINCT word FROM custom_words WHERE from_version > :since AND from_version <= :version
"""
N_WORDS = "SELECT n_words FROM vocabulary_versions WHERE version = :version"
# The vocabulary listing, most frequent words first.
_LISTED = f"FROM custom_words w WHERE w.retired = 0 {{contains}} AND {_HOLDS}"
CONTAINS = "AND w.word LIKE :pattern ESCAPE '!'"
COUNT_LISTED = "SELECT COUNT(*) " + _LISTED
LIST = f"""
    SELECT {_COLUMNS}, w.from_version {_LISTED}
    ORDER BY w.n_occurrences DESC, w.word LIMIT :limit OFFSET :offset
"""
FROM_VERSIONS = f"""
    SELECT w.word, w.from_version FROM custom_words w
    WHERE w.word IN ({{words}}) AND w.retired = 0 AND {_HOLDS}
"""
# Documents with the number of observed occurrences of a word in these forms: NULL if the observations were
# not kept, 0 if the document does not use the word.
USERS_AMONG = """
    SELECT d.id AS document_id, d.title,
           (SELECT CASE WHEN EXISTS (SELECT 1 FROM observed_words t WHERE t.observed_id = o.id) THEN (
                SELECT COALESCE(SUM(w.n_occurrences), 0) FROM observed_words w
                WHERE w.observed_id = o.id AND w.kind = :kind AND w.word IN ({forms})) END
            FROM observed_documents o
            WHERE o.content_hash = d.content_hash AND o.state IN ('pending', 'learned')) AS n_occurrences
    FROM documents d WHERE d.id IN ({ids})
"""
IDS_OF = "SELECT word, MAX(word_id) AS word_id FROM custom_words WHERE word IN ({words}) GROUP BY word"
MAX_WORD_ID = "SELECT MAX(word_id) FROM custom_words WHERE from_version <= :version"
# The oldest version with which items of an open wave are scored.
OLDEST_IN_USE = """
    SELECT MIN(w.vocabulary_version) FROM waves w JOIN jobs j ON j.id = w.job_id
    WHERE w.stage <> 'done' AND j.status IN ('enqueued', 'processing')
"""
_MORE_USERS = 4
"""Factor of documents read per requested document, because some may use another word of the same stem."""
INSERT_VERSION = """
    INSERT INTO vocabulary_versions (version, created_at, job_id, wave, n_words, data_checksum)
    VALUES (:version, :now, :job_id, :wave, :n_words, :data_checksum)
"""
INSERT_WORD = """
    INSERT INTO custom_words (word, word_hash, word_id, from_version, created_at, retired, is_compound,
                              specificity, idf_q, weight_q, n_occurrences, n_documents)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Rows of a version are written in slices; the rows of the current slice have the largest ids.
ROW_IDS_AFTER = "SELECT word, id FROM custom_words WHERE id > :last AND from_version = :version"
LAST_ROW_ID = "SELECT COALESCE(MAX(id), 0) FROM custom_words"
INSERT_REEF = """
    INSERT INTO word_reefs (custom_word_id, reef_id, bm25_q, association_strength, probability)
    VALUES (?, ?, ?, ?, ?)
"""
# Rows of versions that were never published.
UNPUBLISHED_ROWS = "SELECT id FROM custom_words WHERE from_version > :version ORDER BY id LIMIT :limit"
DELETE_ROW = "DELETE FROM custom_words WHERE id = :id AND from_version > :version"
# Rows that no version in use needs: a later row is valid at each of them.
DELETE_SUPERSEDED = """
    DELETE FROM custom_words WHERE word = :word AND from_version < (
        SELECT MAX(v.from_version) FROM custom_words v WHERE v.word = :word AND v.from_version <= :floor)
"""


class Kind(enum.IntEnum):
    """The subject of a row. `totals`: the document as a whole, one row per document, with the empty word."""

    totals = 0
    word = 1
    compound = 2


class EvidenceRow(NamedTuple):
    """One word in one document, or in several documents together.

    n_occurrences  for the totals: all words, known or not, except stop words and numbers
    n_short        those of n_occurrences that are in short documents
    n_chunks       chunks of the discover stage that contain the word; for the totals: all chunks
    n_lower        those of n_occurrences outside headings that begin without a capital letter, of a compound
                   its last token; 0 for the totals
    parts          for compounds: compounds.PartCounts
    reefs, sums    context: sum over occurrences by reef, reefs ascending; in 1/CONTEXT_UNIT, totals in 1
    """

    kind: int
    word: str
    n_occurrences: int
    n_short: int
    n_documents: int
    n_chunks: int
    n_lower: int
    parts: tuple[int, ...]
    reefs: tuple[int, ...]
    sums: tuple[int, ...]


class StoredRow(NamedTuple):
    """An EvidenceRow as stored: the parts as JSON, the context packed (`shoal.storage.column_values`)."""

    kind: int
    word: str
    n_occurrences: int
    n_short: int
    n_documents: int
    n_chunks: int
    n_lower: int
    parts: str
    context: bytes


class LearnedReef(NamedTuple):
    """An association with a reef.

    bm25_q       in lagoon's units
    strength     0..1, of the word's strongest
    probability  0..1: expected agreement with a dictionary, given the evidence; its square is the support
                 that labels use, since the dictionary's associations are not all apt either; 0 for a name
    """

    reef_id: int
    bm25_q: int
    strength: float
    probability: float


@dataclass(frozen=True, slots=True)
class LearnedWord:
    """A word or compound in lagoon's units: idf_q in 1/51, weight_q in 1/4096. `reefs` are strongest
    first."""

    word: str
    is_compound: bool
    specificity: int
    idf_q: int
    weight_q: int
    n_occurrences: int
    n_documents: int
    reefs: tuple[LearnedReef, ...]

    @property
    def is_name(self) -> bool:
        """Whether the library has it as a name, whose reefs rank and are no subject."""
        return not any(reef.probability for reef in self.reefs)


class Version(NamedTuple):
    """A version of the vocabulary; `data_checksum` identifies the lagoon data of its words, None if it has no
    words."""

    number: int
    data_checksum: str | None


class VocabularyEntry(NamedTuple):
    """A word at a version with its id; `learned` is None for a retired word."""

    word_id: int
    word: str
    learned: LearnedWord | None


def newest(snapshot: Snapshot) -> Version:
    """Read the newest version, which searches use."""
    return Version(*snapshot.first(NEWEST))


def version(snapshot: Snapshot, number: int) -> Version:
    """Read an existing version."""
    return Version(number, snapshot.value(CHECKSUM_OF, {"version": number}))


def read_words(snapshot: Snapshot, number: int) -> list[VocabularyEntry]:
    """Read every word known at a version."""
    return _known_words(snapshot, snapshot.rows(AT, {"version": number}))


def changed_words(snapshot: Snapshot, since: int, number: int) -> list[VocabularyEntry]:
    """Read the words that differ between two versions, retired ones included."""
    return _known_words(snapshot, snapshot.rows(SINCE, {"since": since, "version": number}))


def changed_names(snapshot: Snapshot, since: int, number: int) -> list[str]:
    """List the words that differ, or differed in between, from one version to another."""
    return [row[0] for row in snapshot.tuples(CHANGED_NAMES, {"since": since, "version": number})]


def find_words(snapshot: Snapshot, words: Iterable[str], number: int) -> list[VocabularyEntry]:
    """Find those of `words` that are known or retired at a version."""
    rows = [
        row
        for placeholders, parameters in _slices(words)
        for row in snapshot.rows(FIND.format(words=placeholders), parameters | {"version": number})
    ]
    return _known_words(snapshot, rows)


def newest_queries(words: Iterable[str]) -> list[Query]:
    """Return what `find_newest` reads."""
    return [Query(FIND_NEWEST.format(words=names), parameters) for names, parameters in _slices(words)]


def find_newest(snapshot: Snapshot, words: Collection[str]) -> tuple[Version, list[VocabularyEntry]]:
    """Find the newest version, and those of `words`, at least one, that are known or retired at it."""

    queries = newest_queries(words)
    snapshot.prefetch(queries)
    rows = [row for query in queries for row in snapshot.rows(*query)]
    entries = []
    for row_id, of_word in itertools.groupby(rows, key=lambda row: row["id"]):
        if row_id is not None:
            of_reefs = list(of_word)
            reefs = [LearnedReef(*tuple(row)[-4:]) for row in of_reefs if row["reef_id"] is not None]
            entries.append(_known_word(of_reefs[0], {row_id: reefs}))
    return Version(rows[0]["version"], rows[0]["data_checksum"]), entries


def count_words(snapshot: Snapshot, number: int) -> int:
    """Count the words known at a version."""
    count: int = snapshot.value(N_WORDS, {"version": number})
    return count


def list_words(
    snapshot: Snapshot, number: int, *, q: str | None = None, limit: int = 50, offset: int = 0
) -> tuple[list[VocabularyEntry], int]:
    """List words known at a version that contain `q`, most frequent first, and count them on all pages."""
    contains = "" if q is None else CONTAINS
    parameters = {"version": number, "pattern": f"%{literal(q or '')}%"}
    page = {**parameters, "limit": limit, "offset": offset}
    words = _known_words(snapshot, snapshot.rows(LIST.format(contains=contains), page))
    if q is None:
        return words, count_words(snapshot, number)
    return words, snapshot.value(COUNT_LISTED.format(contains=contains), parameters)


def from_versions(snapshot: Snapshot, words: Iterable[str], number: int) -> dict[str, int]:
    """Map words known at a version to the version of their last change."""
    return {
        row["word"]: row["from_version"]
        for placeholders, parameters in _slices(words)
        for row in snapshot.rows(FROM_VERSIONS.format(words=placeholders), parameters | {"version": number})
    }


def documents_using(
    snapshot: Snapshot,
    n_chunks: Mapping[int, int],
    forms: Iterable[str],
    *,
    is_compound: bool,
    limit: int,
) -> list[WordUser]:
    """List documents that use a learned word in one of its forms, most chunks first.

    `n_chunks` counts, by document id, the chunks that contain its stem, most first.
    """
    placeholders, parameters = listed("form", forms)
    candidates = list(n_chunks)[: limit * _MORE_USERS]
    ids, id_parameters = listed("id", candidates)
    parameters |= {**id_parameters, "kind": 2 if is_compound else 1}
    statement = USERS_AMONG.format(forms=placeholders, ids=ids)
    rows = {row[0]: row for row in snapshot.tuples(statement, parameters)}
    users = [
        WordUser(document_id, rows[document_id][1], n_chunks[document_id], rows[document_id][2])
        for document_id in candidates
        if document_id in rows
    ]
    # A document with another word of the stem has no observations of these forms.
    return [user for user in users if user.n_occurrences != 0][:limit]


def word_ids(snapshot: Snapshot, words: Collection[str]) -> dict[str, int]:
    """Map words to their ids; words that never had one are missing."""
    return {
        row["word"]: row["word_id"]
        for placeholders, parameters in _slices(words)
        for row in snapshot.rows(IDS_OF.format(words=placeholders), parameters)
    }


def largest_word_id(snapshot: Snapshot, number: int) -> int | None:
    """Read the largest word id ever used up to a version; None if there is none."""
    word_id: int | None = snapshot.value(MAX_WORD_ID, {"version": number})
    return word_id


def oldest_in_use(snapshot: Snapshot, number: int) -> int:
    """Return the oldest version that scoring may still use; `number` is the newest."""
    oldest = snapshot.value(OLDEST_IN_USE)
    return number if oldest is None else min(number, oldest)


def _slices(words: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Split words into slices that fit a statement, each as the inside of `IN (...)` and its parameters."""
    all_words = list(words)
    for start in range(0, len(all_words), IDS_PER_STATEMENT):
        yield listed("word", all_words[start : start + IDS_PER_STATEMENT])


def _known_words(snapshot: Snapshot, rows: Sequence[Any]) -> list[VocabularyEntry]:
    reefs = _reefs(snapshot, [row["id"] for row in rows if not row["retired"]])
    return [_known_word(row, reefs) for row in rows]


def _reefs(snapshot: Snapshot, row_ids: Sequence[int]) -> dict[int, list[LearnedReef]]:

    by_row: dict[int, list[LearnedReef]] = {}
    for start in range(0, len(row_ids), IDS_PER_STATEMENT):
        ids, parameters = listed("id", row_ids[start : start + IDS_PER_STATEMENT])
        for row_id, *reef in snapshot.tuples(REEFS_OF.format(ids=ids), parameters):
            by_row.setdefault(row_id, []).append(LearnedReef(*reef))
    return by_row


def _known_word(row: Any, reefs: Mapping[int, Sequence[LearnedReef]]) -> VocabularyEntry:

    if row["retired"]:
        return VocabularyEntry(row["word_id"], row["word"], None)
    learned = LearnedWord(
        word=row["word"],
        is_compound=bool(row["is_compound"]),
        specificity=row["specificity"],
        idf_q=row["idf_q"],
        weight_q=row["weight_q"],
        n_occurrences=row["n_occurrences"],
        n_documents=row["n_documents"],
        reefs=tuple(reefs.get(row["id"], ())),
    )
    return VocabularyEntry(row["word_id"], row["word"], learned)


def write_learned(
    transaction: Transaction, words: Sequence[tuple[int, LearnedWord]], from_version: int, *, now: str
) -> None:
    """Write words under their ids, valid from a version on."""
    if not words:
        return
    last = transaction.value(LAST_ROW_ID)
    transaction.write_many(
        INSERT_WORD,
        [
            (*_name(word.word, word_id, from_version, now), 0, int(word.is_compound), *_numbers(word))
            for word_id, word in words
        ],
    )
    row_ids = dict(transaction.tuples(ROW_IDS_AFTER, {"last": last, "version": from_version}))
    reefs = [(row_ids[word.word], *reef) for _, word in words for reef in word.reefs]
    transaction.write_many(INSERT_REEF, reefs)


def write_retired(
    transaction: Transaction, words: Sequence[tuple[int, str]], from_version: int, *, now: str
) -> None:
    """Retire words from a version on."""
    rows = [
        (*_name(word, word_id, from_version, now), 1, int(" " in word), 0, 0, 0, 0, 0)
        for word_id, word in words
    ]
    transaction.write_many(INSERT_WORD, rows)


def delete_superseded(transaction: Transaction, words: Iterable[str], floor: int) -> None:
    """Delete rows of words that no version from `floor` on needs."""
    rows = [{"word": word, "floor": floor} for word in words]
    transaction.write_many(DELETE_SUPERSEDED, rows)


def insert_version(
    transaction: Transaction, new: Version, *, job_id: int, wave: int, n_words: int, now: str
) -> None:
    """Write a version, which publishes the rows written for it."""
    transaction.execute(
        INSERT_VERSION,
        {
            "version": new.number,
            "data_checksum": new.data_checksum,
            "job_id": job_id,
            "wave": wave,
            "n_words": n_words,
            "now": now,
        },
    )


def _name(word: str, word_id: int, from_version: int, now: str) -> tuple[Any, ...]:
    value = fnv1a64(word)
    # SQL's integers are signed.
    return word, value - 2**64 if value >= 2**63 else value, word_id, from_version, now


def _numbers(word: LearnedWord) -> tuple[int, ...]:
    return word.specificity, word.idf_q, word.weight_q, word.n_occurrences, word.n_documents


def delete_unpublished(transaction: Transaction, row_ids: Sequence[int], version: int) -> None:
    """Delete rows that were written for versions after the given newest one."""
    transaction.write_many(DELETE_ROW, [{"id": row_id, "version": version} for row_id in row_ids])
