"""Documents are written, replaced and deleted atomically."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from types import ModuleType

import pytest
from indexed_library import assert_indexed, chunks_with, expected_contents
from scored_documents import make_scored
from waiting import until

from shoal.errors import DuplicateContentError
from shoal.index.matching import HEADINGS, TEXT
from shoal.models.documents import ScoredDocument
from shoal.search.library_index import IndexCache
from shoal.storage import document_writer, index_tables, migrate
from shoal.storage.chunk_queries import get_chunks, packed_profiles
from shoal.storage.database import Database
from shoal.storage.document_queries import get_content, get_document
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp

NOW = timestamp()
TABLES = (
    "documents",
    "document_tags",
    "sections",
    "chunks",
    "chunk_reefs",
    "chunk_islands",
)


def store(database: Database, scored: ScoredDocument) -> int:
    with database.write() as transaction:
        return document_writer.insert_document(transaction, scored, now=NOW)


def counts(database: Database) -> dict[str, int]:
    with database.snapshot() as snapshot:
        return {table: snapshot.value(f"SELECT COUNT(*) FROM {table}") for table in TABLES}


def test_a_document_is_read_as_it_was_written(database: Database) -> None:
    scored = make_scored(["Rain falls.", "Été: 🌧 snow."], [{7: 2.0, 3: 1.0}, {}], tags=("b", "a"))
    document_id = store(database, scored)
    with database.snapshot() as snapshot:
        document = get_document(snapshot, document_id)
        assert get_content(snapshot, document_id) == scored.draft.content
        page = get_chunks(snapshot, document_id, label_threshold=0.5)
        assert packed_profiles(snapshot, document_id) == [chunk.profile for chunk in scored.chunks]
    assert (document.title, document.tags, document.n_chunks) == ("A title", ("a", "b"), 2)
    assert (document.metadata, document.created_at) == ({"shelf": 3}, NOW)
    assert page.total == 2
    for stored, given in zip(page.chunks, scored.chunks, strict=True):
        assert stored.text == given.text == scored.draft.content[stored.start_char : stored.end_char]
        assert stored.arch_scores == given.arch_scores
        assert stored.section_path == ("Weather",)
    assert [(chunk.top_reef_id, chunk.top_reef_name) for chunk in page.chunks] == [
        (7, "reef 7"),
        (None, None),
    ]


def test_words_of_title_heading_and_text_are_indexed_in_any_form(database: Database) -> None:
    store(database, make_scored(["The café was closed.", "Two dogs."], title="Orchards", heading="Naïve art"))
    assert chunks_with(database, "orchard") == [1, 2]
    assert chunks_with(database, "naive", HEADINGS) == [1, 2]
    assert chunks_with(database, "cafe", TEXT) == [1]
    assert chunks_with(database, "dog") == [2]
    assert_indexed(database)


def test_a_duplicate_error_names_the_stored_document(database: Database) -> None:
    first = store(database, make_scored())
    before = counts(database)
    with pytest.raises(DuplicateContentError) as caught:
        store(database, make_scored(title="Another title"))
    assert caught.value.document_id == first
    assert counts(database) == before
    assert_indexed(database)


def test_a_duplicate_does_not_affect_other_documents_of_the_transaction(database: Database) -> None:
    with database.write() as transaction:
        document_writer.insert_document(transaction, make_scored(["one"]), now=NOW)
        with pytest.raises(DuplicateContentError):
            document_writer.insert_document(transaction, make_scored(["one"]), now=NOW)
        document_writer.insert_document(transaction, make_scored(["two"]), now=NOW)
    assert counts(database)["documents"] == 2


@pytest.mark.parametrize(
    ("module", "statement"),
    [(document_writer, "INSERT_SECTION"), (document_writer, "INSERT_CHUNK"), (index_tables, "NOTE_CHANGE")],
)
def test_a_failed_write_stores_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, module: ModuleType, statement: str
) -> None:
    store(database, make_scored(["kept"]))
    before = counts(database)
    monkeypatch.setattr(module, statement, "INSERT INTO nowhere VALUES (?)")
    with pytest.raises(Exception, match=r"prepared|refused|placeholder|binding"):
        store(database, make_scored(["lost"], tags=("t",)))
    assert counts(database) == before
    assert chunks_with(database, "lost") == []
    assert_indexed(database)


def test_chunks_are_stored_with_their_profiles(database: Database) -> None:
    scored = make_scored(
        ["Rain.", "", "Snow.", "Hail."], [{7: 2.0, 3: 1.0, 5: 0.5}, {}, {3: 1.0}, {7: 3.0, 5: 1.0}]
    )
    store(database, scored)
    with database.snapshot() as snapshot:
        assert packed_profiles(snapshot, 1) == [chunk.profile for chunk in scored.chunks]


@pytest.mark.parametrize("chunks_together", [1, 3, 500])
def test_documents_stored_together_equal_those_stored_one_by_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks_together: int
) -> None:
    monkeypatch.setattr(document_writer, "CHUNKS_TOGETHER", chunks_together)
    documents = [
        make_scored(["Rain.", "", "Snow."], [{7: 2.0, 3: 1.0, 5: 0.5}, {}, {3: 1.0}], tags=("b", "a")),
        make_scored(["Hail."], [{}]),
        make_scored(["Sleet.", "Fog."], [{9: 2.0, 3: 1.5}, {9: 1.0}], tags=("b",)),
    ]
    other = open_database(f"sqlite:///{tmp_path}/together.db")
    migrate.upgrade(other)
    ids_one_by_one = [store(database, scored) for scored in documents]
    with other.write() as transaction:
        assert document_writer.insert_documents(transaction, documents, now=NOW) == ids_one_by_one
    for table in TABLES:
        with database.snapshot() as expected, other.snapshot() as actual:
            all_rows = f"SELECT * FROM {table}"
            assert sorted(actual.tuples(all_rows), key=repr) == sorted(expected.tuples(all_rows), key=repr), (
                table
            )
    with database.snapshot() as expected, other.snapshot() as actual:
        assert expected_contents(actual) == expected_contents(expected)
    assert_indexed(other)
    other.close()


def test_a_reader_sees_a_document_whole_or_not_at_all(database: Database) -> None:
    """Readers count rows while a writer stores and deletes a document; every state they see is complete."""
    scored = make_scored([f"word{i}" for i in range(40)], [{i % 5: 1.0 + i, 7: 1.0} for i in range(40)])
    complete_states = {(0, 0, 0, 0), (1, 40, 80, 40)}
    states: set[tuple[int, ...]] = set()
    done = threading.Event()
    index = IndexCache(database)

    def read() -> None:
        tables = ("documents", "chunks", "chunk_reefs")
        while not done.is_set():
            with database.snapshot() as snapshot:
                n_rows = [snapshot.value(f"SELECT COUNT(*) FROM {table}") for table in tables]
                n_indexed = index.of(snapshot).n_chunks
            states.add((*n_rows, n_indexed))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    until(lambda: states)  # Slow readers may start after the first document is stored.
    for _ in range(15):
        document_id = store(database, scored)
        until(lambda: len(states) > 1)
        with database.write() as transaction:
            assert document_writer.delete_document(transaction, document_id)
    done.set()
    for reader in readers:
        reader.join()
    assert states <= complete_states
    assert len(states) == 2, "the readers should have seen both states"


def test_deleting_removes_all_rows_of_a_document_and_no_others(database: Database) -> None:
    kept = store(database, make_scored(["kept rain", "kept snow"], tags=("k",)))
    before = counts(database)
    gone = store(database, make_scored(["gone rain", "gone snow"], [{1: 1.0}, {5: 2.0}], tags=("k", "g")))
    with database.write() as transaction:
        assert document_writer.delete_document(transaction, gone) is True
    assert counts(database) == before
    assert chunks_with(database, "gone") == []
    assert len(chunks_with(database, "kept")) == 2
    assert_indexed(database)
    with database.snapshot() as snapshot:
        if database.is_sqlite:
            assert snapshot.rows("PRAGMA foreign_key_check") == []
        assert [chunk.text for chunk in get_chunks(snapshot, kept).chunks] == ["kept rain", "kept snow"]


def test_deleting_a_missing_document_returns_false(database: Database) -> None:
    with database.write() as transaction:
        assert document_writer.delete_document(transaction, 17) is False


def test_ids_are_never_reused(database: Database) -> None:
    first = store(database, make_scored(["a", "b"]))
    with database.write() as transaction:
        document_writer.delete_document(transaction, first)
    second = store(database, make_scored(["a", "b"]))
    assert second > first
    with database.snapshot() as snapshot:
        assert [chunk.id for chunk in get_chunks(snapshot, second).chunks] == [3, 4]


def test_tags_are_merged_and_replaced(database: Database) -> None:
    document_id = store(database, make_scored(tags=("a",)))
    later = "2030-01-01T00:00:00.000Z"
    with database.write() as transaction:
        assert document_writer.merge_tags(transaction, document_id, ["a"], now=later) is False
        assert document_writer.summary(transaction, document_id) == ("A title", 1, ("a",))
        assert document_writer.merge_tags(transaction, document_id, ["b", "a"], now=later) is True
        assert document_writer.merge_tags(transaction, 99, ["b"], now=later) is False
        assert document_writer.summary(transaction, document_id)[2] == ("a", "b")
        assert document_writer.set_tags(transaction, document_id, ["c"], now=later) is True
        assert document_writer.set_tags(transaction, 99, ["c"], now=later) is False
    with database.snapshot() as snapshot:
        document = get_document(snapshot, document_id)
    assert (document.tags, document.created_at, document.updated_at) == (("c",), NOW, later)


def test_deleting_does_not_scan_other_documents(database: Database) -> None:
    """Every step of a delete finds rows by a key, so that its cost does not grow with the library."""
    if not database.is_sqlite:
        pytest.skip("SQLite's plans")
    steps = [document_writer.DISCOUNT_OBSERVED, document_writer.DELETE_DOCUMENT]
    cascades = [
        "SELECT 1 FROM sections WHERE document_id = :document_id",
        "SELECT 1 FROM chunks WHERE document_id = :document_id",
        "SELECT 1 FROM chunks WHERE section_id = :document_id",
        "SELECT 1 FROM document_tags WHERE document_id = :document_id",
    ]
    with database.snapshot() as snapshot:
        for statement in steps + cascades:
            plan = snapshot.rows(f"EXPLAIN QUERY PLAN {statement}", {"document_id": 1})
            scans = [row[-1] for row in plan if row[-1].startswith("SCAN")]
            assert scans == [], (statement, plan)


def test_rescoring_replaces_scores_unless_newer_ones_are_stored(database: Database) -> None:
    document_id = store(database, make_scored(["Rain.", "Snow."], [{1: 3.0}, {2: 1.0, 3: 2.0}]))
    with database.snapshot() as snapshot:
        ids = [chunk.id for chunk in get_chunks(snapshot, document_id).chunks]
    new = make_scored(["Rain.", "Snow."], [{4: 1.0}, {}])

    def rescore(version: int, has_changed: bool) -> list[tuple[object, ...]]:
        chunks = [(chunk_id, chunk, has_changed) for chunk_id, chunk in zip(ids, new.chunks, strict=True)]
        with database.write() as transaction:
            scored = dataclasses.replace(new, vocabulary_version=version)
            document_writer.rescore_chunks(transaction, document_id, scored, chunks)
        with database.snapshot() as snapshot:
            return [
                (chunk.id, chunk.vocabulary_version, *(reef.reef_id for reef in chunk.reefs))
                for chunk in get_chunks(snapshot, document_id).chunks
            ]

    assert rescore(2, has_changed=False) == [(ids[0], 2, 1), (ids[1], 2, 3, 2)]
    assert rescore(1, has_changed=True) == [(ids[0], 2, 1), (ids[1], 2, 3, 2)]
    assert rescore(3, has_changed=True) == [(ids[0], 3, 4), (ids[1], 3)]
    with database.snapshot() as snapshot:
        assert [tuple(row) for row in snapshot.rows("SELECT chunk_id, reef_id FROM chunk_reefs")] == [
            (ids[0], 4)
        ]
        assert snapshot.value("SELECT top_reef_id FROM chunks WHERE id = :id", {"id": ids[1]}) is None
    assert_indexed(database)
