"""Stale chunks: chunks that contain a word that was learned, changed or forgotten after they were scored.

For every document the keys of the unknown words of its chunks are kept (`lagoon.vocabulary`): 16 bytes for a
usual chunk. A learn compares them with the keys of the words that it changes, and marks the chunks in the
transaction that publishes these words. A document that is stored with the words of an older version is marked
when it is stored. A rescore of the document removes the mark.

Chunks that were scored with other data of lagoon are stale too. They have no marks: their checksum tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from shoal.storage import vocabulary
from shoal.storage.database import IDS_PER_STATEMENT, listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shoal.models.documents import ScoredDocument
    from shoal.storage.database import Snapshot, Transaction

    Keys = NDArray[np.uint32]

# The ends of an index. PostgreSQL would read all chunks for a comparison with each, until it has statistics.
ANY_OTHER_DATA = """
    SELECT (SELECT MIN(data_checksum) FROM chunks) < :data_checksum
        OR (SELECT MAX(data_checksum) FROM chunks) > :data_checksum
"""
# Ranges of an index, so that the time grows with the stale chunks and not with the library.
COUNT_OTHER_DATA = """
    SELECT (SELECT COUNT(*) FROM chunks WHERE data_checksum < :data_checksum)
         + (SELECT COUNT(*) FROM chunks WHERE data_checksum > :data_checksum)
"""
OTHER_DATA = """
    SELECT id FROM chunks WHERE data_checksum < :data_checksum
    UNION ALL SELECT id FROM chunks WHERE data_checksum > :data_checksum
"""
# Marks count for the data that the newest words were learned with.
COUNT_MARKED = f"""
    SELECT n_chunks FROM stale_totals
    WHERE :data_checksum = (SELECT data_checksum FROM ({vocabulary.NEWEST}) newest)
"""
# A replaced row gets a new id, the largest one.
WRITE_WORDS = """
    INSERT INTO document_words (document_id, data_checksum, unknown_words) VALUES (?, ?, ?)
    ON CONFLICT (document_id) DO UPDATE SET id = excluded.id, data_checksum = excluded.data_checksum,
        unknown_words = excluded.unknown_words
"""
LAST_WORDS = "SELECT COALESCE(MAX(id), 0) FROM document_words"
WORDS_AFTER = """
    SELECT w.id, w.document_id, d.n_chunks, w.unknown_words
    FROM document_words w JOIN documents d ON d.id = w.document_id
    WHERE w.id > :after AND w.data_checksum = :data_checksum ORDER BY w.id LIMIT :limit
"""
WORDS_OF = """
    SELECT w.id, w.document_id, d.n_chunks, w.unknown_words
    FROM document_words w JOIN documents d ON d.id = w.document_id
    WHERE w.document_id IN ({ids}) AND w.data_checksum = :data_checksum
"""
WRITTEN_AFTER = "SELECT document_id FROM document_words WHERE id > :after"
N_CHUNKS = "SELECT n_chunks FROM documents WHERE id = :document_id"
MARKS_OF = "SELECT document_id, chunks FROM stale_documents WHERE document_id IN ({ids})"
WRITE_MARK = """
    INSERT INTO stale_documents (document_id, n_chunks, chunks) VALUES (?, ?, ?)
    ON CONFLICT (document_id) DO UPDATE SET n_chunks = excluded.n_chunks, chunks = excluded.chunks
"""
DELETE_MARK = "DELETE FROM stale_documents WHERE document_id = ?"
DELETE_MARKS_OF_OTHER_DATA = """
    DELETE FROM stale_documents
    WHERE document_id NOT IN (SELECT document_id FROM document_words WHERE data_checksum = :data_checksum)
"""
IS_STALE = """
    SELECT EXISTS (SELECT 1 FROM stale_documents WHERE document_id = :document_id)
        OR EXISTS (SELECT 1 FROM chunks WHERE document_id = :document_id AND data_checksum <> :data_checksum)
"""

DOCUMENTS_READ = 500
"""Documents whose words are compared at a time: 7 MB of words of whole books."""

Marks = Mapping[int, bytes]
"""Stale chunks by document: a bit for each chunk, in order, filled up to whole bytes."""


class _Words(NamedTuple):
    """A row of words. `unknown_words` is None if another version of Shoal has stored the document."""

    id: int
    document_id: int
    n_chunks: int
    unknown_words: bytes | None


# Counting


def count_stale(snapshot: Snapshot, data_checksum: str) -> int:
    """Count the chunks that a rescore with this build of lagoon's data would update."""
    marked: int | None = snapshot.value(COUNT_MARKED, {"data_checksum": data_checksum})
    return count_other_data(snapshot, data_checksum) + (marked or 0)


def any_other_data(snapshot: Snapshot, data_checksum: str) -> bool:
    """Whether any chunk was scored with other data of lagoon, so that its reefs cannot be compared."""
    return bool(snapshot.value(ANY_OTHER_DATA, {"data_checksum": data_checksum}))


def count_other_data(snapshot: Snapshot, data_checksum: str) -> int:
    """Count the chunks that were scored with other data of lagoon."""
    if not any_other_data(snapshot, data_checksum):
        return 0
    count: int = snapshot.value(COUNT_OTHER_DATA, {"data_checksum": data_checksum})
    return count


def find_other_data(snapshot: Snapshot, data_checksum: str) -> NDArray[np.int64]:
    """Return the ids of the chunks that were scored with other data of lagoon, ascending."""
    from shoal.storage.column_values import packed_ids

    return packed_ids(snapshot, OTHER_DATA, {"data_checksum": data_checksum})


def has_stale_chunks(snapshot: Snapshot, document_id: int, data_checksum: str) -> bool:
    """Whether a rescore with this build of lagoon's data may change the document."""
    return bool(snapshot.value(IS_STALE, {"document_id": document_id, "data_checksum": data_checksum}))


# Words


def pack_words(chunks: Sequence[Sequence[Keys]]) -> bytes:
    """Pack the keys of the unknown words of each chunk, given in any number of arrays.

    The result holds, as u32, little-endian: the number of chunks, the number of keys of each, and all keys.
    """
    import numpy as np

    counts = [sum(map(len, keys)) for keys in chunks]
    head = np.array([len(chunks), *counts], dtype="<u4")
    return head.tobytes() + b"".join(keys.astype("<u4").tobytes() for some in chunks for keys in some)


def store_scored(transaction: Transaction, documents: Iterable[tuple[int, ScoredDocument]]) -> None:
    """Write the words of documents that were just scored, and mark them if words have changed meanwhile."""
    given = list(documents)
    transaction.write_many(DELETE_MARK, [(document_id,) for document_id, _ in given])
    transaction.write_many(
        WRITE_WORDS,
        [(document_id, scored.data_checksum, scored.unknown_words) for document_id, scored in given],
    )
    newest = vocabulary.newest(transaction)
    outdated: dict[int, list[int]] = {}
    for document_id, scored in given:
        if scored.vocabulary_version < newest.number and scored.data_checksum == newest.data_checksum:
            outdated.setdefault(scored.vocabulary_version, []).append(document_id)
    for version, document_ids in outdated.items():
        before = vocabulary.version(transaction, version)
        since = version if before.data_checksum == newest.data_checksum else 0
        words = vocabulary.changed_names(transaction, since, newest.number)
        assert newest.data_checksum is not None, "it equals that of a document"
        _mark(transaction, _marks_of(transaction, document_ids, _keys(words), newest.data_checksum))


# Marking


class Outdated(NamedTuple):
    """The chunks that contain one of some `words`, in the documents up to row `last` of the words."""

    words: frozenset[str]
    last: int
    marks: Marks


def find_outdated(snapshot: Snapshot, words: Iterable[str], data_checksum: str) -> Outdated:
    """Find the chunks, scored with this build of lagoon's data, that contain one of the words."""
    given = frozenset(words)
    marks: dict[int, bytes] = {}
    last: int = snapshot.value(LAST_WORDS)
    keys, after = _keys(given), 0
    parameters = {"data_checksum": data_checksum, "limit": DOCUMENTS_READ}
    while rows := [_Words(*row) for row in snapshot.tuples(WORDS_AFTER, {**parameters, "after": after})]:
        marks.update(_compare(rows, keys))
        after = rows[-1].id
    return Outdated(given, last, marks)


def mark_outdated(transaction: Transaction, outdated: Outdated, data_checksum: str) -> None:
    """Mark chunks in the transaction that publishes the words. Documents written since `find_outdated` are
    compared again."""
    transaction.execute(DELETE_MARKS_OF_OTHER_DATA, {"data_checksum": data_checksum})
    written = [row[0] for row in transaction.tuples(WRITTEN_AFTER, {"after": outdated.last})]
    again = set(written)
    _mark(transaction, {key: bits for key, bits in outdated.marks.items() if key not in again})
    _mark(transaction, _marks_of(transaction, written, _keys(outdated.words), data_checksum))


def mark_whole(transaction: Transaction, document_id: int) -> None:
    """Mark all chunks of an existing document."""
    n_chunks = transaction.value(N_CHUNKS, {"document_id": document_id})
    n_bytes = (n_chunks + 7) // 8
    bits = ((1 << n_chunks) - 1) << (8 * n_bytes - n_chunks)
    _mark(transaction, {document_id: bits.to_bytes(n_bytes, "big")})


def _marks_of(
    snapshot: Snapshot, document_ids: Sequence[int], keys: Keys, data_checksum: str
) -> dict[int, bytes]:
    marks: dict[int, bytes] = {}
    for some in _slices(document_ids):
        ids, parameters = listed("id", some)
        rows = snapshot.tuples(WORDS_OF.format(ids=ids), {**parameters, "data_checksum": data_checksum})
        marks.update(_compare([_Words(*row) for row in rows], keys))
    return marks


def _mark(transaction: Transaction, marks: Marks) -> None:
    """Add marks to those that are there. Documents that do not exist must not be among them."""
    for some in _slices(sorted(marks)):
        ids, parameters = listed("id", some)
        before = dict(transaction.tuples(MARKS_OF.format(ids=ids), parameters))
        rows = []
        for document_id in some:
            bits = int.from_bytes(marks[document_id], "big")
            old = before.get(document_id)
            both = bits if old is None else bits | int.from_bytes(old, "big")
            if old is None or both != int.from_bytes(old, "big"):
                rows.append((document_id, both.bit_count(), both.to_bytes(len(marks[document_id]), "big")))
        transaction.write_many(WRITE_MARK, rows)


def _compare(rows: Sequence[_Words], keys: Keys) -> Iterator[tuple[int, bytes]]:
    """The marks of the documents in which any chunk has one of the keys, ascending.

    All chunks of a document whose words are not known are marked.
    """
    import numpy as np

    from lagoon.compounds import expand_spans

    for row in rows:
        if row.unknown_words is None and row.n_chunks and len(keys):
            yield row.document_id, np.packbits(np.ones(row.n_chunks, dtype=np.bool_)).tobytes()
    packed = [(row.document_id, row.unknown_words) for row in rows if row.unknown_words is not None]
    if not packed or not len(keys):
        return
    data = np.frombuffer(b"".join(words for _, words in packed), dtype="<u4").astype(np.int64)
    sizes = np.array([len(words) // 4 for _, words in packed], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    n_chunks = data[starts]
    counts = data[expand_spans(starts + 1, n_chunks)[0]]
    text_keys = data[expand_spans(starts + 1 + n_chunks, sizes - 1 - n_chunks)[0]]
    is_stale = np.zeros(len(counts), dtype=np.bool_)
    nearest = keys[np.minimum(np.searchsorted(keys, text_keys), len(keys) - 1)]
    is_stale[np.repeat(np.arange(len(counts)), counts)[nearest == text_keys]] = True
    firsts = np.cumsum(n_chunks) - n_chunks
    for number in np.unique(np.repeat(np.arange(len(packed)), n_chunks)[is_stale]).tolist():
        chunks = is_stale[firsts[number] : firsts[number] + n_chunks[number]]
        yield packed[number][0], np.packbits(chunks).tobytes()


def _keys(words: Iterable[str]) -> Keys:
    from lagoon.vocabulary import keys_of_words

    return keys_of_words(words)


def _slices(items: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(items), IDS_PER_STATEMENT):
        yield items[start : start + IDS_PER_STATEMENT]
