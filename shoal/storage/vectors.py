"""The vectors of chunks, and the encoder that made them.

A vector belongs to the text that was embedded: the title of the document, a blank line, and the text of the
chunk. It goes with its chunk, and a chunk whose text or title changes loses it. A text that has a vector
somewhere in the library gets the same one without an encoder.

All vectors of a library are of one encoder. An epoch names one making of all of them.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shoal.storage.database import IDS_PER_STATEMENT, Database, Snapshot, Transaction, listed, listed_in_parts
from shoal.storage.index_tables import forget_vector_files, vectors_revision

TABLES = frozenset({"vector_encoder", "chunk_vectors", "unindexed_vectors", "imported_vectors"})
HASH_BYTES = 16
DELETED_TOGETHER = 5_000
"""Vectors deleted in one transaction: some hundredths of a second."""
SHORT_HASH_BYTES = 8

AGAIN = "run `shoal encoder embed --again` to embed all passages with the present encoder"
"""What helps if the encoder has changed."""

ENCODER = "SELECT name, revision, dimension, epoch FROM vector_encoder"
INSERT_ENCODER = """
    INSERT INTO vector_encoder (id, name, revision, dimension, epoch)
    VALUES (1, :name, :revision, :dimension, :epoch)
"""
COUNT = "SELECT COUNT(*) FROM chunk_vectors"
IS_ANY = "SELECT EXISTS (SELECT 1 FROM chunk_vectors)"
COUNT_UNINDEXED = "SELECT COUNT(*) FROM unindexed_vectors"
OF_CHUNKS = "SELECT chunk_id, vector FROM chunk_vectors WHERE chunk_id IN ({ids})"
TEXTS_OF_DOCUMENT = """
    SELECT c.id, d.title, c.text FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.document_id = :document_id AND c.id > :after
      AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = c.id)
    ORDER BY c.id LIMIT :limit
"""
# The ids of `{ids}` that still have this document and no vector.
STILL_WITHOUT = """
    SELECT c.id, d.title, c.text FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.id IN ({ids}) AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = c.id)
"""
IS_COMPLETE = """
    SELECT NOT EXISTS (
        SELECT 1 FROM chunks c WHERE c.document_id = :document_id
          AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = c.id))
"""
IS_CUT = "SELECT COUNT(*) > 1 FROM (SELECT 1 FROM chunks WHERE document_id = :document_id LIMIT 2) some"
# Few vectors have the same 64 bits; their texts decide.
SAME_HASH = """
    SELECT d.title, c.text, v.vector
    FROM chunk_vectors v JOIN chunks c ON c.id = v.chunk_id JOIN documents d ON d.id = c.document_id
    WHERE v.text_hash = :text_hash LIMIT 4
"""
IMPORTED = "SELECT vector FROM imported_vectors WHERE text_hash = :text_hash"
INSERT_IMPORTED = "INSERT INTO imported_vectors (text_hash, vector) VALUES (?, ?) ON CONFLICT DO NOTHING"
INSERT_VECTOR = """
    INSERT INTO chunk_vectors (chunk_id, text_hash, vector) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
"""
INSERT_UNINDEXED = "INSERT INTO unindexed_vectors (chunk_id, revision) VALUES (?, ?) ON CONFLICT DO NOTHING"
UNINDEXED = "SELECT chunk_id FROM unindexed_vectors ORDER BY chunk_id"
DELETE_UNINDEXED = "DELETE FROM unindexed_vectors WHERE chunk_id = ?"
OF_DOCUMENT = """
    SELECT v.chunk_id, d.title, c.text, v.vector
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN chunk_vectors v ON v.chunk_id = c.id
    WHERE c.document_id = :document_id
"""
DELETE_ENCODER = "DELETE FROM vector_encoder"
# Foreign keys cascade to unindexed vectors.
DELETE_SOME = "DELETE FROM chunk_vectors WHERE chunk_id IN (SELECT chunk_id FROM chunk_vectors LIMIT :limit)"
DELETE_SOME_IMPORTED = """
    DELETE FROM imported_vectors
    WHERE text_hash IN (SELECT text_hash FROM imported_vectors LIMIT :limit)
"""
DELETE_VECTOR = "DELETE FROM chunk_vectors WHERE chunk_id = ?"


class StoredEncoder(NamedTuple):
    """The encoder of the vectors of a library, and the epoch of their making."""

    name: str
    revision: str
    dimension: int
    epoch: str

    @property
    def identity(self) -> tuple[str, str, int]:
        """Name, revision and dimension: equal to the `EncoderIdentity` of the same encoder."""
        return self[:3]


class ChunkText(NamedTuple):
    """A chunk and the text of it that is embedded."""

    chunk_id: int
    text: str


def embedded_text(title: str, text: str) -> str:
    """Return what is embedded of a chunk."""
    return f"{title}\n\n{text}"


def text_hash(text: str) -> bytes:
    """Return 128 bits of the hash of an embedded text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()


def short_hash(text: str) -> int:
    """Return the 64 bits of the hash that are stored with a vector."""
    return _short(text_hash(text))


def _short(digest: bytes) -> int:
    return int.from_bytes(digest[:SHORT_HASH_BYTES], "big", signed=True)


def encoder(snapshot: Snapshot) -> StoredEncoder | None:
    """Read the encoder of the library's vectors; None if it has none."""
    row = snapshot.first(ENCODER)
    return None if row is None else StoredEncoder(*row)


def set_encoder(transaction: Transaction, identity: tuple[str, str, int]) -> StoredEncoder:
    """Make an encoder that of all vectors to come. The library has none."""
    name, revision, dimension = identity
    stored = StoredEncoder(name, revision, dimension, uuid.uuid4().hex)
    transaction.execute(INSERT_ENCODER, stored._asdict())
    return stored


def begin(
    database: Database, identity: tuple[str, str, int], check: Callable[[Transaction], None] = lambda _: None
) -> StoredEncoder:
    """Make an encoder that of all vectors to come, and return it; that of the library if it has vectors.
    `check` is called in each transaction, and may raise."""
    while True:
        with database.write() as transaction:
            check(transaction)
            stored = encoder(transaction)
            if stored is not None and (stored.identity == tuple(identity) or is_any(transaction)):
                return stored
            transaction.execute(DELETE_ENCODER)
            # What an interrupted deletion has left is of another encoder.
            if not _delete_some(transaction):
                return set_encoder(transaction, identity)


def delete_all(database: Database) -> None:
    """Delete all vectors and their encoder. Searches find none of them from the first transaction on; an
    interrupted deletion is completed by `begin`."""
    with database.write() as transaction:
        transaction.execute(DELETE_ENCODER)
        forget_vector_files(transaction)
    is_any_left = True
    while is_any_left:
        with database.write() as transaction:
            is_any_left = encoder(transaction) is None and _delete_some(transaction)


def _delete_some(transaction: Transaction) -> bool:
    """Delete some of the vectors; False if there are none."""
    rows = {"limit": DELETED_TOGETHER}
    return bool(transaction.execute(DELETE_SOME, rows) or transaction.execute(DELETE_SOME_IMPORTED, rows))


def count(snapshot: Snapshot) -> int:
    """Count the chunks that have a vector."""
    number: int = snapshot.value(COUNT)
    return number


def is_any(snapshot: Snapshot) -> bool:
    """Whether any chunk has a vector."""
    return bool(snapshot.value(IS_ANY))


def without_vector(snapshot: Snapshot, document_id: int, *, after: int, limit: int) -> list[ChunkText]:
    """Read the first chunks of a document, with ids above `after`, that have no vector."""
    values = {"document_id": document_id, "after": after, "limit": limit}
    return [
        ChunkText(chunk_id, embedded_text(title, text))
        for chunk_id, title, text in snapshot.tuples(TEXTS_OF_DOCUMENT, values)
    ]


def is_complete(snapshot: Snapshot, document_id: int) -> bool:
    """Whether every chunk of a document has a vector."""
    return bool(snapshot.value(IS_COMPLETE, {"document_id": document_id}))


def is_cut(snapshot: Snapshot, document_id: int) -> bool:
    """Whether a document has more than one chunk."""
    return bool(snapshot.value(IS_CUT, {"document_id": document_id}))


def known(snapshot: Snapshot, texts: Iterable[str]) -> dict[str, bytes]:
    """Return the vectors of those texts that have one already, in the library or from an import."""
    vectors: dict[str, bytes] = {}
    for text in dict.fromkeys(texts):
        digest = text_hash(text)
        imported = snapshot.first(IMPORTED, {"text_hash": digest})
        if imported is not None:
            vectors[text] = imported[0]
            continue
        for title, chunk_text, vector in snapshot.tuples(SAME_HASH, {"text_hash": _short(digest)}):
            if embedded_text(title, chunk_text) == text:
                vectors[text] = vector
                break
    return vectors


def store(
    transaction: Transaction, epoch: str, chunks: Sequence[ChunkText], vectors: Mapping[str, bytes]
) -> int:
    """Store the vectors of at most IDS_PER_STATEMENT chunks by their texts; return how many were stored.

    A chunk that has changed or gone, or has a vector by now, is left out, and so are all if the epoch is
    over.
    """
    now = encoder(transaction)
    if now is None or now.epoch != epoch:
        return 0
    ids, parameters = listed("id", [chunk.chunk_id for chunk in chunks])
    rows = []
    for chunk_id, title, text in transaction.tuples(STILL_WITHOUT.format(ids=ids), parameters):
        own = embedded_text(title, text)
        if own in vectors:
            rows.append((chunk_id, short_hash(own), vectors[own]))
    _insert(transaction, rows)
    return len(rows)


def _insert(transaction: Transaction, rows: Sequence[tuple[int, int, bytes]]) -> None:
    transaction.write_many(INSERT_VECTOR, rows)
    if rows:
        revision = vectors_revision(transaction)
        transaction.write_many(INSERT_UNINDEXED, [(chunk_id, revision) for chunk_id, _, _ in rows])


def of_document(snapshot: Snapshot, document_id: int) -> dict[str, bytes]:
    """Return the vectors of a document by their texts; empty if the library has none."""
    return {
        embedded_text(title, text): vector
        for _, title, text, vector in snapshot.tuples(OF_DOCUMENT, {"document_id": document_id})
    }


def keep(transaction: Transaction, document_id: int, vectors: Mapping[str, bytes]) -> None:
    """Give the chunks of a document that was written anew the vectors of its unchanged texts."""
    if not vectors:
        return
    rows: list[tuple[int, int, bytes]] = []
    after = -1
    while chunks := without_vector(transaction, document_id, after=after, limit=IDS_PER_STATEMENT):
        after = chunks[-1].chunk_id
        rows += [
            (chunk.chunk_id, short_hash(chunk.text), vectors[chunk.text])
            for chunk in chunks
            if chunk.text in vectors
        ]
    _insert(transaction, rows)


def adopt(database: Database, document_ids: Iterable[int]) -> int:
    """Give chunks of documents the vectors that their texts have already; return how many got one."""
    n = 0
    for document_id in document_ids:
        after = -1
        while True:
            with database.snapshot() as snapshot:
                stored = encoder(snapshot)
                chunks = without_vector(snapshot, document_id, after=after, limit=IDS_PER_STATEMENT)
                found = known(snapshot, [chunk.text for chunk in chunks])
            if stored is None or not chunks:
                break
            after = chunks[-1].chunk_id
            if found:
                with database.write() as transaction:
                    n += store(transaction, stored.epoch, chunks, found)
    return n


def unindexed(snapshot: Snapshot) -> list[int]:
    """Read the chunks whose vectors are in no file of the index, ascending."""
    return [row[0] for row in snapshot.tuples(UNINDEXED)]


def count_unindexed(snapshot: Snapshot) -> int:
    """Count the vectors that are in no file of the index."""
    number: int = snapshot.value(COUNT_UNINDEXED)
    return number


def mark_indexed(transaction: Transaction, chunk_ids: Iterable[int]) -> None:
    """Note that files of the index have the vectors of these chunks."""
    transaction.write_many(DELETE_UNINDEXED, [(chunk_id,) for chunk_id in chunk_ids])


def of_chunks(snapshot: Snapshot, chunk_ids: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Yield those of the chunks that have a vector, with it."""
    for ids, parameters in listed_in_parts("id", chunk_ids):
        yield from snapshot.tuples(OF_CHUNKS.format(ids=ids), parameters)


def delete(transaction: Transaction, chunk_ids: Iterable[int]) -> None:
    """Delete the vectors of chunks, so that they are made anew."""
    transaction.write_many(DELETE_VECTOR, [(chunk_id,) for chunk_id in chunk_ids])
    forget_vector_files(transaction)


def add_imported(transaction: Transaction, vectors: Iterable[tuple[bytes, bytes]]) -> None:
    """Keep vectors of an import, each with the 128-bit hash of its text, until its chunks are stored."""
    transaction.write_many(INSERT_IMPORTED, list(vectors))


def delete_imported(database: Database) -> None:
    """Forget the vectors of imports."""
    n = 1
    while n:
        with database.write() as transaction:
            n = transaction.execute(DELETE_SOME_IMPORTED, {"limit": DELETED_TOGETHER})
