"""Kept totals equal a count after any sequence of writes, and listings equal their plain definition."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scored_documents import CHECKSUM, make_scored

from shoal.models.documents import ScoredDocument
from shoal.storage import document_writer, staleness, totals
from shoal.storage.database import ConstraintError, Database, Snapshot, Transaction
from shoal.storage.document_queries import get_document, list_documents
from shoal.storage.opening import open_database
from shoal.storage.statistics import chunks_by_reef, frequent_tags, get_counts
from shoal.support.clock import timestamp

NOW = timestamp()
TAGS = ("a", "b", "a_b")
WRITES = ("insert", "replace", "rescore", "tags", "delete", "unlabel")


@contextmanager
def new_database(migrated_file: Path) -> Iterator[Database]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "shoal.db")
        path.write_bytes(migrated_file.read_bytes())
        database = open_database(f"sqlite:///{path}")
        yield database
        database.close()


def random_document(rng: random.Random, n: int) -> ScoredDocument:
    n_chunks = rng.randint(1, 4)
    reefs = [dict.fromkeys(rng.sample(range(5), rng.randint(0, 3)), 1.0) for _ in range(n_chunks)]
    return make_scored(
        [f"Text {n}, {i}." for i in range(n_chunks)],
        reefs,
        probabilities=[{reef: rng.randint(0, 100) / 100 for reef in of_chunk} for of_chunk in reefs],
        title=rng.choice(("Whale", "whaling", "100%", "Sea_urchin")) + str(n % 3),
        source_path=rng.choice((None, "sea/whale.md", f"notes/{n % 2}.md")),
        tags=tuple(rng.sample(TAGS, rng.randint(0, 2))),
    )


def write_something(transaction: Transaction, kind: str, rng: random.Random, n: int) -> None:
    ids = [row[0] for row in transaction.rows("SELECT id FROM documents")]
    scored = random_document(rng, n)
    if kind == "insert" or not ids:
        document_writer.insert_document(transaction, scored, now=NOW)
        return
    document_id = rng.choice(ids)
    chunk_ids = document_writer.chunk_ids(transaction, document_id)
    if kind == "replace":
        kept = [*chunk_ids, *([None] * len(scored.chunks))][: len(scored.chunks)]
        document_writer.replace_document(transaction, document_id, scored, kept, now=NOW)
    elif kind == "rescore":
        pairs = zip(chunk_ids, scored.chunks, strict=False)
        rescored = [(chunk_id, chunk, True) for chunk_id, chunk in pairs]
        newer = dataclasses.replace(scored, vocabulary_version=n + 1)
        document_writer.rescore_chunks(transaction, document_id, newer, rescored)
    elif kind == "tags":
        document_writer.set_tags(transaction, document_id, scored.draft.tags, now=NOW)
    elif kind == "delete":
        document_writer.delete_document(transaction, document_id)
    else:
        transaction.execute("UPDATE chunks SET top_reef_id = NULL, top_reef_probability = 0 WHERE id % 2")


@given(kinds=st.lists(st.sampled_from(WRITES), min_size=1, max_size=25), seed=st.integers(0, 999))
def test_totals_equal_a_count_after_every_write(migrated_file: Path, kinds: list[str], seed: int) -> None:
    rng = random.Random(seed)
    with new_database(migrated_file) as database:
        for n, kind in enumerate(kinds):
            with database.write() as transaction:
                write_something(transaction, kind, rng, n)
                assert totals.wrong_totals(transaction) == [], kind


def test_statistics_read_the_totals(database: Database) -> None:
    rng = random.Random(5)
    with database.write() as transaction:
        for n in range(30):
            write_something(transaction, "insert", rng, n)
    with database.snapshot() as snapshot:
        found = get_counts(snapshot, data_checksum=CHECKSUM)
        counted = tuple(snapshot.first("SELECT COUNT(*), SUM(n_bytes) FROM documents"))
        n_chunks = snapshot.value("SELECT COUNT(*) FROM chunks")
        assert (found["n_documents"], found["content_bytes"], found["n_chunks"]) == (*counted, n_chunks)
        assert found["n_stale_chunks"] == 0
        assert get_counts(snapshot, data_checksum="other")["n_stale_chunks"] == n_chunks
        by_tag = dict(snapshot.tuples("SELECT tag, COUNT(*) FROM document_tags GROUP BY tag"))
        assert frequent_tags(snapshot, 2) == tuple(
            sorted(by_tag.items(), key=lambda pair: (-pair[1], pair[0]))[:2]
        )
        for percent in range(0, 101, 3):
            first_labels = snapshot.tuples(
                """SELECT top_reef_id, COUNT(*) FROM chunks
                   WHERE top_reef_id IS NOT NULL AND top_reef_probability >= :least GROUP BY top_reef_id""",
                {"least": percent / 100},
            )
            assert chunks_by_reef(snapshot, percent / 100) == dict(first_labels)


def test_stale_chunks_are_those_of_other_data_and_those_with_changed_words(database: Database) -> None:
    with database.write() as transaction:
        for n, checksum in enumerate("mazmam"):
            document_id = document_writer.insert_document(transaction, make_scored([f"{n}."]), now=NOW)
            changed = {"checksum": checksum, "document_id": document_id}
            for table in ("chunks", "document_words"):
                transaction.execute(
                    f"UPDATE {table} SET data_checksum = :checksum WHERE document_id = :document_id", changed
                )
        transaction.execute(
            """INSERT INTO vocabulary_versions (version, created_at, n_words, data_checksum)
               VALUES (5, 'then', 0, 'm')"""
        )
        # The words of these documents are not known, so all of them may contain it.
        staleness.mark_outdated(transaction, staleness.find_outdated(transaction, ["zorblat"], "m"), "m")
        document_writer.delete_document(transaction, 1)
    with database.snapshot() as snapshot:
        assert get_counts(snapshot, data_checksum="m")["n_stale_chunks"] == 3 + 2
        assert get_counts(snapshot, data_checksum="a")["n_stale_chunks"] == 3
        assert totals.wrong_totals(snapshot) == []


def matching_ids(snapshot: Snapshot, tag: str | None, q: str | None, source_path: str | None) -> list[int]:
    """The plain definition of a listing."""
    documents = [
        get_document(snapshot, row[0]) for row in snapshot.rows("SELECT id FROM documents ORDER BY id")
    ]
    return [
        document.id
        for document in documents
        if (tag is None or tag in document.tags)
        and (source_path is None or document.source_path == source_path)
        and (
            q is None
            or any(q.lower() in (text or "").lower() for text in (document.title, document.source_path))
        )
    ]


@pytest.mark.parametrize("tag", [None, "a", "a_b", "missing"])
@pytest.mark.parametrize("q", [None, "WHAL", "%", "_", "sea/", "nothing"])
@pytest.mark.parametrize("source_path", [None, "sea/whale.md", "nowhere"])
def test_listings_equal_their_plain_definition(
    database: Database, tag: str | None, q: str | None, source_path: str | None
) -> None:
    rng = random.Random(8)
    with database.write() as transaction:
        for n in range(40):
            write_something(transaction, "insert" if n % 5 else "delete", rng, n)
    with database.snapshot() as snapshot:
        expected = matching_ids(snapshot, tag, q, source_path)
        for limit, offset in ((50, 0), (3, 2), (4, 1000), (0, 0)):
            page = list_documents(snapshot, tag=tag, q=q, source_path=source_path, limit=limit, offset=offset)
            assert [document.id for document in page.documents] == expected[offset : offset + limit]
            assert page.total == len(expected)


LISTING_PLANS = (
    ("SELECT id FROM documents d WHERE 1 ORDER BY id LIMIT 5 OFFSET 7", "idx_documents_names"),
    (
        "SELECT id FROM documents d WHERE d.title LIKE :pattern OR d.source_path LIKE :pattern ORDER BY id",
        "idx_documents_names",
    ),
    ("SELECT document_id AS id FROM document_tags WHERE tag = :tag ORDER BY id", "idx_document_tags_tag"),
    (totals.FREQUENT_TAGS, "idx_tag_totals_frequent"),
)


@pytest.mark.parametrize(("statement", "index"), LISTING_PLANS)
def test_listings_read_an_index_in_order(database: Database, statement: str, index: str) -> None:
    parameters = {"pattern": "%a%", "tag": "a", "limit": 5}
    with database.snapshot() as snapshot:
        plan = [row["detail"] for row in snapshot.rows(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    assert len(plan) == 1
    assert f"USING COVERING INDEX {index}" in plan[0]


def test_wrong_totals_are_counted_again(database: Database) -> None:
    with database.write() as transaction:
        write_something(transaction, "insert", random.Random(1), 0)
        transaction.execute("UPDATE library_totals SET n_chunks = 99")
        transaction.execute("INSERT INTO reef_totals VALUES (9, 50, 3)")
        assert [wrong.table for wrong in totals.wrong_totals(transaction)] == [
            "library_totals",
            "reef_totals",
        ]
        totals.count_again(transaction)
        assert totals.wrong_totals(transaction) == []


def test_a_rolled_back_write_leaves_the_totals(database: Database) -> None:
    def fail_after_writing() -> None:
        with database.write() as transaction:
            document_writer.insert_document(transaction, make_scored(tags=("a",)), now=NOW)
            transaction.execute("INSERT INTO tag_totals VALUES ('a', 1)")

    with pytest.raises(ConstraintError):
        fail_after_writing()
    with database.snapshot() as snapshot:
        assert snapshot.value(totals.N_DOCUMENTS) == 0
        assert frequent_tags(snapshot, 5) == ()
