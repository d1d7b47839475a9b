"""Writing learned words: the rows of a future version, and the version that publishes them.

Rows are written before their version exists and have no effect until then. So a learn can write many rows in
short transactions and publish them in one.

No function here begins or ends a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lagoon.keys import fnv1a64
from shoal.storage.database import Transaction
from shoal.storage.vocabulary import Version

if TYPE_CHECKING:
    from shoal.storage.vocabulary import LearnedWord

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
