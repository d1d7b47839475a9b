"""Time of the specification's retrieval query in SQL, over a generated library.

    python -m benchmarks.reef_query [--chunks N] [--runs N] [--postgres URL]

Builds a library of N chunks (default 33,000) with texts of about 700 characters and 30 to 60 reefs each, in
a temporary folder, or in a new schema of a PostgreSQL database. Prints one JSON object: the best time of a
query of 3 and of 10 reefs in seconds, over the view `chunk_reefs`; and the bytes that the column `reef_ids`
takes, beside those of the library and of a table with the indexes of the specification in place of the view.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from shoal.storage import migrate
from shoal.storage.database import Database, Transaction
from shoal.storage.opening import open_database
from shoal.storage.profiles import reef_ids_of
from shoal.support.clock import timestamp

SEED = 11
N_REEFS, CHECKSUM = 207, "generated"
CHUNKS_OF_DOCUMENT = 33
DOCUMENT = """
    INSERT INTO documents (id, title, content_hash, format, n_bytes, n_chunks, n_sentences, coverage,
                           created_at, updated_at, text_after)
    VALUES (?, ?, ?, 'plaintext', 0, 33, 33, 1.0, ?, ?, '')
"""
SECTION = """
    INSERT INTO sections (id, document_id, section_index, level, path, heading_start, heading_end, start_char,
                          end_char)
    VALUES (?, ?, 0, 0, '[]', 0, 0, 0, 9)
"""
CHUNK = """
    INSERT INTO chunks (id, document_id, section_id, chunk_index, start_char, end_char, start_line, end_line,
                        sentence_count, confidence, coverage, matched_words, top_reef_id, top_reef_name,
                        top_reef_probability, arch_score_0, arch_score_1, arch_score_2, arch_score_3, norm,
                        vocabulary_version, data_checksum, profile, reef_ids, text)
    VALUES (?, ?, ?, ?, 0, 9, 1, 1, 1, 1.0, 1.0, 1, ?, 'reef', 0.5, 0, 0, 0, 0, 1.0, 0, 'generated', ?, ?, ?)
"""
REEF = "INSERT INTO reefs (data_checksum, reef_id, reef_name) VALUES (?, ?, ?)"
QUERY = """
    WITH qr(reef_id, query_z) AS (VALUES {reefs})
    SELECT c.id, c.text, c.document_id, d.title AS document_title, c.chunk_index, c.start_char, c.end_char,
           c.confidence, c.coverage, c.top_reef_name, SUM(cr.z_score * qr.query_z) AS match_score,
           COUNT(cr.reef_id) AS n_shared_reefs
    FROM chunks c
    JOIN chunk_reefs cr ON c.id = cr.chunk_id
    JOIN qr ON cr.reef_id = qr.reef_id
    JOIN documents d ON c.document_id = d.id
    GROUP BY c.id, d.title
    ORDER BY match_score DESC, c.id
    LIMIT 10
"""
BYTES = "SELECT SUM(LENGTH(reef_ids)) FROM chunks"
TABLE = (
    "CREATE TABLE unpacked AS SELECT * FROM chunk_reefs ORDER BY chunk_id, reef_id",
    "CREATE UNIQUE INDEX unpacked_key ON unpacked(chunk_id, reef_id)",
    "CREATE INDEX unpacked_reef_id ON unpacked(reef_id)",
    "CREATE INDEX unpacked_z_score ON unpacked(z_score)",
)
SIZE_ON_SQLITE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
SIZE_ON_POSTGRESQL = """
    SELECT SUM(pg_total_relation_size(c.oid))::bigint FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
"""


def fill(transaction: Transaction, n_chunks: int) -> None:
    """Write the generated library."""
    drawn, now = random.Random(SEED), timestamp()
    words = ["".join(drawn.choices("abcdefghijklmnop", k=drawn.randint(2, 9))) for _ in range(5_000)]

    def profile() -> bytes:
        reefs = drawn.sample(range(N_REEFS), drawn.randint(30, 60))
        scores = sorted((drawn.randint(1, 5_000) for _ in reefs), reverse=True)
        return b"".join(
            bytes([reef]) + z.to_bytes(2, "little") + drawn.randbytes(4)
            for reef, z in zip(reefs, scores, strict=True)
        )

    n_documents = n_chunks // CHUNKS_OF_DOCUMENT
    ids = range(1, n_documents + 1)
    transaction.write_many(REEF, [(CHECKSUM, i, f"reef {i}") for i in range(N_REEFS)])
    transaction.write_many(DOCUMENT, [(i, f"Document {i}", f"{i:064x}", now, now) for i in ids])
    transaction.write_many(SECTION, [(i, i) for i in ids])
    rows = []
    for i in range(n_documents * CHUNKS_OF_DOCUMENT):
        document, packed = i // CHUNKS_OF_DOCUMENT + 1, profile()
        text = " ".join(drawn.choices(words, k=110))
        rows.append(
            (i + 1, document, document, i % CHUNKS_OF_DOCUMENT, packed[0], packed, reef_ids_of(packed), text)
        )
    transaction.write_many(CHUNK, rows)


def reefs_of(n: int) -> str:
    """Return the rows of a query of n reefs."""
    return ", ".join(f"({(17 * i + 3) % N_REEFS}, {5.0 - i / 4})" for i in range(n))


def seconds_of(database: Database, n_reefs: int, runs: int) -> float:
    """Return the best time of the query."""
    times = []
    for _ in range(runs):
        with database.snapshot() as snapshot:
            begun = time.perf_counter()
            snapshot.rows(QUERY.format(reefs=reefs_of(n_reefs)))
            times.append(time.perf_counter() - begun)
    return min(times)


def measured(database: Database, n_chunks: int, runs: int) -> dict[str, Any]:
    """Build the library and return all numbers."""
    migrate.upgrade(database)
    size = SIZE_ON_SQLITE if database.is_sqlite else SIZE_ON_POSTGRESQL
    with database.write() as transaction:
        fill(transaction, n_chunks)
    result: dict[str, Any] = {"chunks": n_chunks, "store": "sqlite" if database.is_sqlite else "postgresql"}
    for n_reefs in (3, 10):
        result[f"seconds_{n_reefs}_reefs"] = round(seconds_of(database, n_reefs, runs), 3)
    with database.write() as transaction:
        result["bytes_of_library"] = int(transaction.value(size))
        result["bytes_of_reef_ids"] = int(transaction.value(BYTES))
        for statement in TABLE:
            transaction.execute(statement)
        result["bytes_of_a_table"] = int(transaction.value(size)) - result["bytes_of_library"]
    return result


@contextmanager
def library(postgres: str | None) -> Iterator[Database]:
    """Yield an empty database, which is removed at the end."""
    if postgres is None:
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(open_database(f"sqlite:///{Path(folder) / 'shoal.db'}")) as database,
        ):
            yield database
        return
    import psycopg

    schema = f"benchmark_{secrets.token_hex(4)}"
    try:
        with closing(open_database(f"{postgres}?schema={schema}")) as database:
            yield database
    finally:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=33_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--postgres", metavar="URL", help="postgresql://USER@HOST:PORT/DATABASE")
    options = parser.parse_args()
    with library(options.postgres) as database:
        print(json.dumps(measured(database, options.chunks, options.runs), indent=2))


if __name__ == "__main__":
    main()
