"""A chunk is one row with its packed profile. The tables that held a profile in rows become views.

Libraries of 0009 are converted in short transactions (`prepare`) into a table beside `chunks`; a conversion
that was interrupted continues. Triggers drop the copies of chunks that an older process changes meanwhile.
The migration itself converts the rest, puts the new table in the place of the old ones, and drops these.
Later writes reuse their pages, and the cleaning up of the service returns them to the file system.
"""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any

import numpy as np
from alembic import op

revision = "0010"
down_revision = "0009"

BATCH = 5_000
"""Chunks converted in one transaction: about a second."""
BYTES_PER_TEXT_BYTE = 2.2
"""Largest growth of the file by the conversion: text, profile and other columns of the copies, by byte of
text. The old tables are dropped only at the end."""

Row = tuple[Any, ...]

RECORD = np.dtype(
    [
        ("reef_id", "u1"),
        ("z_score", "<u2"),
        ("raw_bm25", "<u2"),
        ("n_contributing_words", "u1"),
        ("probability", "u1"),
    ]
)
"""See `shoal.storage.profiles`."""
Z_STEPS, RAW_STEPS, PROBABILITY_STEPS = 250, 10, 200

CHUNKS = """CREATE TABLE {name} (
        id              INTEGER PRIMARY KEY AUTOINCREMENT,
        document_id     INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
        section_id      INTEGER NOT NULL REFERENCES sections(id) ON DELETE CASCADE,
        chunk_index     INTEGER NOT NULL,        -- 0-based position in the document
        start_char      INTEGER NOT NULL,
        end_char        INTEGER NOT NULL,
        start_line      INTEGER NOT NULL,        -- 1-based, inclusive
        end_line        INTEGER NOT NULL,
        sentence_count  INTEGER NOT NULL,
        confidence      REAL NOT NULL,           -- z of the first reef minus z of the second
        coverage        REAL NOT NULL,
        matched_words   INTEGER NOT NULL,
        top_reef_id     INTEGER,                 -- the most probable reef; NULL: no known word
        top_reef_name   TEXT,
        top_reef_probability REAL NOT NULL,
        arch_score_0    REAL NOT NULL,           -- natural sciences & taxonomy
        arch_score_1    REAL NOT NULL,           -- physical world & materiality
        arch_score_2    REAL NOT NULL,           -- abstract processes & systems
        arch_score_3    REAL NOT NULL,           -- social order & assessment
        norm            REAL NOT NULL,           -- Euclidean, over the stored z-scores
        vocabulary_version INTEGER NOT NULL,     -- scored with this vocabulary
        data_checksum   TEXT NOT NULL,           -- scored with this build of lagoon's data
        metadata        TEXT NOT NULL DEFAULT '{{}}',
        profile         BLOB NOT NULL,           -- 7 bytes per reef, strongest first; see chunk_reefs
        text            TEXT NOT NULL,           -- content[start_char:end_char]; last: filters skip it
        UNIQUE (document_id, chunk_index)
    )"""

REEFS = """CREATE TABLE reefs (
        data_checksum   TEXT NOT NULL,           -- of the build of lagoon's data that numbers the reefs
        reef_id         INTEGER NOT NULL,
        reef_name       TEXT NOT NULL,
        island_id       INTEGER,                 -- NULL: not known any more
        island_name     TEXT,
        island_scale    REAL,                    -- 1 / square root of the number of the island's reefs
        PRIMARY KEY (data_checksum, reef_id)
    ) WITHOUT ROWID"""

# What the views need to unpack a profile: the numbers 0..255, and all bytes in order, so that the place of a
# byte among them is its value.
RANKS = "CREATE TABLE ranks (rank INTEGER PRIMARY KEY)"
ALL_BYTES = "CREATE TABLE all_bytes (bytes BLOB NOT NULL)"


def _byte(place: int) -> str:
    return f"instr(b.bytes, substr(c.profile, 7 * k.rank + {place}, 1)) - 1"


CHUNK_REEFS = f"""CREATE VIEW chunk_reefs AS
        SELECT c.id AS chunk_id,
               {_byte(1)} AS reef_id,
               n.reef_name,
               ({_byte(2)}
                + 256 * ({_byte(3)})) / 250.0 AS z_score,
               ({_byte(4)}
                + 256 * ({_byte(5)})) / 10.0 AS raw_bm25,
               {_byte(6)} AS n_contributing_words,
               k.rank,                           -- 0: the strongest
               ({_byte(7)}) / 200.0 AS probability
        FROM chunks c
        JOIN all_bytes b
        JOIN ranks k ON k.rank < length(c.profile) / 7
        LEFT JOIN reefs n ON n.data_checksum = c.data_checksum
            AND n.reef_id = {_byte(1)}"""

CHUNK_ISLANDS = f"""CREATE VIEW chunk_islands AS
        SELECT c.id AS chunk_id, n.island_id, n.island_name,
               ROUND(SUM({_byte(2)}
                + 256 * ({_byte(3)})) / 250.0 * n.island_scale, 3)
                   AS aggregate_z,
               COUNT(*) AS n_contributing_reefs
        FROM chunks c
        JOIN all_bytes b
        JOIN ranks k ON k.rank < length(c.profile) / 7
        JOIN reefs n ON n.data_checksum = c.data_checksum
            AND n.reef_id = {_byte(1)}
        WHERE n.island_id IS NOT NULL
        GROUP BY c.id, n.island_id"""

CHUNK_TEXTS = """CREATE VIEW chunk_texts AS
        SELECT c.id AS chunk_id, c.document_id AS document_id, d.title AS title,
               s.path AS headings, c.text AS text
        FROM chunks c
        JOIN documents d ON d.id = c.document_id
        JOIN sections s ON s.id = c.section_id"""

INDEXES = (
    # For the cascade when a section is deleted.
    "CREATE INDEX idx_chunks_section_id ON chunks(section_id)",
    "CREATE INDEX idx_chunks_confidence ON chunks(confidence)",
    "CREATE INDEX idx_chunks_staleness ON chunks(data_checksum, vocabulary_version)",
    # For the counts of chunks by reef, the chunks of a reef and the filters, which all have a threshold.
    "CREATE INDEX idx_chunks_top_reef ON chunks(top_reef_id, top_reef_probability)",
)

# A copy is dropped when its chunk or one of its reefs changes; what deletes chunks deletes their copies too.
TRIGGERS = {
    f"converted_{table}_{event.lower()}": f"""
        CREATE TRIGGER converted_{table}_{event.lower()} AFTER {event} ON {table}
        BEGIN DELETE FROM converted_chunks WHERE id = {row}.{key}; END"""
    for table, key in (("chunks", "id"), ("chunk_reefs", "chunk_id"))
    for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD"))
}

HAS_COPIES = "SELECT 1 FROM sqlite_master WHERE name = 'converted_chunks'"
REMAINING_BYTES = """
    SELECT COALESCE(SUM(LENGTH(CAST(c.text AS BLOB))), 0) FROM chunks c
    WHERE NOT EXISTS (SELECT 1 FROM converted_chunks k WHERE k.id = c.id)
"""
TEXT_BYTES = "SELECT COALESCE(SUM(n_bytes), 0) FROM documents"
COPIED = (
    "id, document_id, section_id, chunk_index, start_char, end_char, start_line, end_line, sentence_count, "
    "confidence, coverage, matched_words, arch_score_0, arch_score_1, arch_score_2, arch_score_3, "
    "vocabulary_version, data_checksum, metadata, text"
)
CHECKSUM = COPIED.split(", ").index("data_checksum")
DERIVED = "top_reef_id, top_reef_name, top_reef_probability, norm, profile"
NEXT = f"""
    SELECT {COPIED} FROM chunks c
    WHERE id > ? AND NOT EXISTS (SELECT 1 FROM converted_chunks k WHERE k.id = c.id)
    ORDER BY id LIMIT {BATCH}
"""
REEFS_OF = """
    SELECT chunk_id, reef_id, reef_name, z_score, raw_bm25, n_contributing_words, probability
    FROM chunk_reefs WHERE chunk_id BETWEEN ? AND ? ORDER BY chunk_id, rank
"""
WRITE = f"INSERT INTO converted_chunks ({COPIED}, {DERIVED}) VALUES ({', '.join('?' * 25)})"
WRITE_REEF = "INSERT OR IGNORE INTO reefs VALUES (?, ?, ?, ?, ?, ?)"


def bytes_needed(connection: sqlite3.Connection) -> int:
    """Bytes by which the file may still grow during the conversion."""
    if connection.execute(HAS_COPIES).fetchone():
        (n_bytes,) = connection.execute(REMAINING_BYTES).fetchone()
    else:
        (n_bytes,) = connection.execute(TEXT_BYTES).fetchone()
    (page_size,), (n_free,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "freelist_count")
    )
    return max(0, int(n_bytes * BYTES_PER_TEXT_BYTE) - page_size * n_free)


def prepare(connection: sqlite3.Connection, after: int) -> tuple[int, int] | None:
    """Convert some chunks in the open transaction.

    `after`: the last chunk that this process has converted, or 0. Returns the last chunk converted now, and
    the number of chunks after it; None when nothing is left.
    """
    if not connection.execute(HAS_COPIES).fetchone():
        for statement in (REEFS, CHUNKS.format(name="converted_chunks"), *TRIGGERS.values()):
            connection.execute(statement)
    cursor = connection.cursor()
    cursor.row_factory = None
    rows = cursor.execute(NEXT, (after,)).fetchall()
    if not rows:
        return None
    reefs = cursor.execute(REEFS_OF, (rows[0][0], rows[-1][0])).fetchall()
    cursor.executemany(WRITE, list(_converted(rows, reefs)))
    checksums = {row[0]: row[CHECKSUM] for row in rows}
    names = {(checksums[reef[0]], *reef[1:3]) for reef in reefs if reef[0] in checksums}
    cursor.executemany(WRITE_REEF, list(_named_reefs(names)))
    last: int = rows[-1][0]
    return last, cursor.execute("SELECT COUNT(*) FROM chunks WHERE id > ?", (last,)).fetchone()[0]


def _converted(rows: Sequence[Row], reefs: Sequence[Row]) -> Iterator[Row]:
    """The rows of the new table. `reefs`: those of all chunks between the first row and the last, by rank."""
    records = np.zeros(len(reefs), dtype=RECORD)
    if reefs:
        chunk_ids, reef_ids, names, z, raw, n_words, chances = zip(*reefs, strict=True)
        records["reef_id"] = reef_ids
        records["z_score"] = np.clip(np.rint(np.array(z) * Z_STEPS), 1, 0xFFFF)
        records["raw_bm25"] = np.clip(np.rint(np.array(raw) * RAW_STEPS), 0, 0xFFFF)
        records["n_contributing_words"] = np.clip(n_words, 0, 0xFF)
        records["probability"] = np.clip(np.rint(np.array(chances) * PROBABILITY_STEPS), 0, PROBABILITY_STEPS)
    else:
        chunk_ids, names = (), ()
    ids = np.array(chunk_ids, dtype=np.int64)
    first = np.searchsorted(ids, [row[0] for row in rows], side="left").tolist()
    last = np.searchsorted(ids, [row[0] for row in rows], side="right").tolist()
    for row, start, end in zip(rows, first, last, strict=True):
        own = records[start:end]
        if not len(own):
            yield (*row, None, None, 0.0, 0.0, b"")
            continue
        top = int(own["probability"].argmax())
        steps = own["z_score"].astype(np.int64)
        yield (
            *row,
            int(own["reef_id"][top]),
            names[start + top],
            int(own["probability"][top]) / PROBABILITY_STEPS,
            round(math.sqrt(int((steps * steps).sum())) / Z_STEPS, 6),
            own.tobytes(),
        )


def _named_reefs(names: Iterable[tuple[str, int, str]]) -> Iterator[Row]:
    """The rows of the table of reefs. Older data had the same islands; unknown names have none."""
    hierarchy = json.loads((resources.files("lagoon") / "data" / "hierarchy.json").read_text("utf-8"))
    islands = {reef["name"]: reef["island_id"] for reef in hierarchy["reefs"]}
    names_of_islands = {island["id"]: island["name"] for island in hierarchy["islands"]}
    n_reefs = Counter(islands.values())
    for checksum, reef_id, name in names:
        island = islands.get(name)
        if island is None:
            yield checksum, reef_id, name, None, None, None
        else:
            scale = 1 / math.sqrt(n_reefs[island])
            yield checksum, reef_id, name, island, names_of_islands[island], scale


def upgrade() -> None:
    bind = op.get_bind()
    connection: sqlite3.Connection = bind.connection.dbapi_connection
    after = 0
    while (converted := prepare(connection, after)) is not None:
        after = converted[0]
    cursor = connection.cursor()
    cursor.row_factory = None
    for name in TRIGGERS:
        cursor.execute(f"DROP TRIGGER {name}")
    cursor.execute("DROP VIEW chunk_texts")
    for table in ("chunk_reefs", "chunk_islands", "reef_postings"):
        cursor.execute(f"DROP TABLE {table}")
    # Ids of deleted chunks are never used again.
    cursor.execute("DELETE FROM sqlite_sequence WHERE name = 'converted_chunks'")
    cursor.execute(
        """INSERT INTO sqlite_sequence (name, seq)
           SELECT 'converted_chunks', seq FROM sqlite_sequence WHERE name = 'chunks'"""
    )
    cursor.execute("DROP TABLE chunks")
    cursor.execute("ALTER TABLE converted_chunks RENAME TO chunks")
    for statement in (*INDEXES, RANKS, ALL_BYTES, CHUNK_TEXTS, CHUNK_REEFS, CHUNK_ISLANDS):
        cursor.execute(statement)
    cursor.executemany("INSERT INTO ranks VALUES (?)", [(rank,) for rank in range(256)])
    cursor.execute("INSERT INTO all_bytes VALUES (?)", (bytes(range(256)),))
