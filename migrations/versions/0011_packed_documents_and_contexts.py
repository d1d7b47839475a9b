"""The discover stage stores what it read, so that the score stage need not read the text again; and contexts
of words are packed."""

import json

from alembic import op

from shoal.storage.packed_contexts import pack_context

revision = "0011"
down_revision = "0010"

STATEMENTS = (
    # The score stage finds the boundaries of an open item again if they are missing.
    "DROP TABLE job_item_cuts",
    # What the discover stage found in the text of an item. Deleted with the text.
    """CREATE TABLE job_item_cuts (
        item_id  INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
        cuts     TEXT NOT NULL,                  -- JSON array: offsets of the chunks
        document BLOB                            -- `shoal/chunking/packed_documents.py`; NULL: the text is
                                                 -- read again
    )""",
    "ALTER TABLE word_observations RENAME TO unpacked_observations",
    """CREATE TABLE word_observations (
        observed_id   INTEGER NOT NULL REFERENCES observed_documents(id) ON DELETE CASCADE,
        kind          INTEGER NOT NULL,          -- 0: the document as a whole, 1: word, 2: compound
        word          TEXT NOT NULL,             -- '' for kind 0
        n_occurrences INTEGER NOT NULL,
        n_short       INTEGER NOT NULL,          -- of these, in short documents
        n_chunks      INTEGER NOT NULL,          -- chunks that contain the word
        parts         TEXT NOT NULL,             -- JSON array: counts for the significance of compounds
        context       BLOB NOT NULL,             -- sums by reef (`shoal/storage/packed_contexts.py`)
        PRIMARY KEY (observed_id, kind, word)
    ) WITHOUT ROWID""",
    """INSERT INTO word_observations (observed_id, kind, word, n_occurrences, n_short, n_chunks, parts,
                                      context)
       SELECT observed_id, kind, word, n_occurrences, n_short, n_chunks, parts, packed_context(context)
       FROM unpacked_observations ORDER BY observed_id, kind, word""",
    "DROP TABLE unpacked_observations",
    "ALTER TABLE word_evidence RENAME TO unpacked_evidence",
    """CREATE TABLE word_evidence (
        word          TEXT NOT NULL,
        kind          INTEGER NOT NULL,
        revision      INTEGER NOT NULL,
        n_occurrences INTEGER NOT NULL,          -- 0: no evidence remains for this word
        n_short       INTEGER NOT NULL,
        n_documents   INTEGER NOT NULL,
        n_chunks      INTEGER NOT NULL,
        parts         TEXT NOT NULL,
        context       BLOB NOT NULL,
        PRIMARY KEY (word, kind, revision)
    ) WITHOUT ROWID""",
    """INSERT INTO word_evidence (word, kind, revision, n_occurrences, n_short, n_documents, n_chunks, parts,
                                  context)
       SELECT word, kind, revision, n_occurrences, n_short, n_documents, n_chunks, parts,
              packed_context(context)
       FROM unpacked_evidence ORDER BY word, kind, revision""",
    "DROP TABLE unpacked_evidence",
)


def upgrade() -> None:
    connection = op.get_bind()
    driver = connection.connection.driver_connection
    driver.create_function("packed_context", 1, _packed, deterministic=True)
    for statement in STATEMENTS:
        connection.exec_driver_sql(statement)


def _packed(context: str) -> bytes:
    flat = json.loads(context)
    return pack_context(flat[::2], flat[1::2])
