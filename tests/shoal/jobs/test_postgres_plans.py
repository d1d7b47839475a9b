"""On PostgreSQL too, statements that run every two seconds, or for every batch, must not read whole tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest
from scored_documents import make_scored
from test_job_statements import OF_LEARNING, OFTEN

from shoal.jobs.queue import statements
from shoal.storage import chunk_queries, document_queries, document_writer, staleness
from shoal.storage.database import Database, Snapshot
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp

GROWING = {
    "chunks",
    "custom_words",
    "document_words",
    "documents",
    "job_item_contents",
    "job_items",
    "jobs",
    "observed_documents",
    "sections",
    "waves",
    "word_evidence",
    "observed_words",
}
"""Tables that grow with the library or with the number of jobs."""
OF_DOCUMENTS = {
    "AT_PATH": document_writer.AT_PATH,
    "CHUNK_TEXTS": document_writer.CHUNK_TEXTS,
    "CHUNKS_OF": chunk_queries.CHUNKS_OF,
    "PROFILES_OF": chunk_queries.PROFILES_OF.format(ids=":a, :b"),
    "TAGS_OF": document_queries.TAGS_OF.format(ids=":a, :b"),
}


@pytest.fixture
def library(empty_postgres: str) -> Iterator[Database]:
    with closing(open_database(empty_postgres)) as opened:
        yield opened


def read_whole(snapshot: Snapshot, statement: str) -> list[str]:
    """The growing tables that a statement can only read as a whole."""
    # A literal of text takes the type of what it is compared with.
    parameters = dict.fromkeys(re.findall(r":(\w+)", statement), "1")
    lines = [row[0] for row in snapshot.rows(f"EXPLAIN {statement}", parameters)]
    return [
        found[1] for line in lines if (found := re.search(r"Seq Scan on (\w+)", line)) and found[1] in GROWING
    ]


def test_frequent_statements_read_no_table_that_grows(library: Database) -> None:
    queue = {name: getattr(statements, name).format(has_status=statements.HAS_STATUS) for name in OFTEN}
    with library.snapshot() as snapshot:
        # Then the planner reads a whole table only where no index helps.
        snapshot.connection.execute("SET LOCAL enable_seqscan = off")
        found = {
            name: tables
            for name, statement in (queue | OF_LEARNING | OF_DOCUMENTS).items()
            if (tables := read_whole(snapshot, statement))
        }
        assert read_whole(snapshot, "SELECT id FROM documents WHERE coverage > :a") == ["documents"]
    assert found == {}


def test_a_search_of_a_library_without_statistics_reads_no_table_that_grows(library: Database) -> None:
    with library.write() as transaction:
        scored = make_scored([f"text {number}" for number in range(3000)])
        document_writer.insert_document(transaction, scored, now=timestamp())
    with library.snapshot() as snapshot:
        assert read_whole(snapshot, staleness.ANY_OTHER_DATA) == []
        with_each = "SELECT EXISTS (SELECT 1 FROM chunks WHERE data_checksum > :a)"
        assert read_whole(snapshot, with_each) == ["chunks"]
