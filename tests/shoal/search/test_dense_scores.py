"""Dense scores follow every change of the library, and vectors join segments without their postings."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from embedded_library import embed, library_of, nearest, with_vector
from fake_encoder import FakeEncoder
from scored_documents import make_scored

from shoal.encoders.encoder import TextKind
from shoal.errors import EncoderError, EncoderMismatchError
from shoal.index import upkeep
from shoal.index.files import SUFFIX, VECTORS_SUFFIX, IndexFiles
from shoal.search.library_index import IndexCache
from shoal.storage import document_writer, index_tables, vectors
from shoal.storage.database import Database
from shoal.storage.index_records import open_records
from shoal.support.clock import timestamp

TEXTS = ("rain falls", "snow melts", "storm roars")


def store(database: Database, *texts: str, title: str = "Weather") -> int:
    with database.write() as transaction:
        scored = make_scored(texts, title=title)
        return document_writer.insert_document(transaction, scored, now=timestamp())


def replace(database: Database, document_id: int, *texts: str, title: str = "Weather") -> None:
    with database.write() as transaction:
        kept = [None] * len(texts)
        scored = make_scored(texts, title=title)
        document_writer.replace_document(transaction, document_id, scored, kept, now=timestamp())
        index_tables.note_changes(transaction, [document_id])


def assert_exact(database: Database, encoder: FakeEncoder) -> None:
    """Check that the index has exactly the vectors of the database, at their chunks."""
    library = library_of(database)
    found = nearest(library, encoder, "rain")
    assert sorted(found) == with_vector(database)
    with database.snapshot() as snapshot:
        texts = snapshot.tuples(
            "SELECT c.id, d.title, c.text FROM chunks c JOIN documents d ON d.id = c.document_id"
        )
        assert library.vector_share == len(found) / snapshot.value("SELECT count(*) FROM chunks")
        wanted = {chunk_id: vectors.embedded_text(title, text) for chunk_id, title, text in texts}
    with open_records(database).newest(database) as view:
        assert view.waiting_vectors() == []
    query = encoder.embed(["rain"], TextKind.query)[0]
    for chunk_id, cosine in found.items():
        (vector,) = encoder.embed([wanted[chunk_id]], TextKind.document)
        assert cosine == pytest.approx(max(0, float(vector @ query)), abs=0.05)


def test_a_library_without_vectors_has_no_dense_scores(database: Database) -> None:
    store(database, *TEXTS)
    library = library_of(database)
    assert library.encoder is None
    assert library.dense(np.ones(64, dtype=np.float32)) is None


def test_vectors_join_a_segment_without_its_postings(database: Database) -> None:
    encoder = FakeEncoder()
    store(database, *TEXTS)
    update = library_of(database)
    segments = [part.segment.chunk_ids.tolist() for part in update.index.parts]
    files = {path for path in IndexFiles(database).folder.iterdir() if path.suffix == ".segment"}
    ids = update.index.parts[0].segment.chunk_ids.tolist()
    embed(database, encoder, only=ids[:1])
    assert_exact(database, encoder)
    library = library_of(database)
    assert library.encoder is not None
    assert library.encoder.identity == encoder.identity
    found = library.dense(encoder.embed(["rain falls"], TextKind.query)[0])
    assert found is not None
    assert found.has_vector.tolist() == [True, False, False]
    assert found.raw[1:].tolist() == [0, 0]
    embed(database, encoder)
    assert_exact(database, encoder)
    after = library_of(database)
    assert [part.segment.chunk_ids.tolist() for part in after.index.parts] == segments
    assert {path for path in IndexFiles(database).folder.iterdir() if path.suffix == ".segment"} == files


def test_merged_and_replaced_documents_keep_their_vectors(database: Database) -> None:
    encoder = FakeEncoder()
    ids = []
    for number in range(upkeep.MERGED_TOGETHER + 2):
        ids.append(store(database, f"rain number{number}", f"snow number{number}"))
        embed(database, encoder)
        assert_exact(database, encoder)
    n_embedded = encoder.n_embedded
    replace(database, ids[3], "rain number3", "a new text")
    assert len(with_vector(database)) == 2 * len(ids) - 1
    assert_exact(database, encoder)
    # Its title is part of the text.
    replace(database, ids[4], "rain number4", "snow number4", title="Climate")
    assert len(with_vector(database)) == 2 * len(ids) - 3
    assert_exact(database, encoder)
    with database.write() as transaction:
        document_writer.delete_document(transaction, ids[0])
    assert len(with_vector(database)) == 2 * len(ids) - 5
    # One query for each check.
    embed(database, encoder)
    assert_exact(database, encoder)
    assert encoder.n_embedded >= n_embedded + 3


def test_a_deleted_document_has_no_vector(database: Database) -> None:
    encoder = FakeEncoder()
    deleted = store(database, "snow")
    store(database, *(f"rain number{number}" for number in range(5)))
    embed(database, encoder)
    library_of(database)
    with database.write() as transaction:
        document_writer.delete_document(transaction, deleted)
        index_tables.note_changes(transaction, [deleted])
    with database.snapshot() as snapshot:
        library = IndexCache(database).of(snapshot)
    scores = library.dense(np.ones(64, dtype=np.float32))
    assert scores is not None
    assert np.array_equal(scores.has_vector, library.index.live())
    assert not scores.has_vector.all()
    assert library.vector_share == 1.0


def test_all_vectors_can_be_deleted_and_made_by_another_encoder(database: Database) -> None:
    store(database, *TEXTS)
    embed(database, FakeEncoder())
    assert_exact(database, FakeEncoder())
    vectors.delete_all(database)
    assert library_of(database).dense(np.ones(64, dtype=np.float32)) is None
    other = FakeEncoder(dimension=33, revision="2")
    embed(database, other)
    assert_exact(database, other)
    with pytest.raises(EncoderMismatchError, match="embed --again"):
        library_of(database).dense(np.ones(64, dtype=np.float32))
    with pytest.raises(EncoderError, match="finite"):
        library_of(database).dense(np.zeros(33, dtype=np.float32))


def test_vectors_of_another_epoch_are_never_stored(database: Database) -> None:
    document_id = store(database, *TEXTS)
    encoder = FakeEncoder()
    with database.write() as transaction:
        stored = vectors.set_encoder(transaction, encoder.identity)
        chunks = vectors.without_vector(transaction, document_id, after=-1, limit=9)
    vectors.delete_all(database)
    vectors.begin(database, encoder.identity)
    with database.write() as transaction:
        made = dict.fromkeys([chunk.text for chunk in chunks], b"old")
        assert vectors.store(transaction, stored.epoch, chunks, made) == 0
    assert not with_vector(database)


def test_the_index_never_takes_vectors_of_another_epoch(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(database, *TEXTS)
    embed(database, FakeEncoder())
    write = IndexFiles.write

    def write_late(self: IndexFiles, *arguments: object) -> str:
        name = write(self, *arguments)  # type: ignore[arg-type]
        if VECTORS_SUFFIX in arguments:
            vectors.delete_all(database)
            vectors.begin(database, FakeEncoder(revision="2").identity)
        return name

    monkeypatch.setattr(IndexFiles, "write", write_late)
    upkeep.update_index(database)
    monkeypatch.undo()
    assert library_of(database).dense(np.ones(64, dtype=np.float32)) is None


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_damaged_file_of_vectors_is_written_anew(database: Database, damage: str) -> None:
    encoder = FakeEncoder()
    store(database, *TEXTS)
    embed(database, encoder)
    library_of(database)
    (path,) = IndexFiles(database).folder.glob("*.vectors")
    if damage == "missing":
        path.unlink()
    else:
        os.truncate(path, 40)
    cache = IndexCache(database)
    cache.prepare()
    with database.snapshot() as snapshot:
        assert len(nearest(cache.of(snapshot), encoder, "rain")) == len(TEXTS)


def test_files_without_a_row_are_removed(database: Database, tmp_path: Path) -> None:
    encoder = FakeEncoder()
    first = store(database, *TEXTS)
    for number in range(3):
        store(database, f"hail {number}")
        embed(database, encoder)
        library_of(database)
    with database.write() as transaction:
        document_writer.delete_document(transaction, first)
    library_of(database)
    with open_records(database).newest(database) as view:
        rows = view.segments()
    paths = IndexFiles(database).folder.iterdir()
    names = {path.name for path in paths if path.suffix in (SUFFIX, VECTORS_SUFFIX)}
    assert names == {name for row in rows for name in row.file_names}
