"""Vectors of chunks, of one encoder, and the files of the index that hold them."""

from alembic import op

revision = "0025"
down_revision = "0024"

STATEMENTS = (
    # The encoder of all vectors; no row while the library has none.
    """CREATE TABLE vector_encoder (
        id         INTEGER PRIMARY KEY CHECK (id = 1),
        name       TEXT NOT NULL,
        revision   TEXT NOT NULL,
        dimension  INTEGER NOT NULL,
        epoch      TEXT NOT NULL             -- random; another one each time that all vectors are made anew
    )""",
    """CREATE TABLE chunk_vectors (
        chunk_id   INTEGER PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE,
        text_hash  INTEGER NOT NULL,         -- 64 bits of the BLAKE2b of the embedded text
        vector     BLOB NOT NULL             -- quantised (`shoal.index.vectors`)
    )""",
    "CREATE INDEX idx_chunk_vectors_text ON chunk_vectors(text_hash)",
    # Vectors that are in no file of the index yet.
    """CREATE TABLE unindexed_vectors (
        chunk_id  INTEGER PRIMARY KEY REFERENCES chunk_vectors(chunk_id) ON DELETE CASCADE
    )""",
    # Vectors of an import, until its chunks are stored.
    """CREATE TABLE imported_vectors (
        text_hash  BLOB PRIMARY KEY,         -- 128 bits of the BLAKE2b of the embedded text
        vector     BLOB NOT NULL
    ) WITHOUT ROWID""",
    # NULL: no chunk of the segment has a vector, or none was looked for.
    "ALTER TABLE index_segments ADD COLUMN vectors_file TEXT",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
