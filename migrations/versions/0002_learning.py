"""Learning in waves: observations, evidence, words by version, rescored documents, local jobs."""

from alembic import op

revision = "0002"
down_revision = "0001"

# Empty in every database of the previous revision, which had no learning.
REPLACED = (
    "DROP TABLE word_observations",
    "DROP TABLE custom_word_reefs",
    "DROP TABLE custom_words",
)

WORDS = (
    # NULL: no words, so the version fits any data.
    "ALTER TABLE vocabulary_versions ADD COLUMN data_checksum TEXT",
    # A row is valid from its from_version until the next row of the same word. Rows are never updated. They
    # are written before their version, and have no effect until the version exists.
    """CREATE TABLE custom_words (
        id            INTEGER PRIMARY KEY AUTOINCREMENT,
        word          TEXT NOT NULL,             -- normal form; the words of a compound are joined by spaces
        from_version  INTEGER NOT NULL,
        retired       INTEGER NOT NULL DEFAULT 0, -- 1: the word is unknown from this version on
        word_hash     INTEGER NOT NULL,          -- the 64 bits of FNV-1a, read as signed
        word_id       INTEGER NOT NULL,          -- permanent, even when the word is retired
        is_compound   INTEGER NOT NULL DEFAULT 0,
        specificity   INTEGER NOT NULL,          -- -2..+2
        idf_q         INTEGER NOT NULL,          -- idf over reefs * 51, u8
        weight_q      INTEGER NOT NULL,          -- inverse document frequency * 4096, u16
        n_occurrences INTEGER NOT NULL,
        n_documents   INTEGER NOT NULL,
        created_at    TEXT NOT NULL,
        UNIQUE (word, from_version),
        UNIQUE (word_id, from_version)
    )""",
    "CREATE INDEX idx_custom_words_version ON custom_words(from_version)",
    """CREATE TABLE custom_word_reefs (
        custom_word_id       INTEGER NOT NULL REFERENCES custom_words(id) ON DELETE CASCADE,
        reef_id              INTEGER NOT NULL,
        bm25_q               INTEGER NOT NULL,   -- bm25 * 8192, u16
        association_strength REAL NOT NULL,      -- 0..1
        PRIMARY KEY (custom_word_id, reef_id)
    ) WITHOUT ROWID""",
)

EVIDENCE = (
    # One row per text of the discover stage. It belongs to the content, not to a row of documents, because it
    # exists before the document is stored.
    """CREATE TABLE observed_documents (
        id            INTEGER PRIMARY KEY AUTOINCREMENT,
        content_hash  TEXT NOT NULL,
        job_id        INTEGER NOT NULL,          -- the wave that learns from it
        wave          INTEGER NOT NULL,
        state         TEXT NOT NULL,             -- 'pending' (not in the sums), 'learned' (in the sums),
                                                 -- 'withdrawn' (in the sums until the next learn),
                                                 -- 'removed' (no longer in the sums)
        stored        INTEGER NOT NULL,          -- 1: a document with this content is stored
        basis         TEXT NOT NULL,             -- build of lagoon's data and version of the discover stage;
                                                 -- only observations of one basis can be summed
        title         TEXT NOT NULL,             -- title, format, settings: input of the discover stage
        format        TEXT NOT NULL,
        settings      TEXT NOT NULL              -- JSON object
    )""",
    """CREATE UNIQUE INDEX idx_observed_documents_live ON observed_documents(content_hash)
        WHERE state IN ('pending', 'learned')""",
    """CREATE INDEX idx_observed_documents_open ON observed_documents(state, job_id, wave)
        WHERE state <> 'learned' OR stored = 0""",
    # Observations of a word in a document. Numbers are integers, so that sums do not depend on their order.
    """CREATE TABLE word_observations (
        observed_id   INTEGER NOT NULL REFERENCES observed_documents(id) ON DELETE CASCADE,
        kind          INTEGER NOT NULL,          -- 0: the document as a whole, 1: word, 2: compound
        word          TEXT NOT NULL,             -- '' for kind 0
        n_occurrences INTEGER NOT NULL,
        n_short       INTEGER NOT NULL,          -- of these, in short documents
        n_chunks      INTEGER NOT NULL,          -- chunks that contain the word
        parts         TEXT NOT NULL,             -- JSON array: counts for the significance of compounds
        context       TEXT NOT NULL,             -- JSON array: reef, sum, reef, sum...; fixed-point
        PRIMARY KEY (observed_id, kind, word)
    ) WITHOUT ROWID""",
    # The sums over all learned documents. The current row of a word has the greatest revision up to the
    # published one; greater revisions belong to an unfinished learn.
    """CREATE TABLE word_evidence (
        word          TEXT NOT NULL,
        kind          INTEGER NOT NULL,
        revision      INTEGER NOT NULL,
        n_occurrences INTEGER NOT NULL,          -- 0: no evidence remains for this word
        n_short       INTEGER NOT NULL,
        n_documents   INTEGER NOT NULL,
        n_chunks      INTEGER NOT NULL,
        parts         TEXT NOT NULL,
        context       TEXT NOT NULL,
        PRIMARY KEY (word, kind, revision)
    ) WITHOUT ROWID""",
    # One row.
    """CREATE TABLE learning (
        id        INTEGER PRIMARY KEY CHECK (id = 1),
        revision  INTEGER NOT NULL,              -- published revision of word_evidence
        basis     TEXT,                          -- basis of word_evidence; NULL: the sums are invalid
        learner   TEXT                           -- owner that writes the next revision; NULL: none
    )""",
    "INSERT INTO learning (id, revision, basis, learner) VALUES (1, 0, NULL, NULL)",
)

SCORING = (
    # Chunk boundaries of the discover stage: JSON array of the numbers of the sentences that begin a chunk.
    # Deleted with the item's text.
    """CREATE TABLE job_item_cuts (
        item_id  INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
        cuts     TEXT NOT NULL
    )""",
    # The last rescoring of each document; processes with postings in memory reload these documents.
    """CREATE TABLE rescored_documents (
        revision     INTEGER PRIMARY KEY AUTOINCREMENT,
        document_id  INTEGER NOT NULL UNIQUE
    )""",
    # The process that runs a local job without the service, which ends with it; NULL: the workers run the
    # job.
    "ALTER TABLE jobs ADD COLUMN local_owner TEXT",
)


def upgrade() -> None:
    for statement in (*REPLACED, *WORDS, *EVIDENCE, *SCORING):
        op.get_bind().exec_driver_sql(statement)
