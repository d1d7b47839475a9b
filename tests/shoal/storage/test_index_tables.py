"""Every change of a document is noted until the index has taken it over."""

from __future__ import annotations

import dataclasses

import pytest
from scored_documents import make_scored

from shoal.index.upkeep import update_index
from shoal.storage import document_writer, index_tables
from shoal.storage.database import Database, Transaction
from shoal.storage.index_tables import OpenChange
from shoal.support.clock import timestamp

NOW = timestamp()


@pytest.fixture
def stored(database: Database) -> Database:
    """A database with three documents, whose changes are noted."""
    with database.write() as transaction:
        for text in ("Rain.", "Snow.", "Hail."):
            document_writer.insert_document(transaction, make_scored([text, text]), now=NOW)
    return database


def noted(database: Database) -> dict[int, tuple[int, bool]]:
    """Revision of each noted document, and whether it is indexed."""
    with database.snapshot() as snapshot:
        columns = index_tables.changes(snapshot)
        return {key: (n, done) for key, n, done in zip(*(c.tolist() for c in columns[:3]), strict=True)}


def revision(database: Database) -> int:
    with database.snapshot() as snapshot:
        return index_tables.revision(snapshot)


def opened(database: Database, limit: int = index_tables.ALL) -> list[OpenChange]:
    with database.snapshot() as snapshot:
        return index_tables.open_changes(snapshot, limit)


def add_segment(transaction: Transaction, name: str = "a.segment") -> None:
    index_tables.add_segment(transaction, revision=4, n_documents=3, n_chunks=6, n_bytes=100, file_name=name)


def test_new_documents_are_open_in_order_with_their_sizes(stored: Database) -> None:
    with stored.snapshot() as snapshot:
        sizes = list(snapshot.tuples("SELECT id, n_chunks, n_bytes FROM documents ORDER BY id"))
        assert index_tables.count_open(snapshot) == 3
        assert index_tables.is_any_open(snapshot)
    assert [(change.document_id, change.n_chunks, change.n_bytes) for change in opened(stored)] == sizes
    assert opened(stored, 2) == opened(stored)[:2]


def test_every_write_of_a_document_notes_it_with_a_new_revision(stored: Database) -> None:
    scored = make_scored(["Fog."])
    rescored = dataclasses.replace(make_scored(["Fog."], [{4: 1.0}]), vocabulary_version=2)
    with stored.snapshot() as snapshot:
        [chunk_id, _] = document_writer.chunk_ids(snapshot, 2)
    writes = {
        "replace": lambda t: document_writer.replace_document(t, 2, scored, [chunk_id], now=NOW),
        "rescore": lambda t: document_writer.rescore_chunks(
            t, 2, rescored, [(chunk_id, rescored.chunks[0], True)]
        ),
        "delete": lambda t: document_writer.delete_document(t, 2),
    }
    for name, write in writes.items():
        before, others = revision(stored), {key: noted(stored)[key] for key in (1, 3)}
        with stored.write() as transaction:
            write(transaction)
        assert noted(stored) == {**others, 2: (revision(stored), name == "delete")}, name
        assert revision(stored) > before, name
    assert [change.document_id for change in opened(stored)] == [1, 3]


def test_writes_that_searches_do_not_see_note_nothing(stored: Database) -> None:
    before = revision(stored), noted(stored)
    scored = dataclasses.replace(make_scored(["Rain."]), vocabulary_version=2)
    with stored.write() as transaction:
        [chunk_id, _] = document_writer.chunk_ids(transaction, 1)
        document_writer.rescore_chunks(transaction, 1, scored, [(chunk_id, scored.chunks[0], False)])
        assert document_writer.delete_document(transaction, 99) is False
    assert (revision(stored), noted(stored)) == before


def test_chunk_that_has_the_same_scores_by_other_data_is_noted(stored: Database) -> None:
    before, scored = revision(stored), make_scored(["Rain."])
    with stored.write() as transaction:
        [chunk_id, _] = document_writer.chunk_ids(transaction, 1)
        transaction.execute("UPDATE chunks SET data_checksum = 'other' WHERE id = :id", {"id": chunk_id})
        document_writer.rescore_chunks(transaction, 1, scored, [(chunk_id, scored.chunks[0], False)])
    assert revision(stored) > before


def test_change_that_is_rolled_back_is_not_noted(stored: Database) -> None:
    before = revision(stored), noted(stored)

    def delete_and_fail() -> None:
        with stored.write() as transaction:
            document_writer.delete_document(transaction, 1)
            raise KeyError

    with pytest.raises(KeyError):
        delete_and_fail()
    assert (revision(stored), noted(stored)) == before


def test_document_that_changed_again_stays_open(stored: Database) -> None:
    changes = opened(stored)
    with stored.write() as transaction:
        index_tables.note_changes(transaction, [2])
    with stored.write() as transaction:
        index_tables.close_changes(transaction, changes)
    assert [change.document_id for change in opened(stored)] == [2]
    assert {key for key, (_, is_indexed) in noted(stored).items() if is_indexed} == {1, 3}


def test_only_indexed_changes_of_the_given_revision_are_forgotten(stored: Database) -> None:
    first, second, third = opened(stored)
    with stored.write() as transaction:
        index_tables.close_changes(transaction, [first, second])
        index_tables.note_changes(transaction, [second.document_id], deleted=True)
    with stored.write() as transaction:
        index_tables.forget_changes(
            transaction, [(change.document_id, change.revision) for change in (first, second, third)]
        )
    assert sorted(noted(stored)) == [second.document_id, third.document_id]


def test_segments_are_deleted_together_or_not_at_all(stored: Database) -> None:
    with stored.write() as transaction:
        for name in ("a.segment", "b.segment"):
            add_segment(transaction, name)
    before = revision(stored)
    with stored.snapshot() as snapshot:
        first, second = index_tables.segments(snapshot)
    assert first[1:] == (4, 3, 6, 100, "a.segment", None)
    with stored.write() as transaction:
        assert index_tables.delete_segments(transaction, [first.id, 99]) is False
        assert index_tables.segments(transaction) == [first, second]
        assert index_tables.delete_segments(transaction, [first.id]) is True
        assert index_tables.segments(transaction) == [second]
    assert revision(stored) > before


def test_starting_again_opens_all_stored_documents(stored: Database) -> None:
    with stored.write() as transaction:
        index_tables.close_changes(transaction, index_tables.open_changes(transaction))
        document_writer.delete_document(transaction, 3)
        add_segment(transaction)
    before = revision(stored)
    with stored.write() as transaction:
        index_tables.start_again(transaction)
        assert index_tables.segments(transaction) == []
    assert noted(stored) == {1: (revision(stored), False), 2: (revision(stored), False)}
    assert revision(stored) > before


def test_lost_revision_is_made_again(stored: Database) -> None:
    with stored.write() as transaction:
        transaction.execute("DELETE FROM index_state")
    with stored.write() as transaction:
        index_tables.start_again(transaction)
    assert len(opened(stored)) == 3
    assert update_index(stored) is True
    assert opened(stored) == []


@pytest.mark.timeout(60)
def test_note_of_a_document_that_is_not_stored_does_not_wait_to_be_indexed(stored: Database) -> None:
    with stored.write() as transaction:
        index_tables.note_changes(transaction, [99])
    assert update_index(stored) is True
    with stored.snapshot() as snapshot:
        assert index_tables.count_open(snapshot) == 0
        assert not index_tables.is_any_open(snapshot)
