"""Tables for documents, sections, chunks and their reefs, the vocabulary, and jobs."""

from alembic import op

revision = "0001"
down_revision = None

DOCUMENTS = (
    # content is the decoded text with unchanged newlines; all offsets below count its code points.
    """CREATE TABLE documents (
        id            INTEGER PRIMARY KEY AUTOINCREMENT,
        title         TEXT NOT NULL,
        source_path   TEXT,
        content_hash  TEXT NOT NULL UNIQUE,      -- SHA-256 (hex) of the content's UTF-8
        format        TEXT NOT NULL,             -- 'markdown' or 'plaintext'
        n_bytes       INTEGER NOT NULL,          -- of the content's UTF-8
        n_chunks      INTEGER NOT NULL,
        n_sentences   INTEGER NOT NULL,
        coverage      REAL NOT NULL,             -- known words / words, 0..1
        report        TEXT NOT NULL DEFAULT '{}', -- JSON: left_out spans, warnings
        created_at    TEXT NOT NULL,
        updated_at    TEXT NOT NULL,
        metadata      TEXT NOT NULL DEFAULT '{}',
        content       TEXT NOT NULL              -- last, so that listings do not read it
    )""",
    "CREATE INDEX idx_documents_source_path ON documents(source_path)",
    """CREATE TABLE document_tags (
        document_id   INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
        tag           TEXT NOT NULL,
        PRIMARY KEY (document_id, tag)
    )""",
    "CREATE INDEX idx_document_tags_tag ON document_tags(tag)",
    """CREATE TABLE sections (
        id            INTEGER PRIMARY KEY AUTOINCREMENT,
        document_id   INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
        section_index INTEGER NOT NULL,
        level         INTEGER NOT NULL,          -- 1..6, 0 for text before the first heading
        path          TEXT NOT NULL,             -- JSON array of headings, outermost first
        heading_start INTEGER NOT NULL,
        heading_end   INTEGER NOT NULL,          -- equal to heading_start if there is no heading
        start_char    INTEGER NOT NULL,          -- of the body
        end_char      INTEGER NOT NULL,
        UNIQUE (document_id, section_index)
    )""",
)

CHUNKS = (
    """CREATE TABLE chunks (
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
        top_reef_id     INTEGER,                 -- NULL: no known word
        top_reef_name   TEXT,
        arch_score_0    REAL NOT NULL,           -- natural sciences & taxonomy
        arch_score_1    REAL NOT NULL,           -- physical world & materiality
        arch_score_2    REAL NOT NULL,           -- abstract processes & systems
        arch_score_3    REAL NOT NULL,           -- social order & assessment
        norm            REAL NOT NULL,           -- Euclidean, over the stored z-scores
        vocabulary_version INTEGER NOT NULL,     -- scored with this vocabulary
        data_checksum   TEXT NOT NULL,           -- scored with this build of lagoon's data
        metadata        TEXT NOT NULL DEFAULT '{}',
        text            TEXT NOT NULL,           -- content[start_char:end_char]; last: filters skip it
        UNIQUE (document_id, chunk_index)
    )""",
    # For the cascade when a section is deleted.
    "CREATE INDEX idx_chunks_section_id ON chunks(section_id)",
    "CREATE INDEX idx_chunks_top_reef_id ON chunks(top_reef_id)",
    "CREATE INDEX idx_chunks_confidence ON chunks(confidence)",
    "CREATE INDEX idx_chunks_staleness ON chunks(data_checksum, vocabulary_version)",
    # For explanations and ad-hoc SQL; in chunk order, so that ingestion appends.
    """CREATE TABLE chunk_reefs (
        chunk_id              INTEGER NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
        reef_id               INTEGER NOT NULL,
        reef_name             TEXT NOT NULL,
        z_score               REAL NOT NULL,
        raw_bm25              REAL NOT NULL,
        n_contributing_words  INTEGER NOT NULL,
        rank                  INTEGER NOT NULL,  -- 0: the strongest
        PRIMARY KEY (chunk_id, reef_id)
    ) WITHOUT ROWID""",
    # For retrieval: a query reads the rows of its reefs, each a contiguous range. The weights are integers,
    # because integer sums do not depend on the order of addition: equal scores are equal everywhere. No
    # foreign key: a cascade would scan every reef for each chunk. Code that deletes chunks deletes these rows
    # first, by the keys in chunk_reefs.
    """CREATE TABLE reef_postings (
        reef_id     INTEGER NOT NULL,
        chunk_id    INTEGER NOT NULL,
        weight      INTEGER NOT NULL,            -- z_score / norm, in millionths
        PRIMARY KEY (reef_id, chunk_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE chunk_islands (
        chunk_id              INTEGER NOT NULL REFERENCES chunks(id) ON DELETE CASCADE,
        island_id             INTEGER NOT NULL,
        island_name           TEXT NOT NULL,
        aggregate_z           REAL NOT NULL,
        n_contributing_reefs  INTEGER NOT NULL,
        PRIMARY KEY (chunk_id, island_id)
    ) WITHOUT ROWID""",
    # The full-text index stores no copy of the text: it reads this view.
    """CREATE VIEW chunk_texts AS
        SELECT c.id AS chunk_id, c.document_id AS document_id, d.title AS title,
               s.path AS headings, c.text AS text
        FROM chunks c
        JOIN documents d ON d.id = c.document_id
        JOIN sections s ON s.id = c.section_id""",
    """CREATE VIRTUAL TABLE chunk_fts USING fts5(
        title, headings, text,
        content = 'chunk_texts', content_rowid = 'chunk_id',
        tokenize = 'porter unicode61 remove_diacritics 2'
    )""",
)

VOCABULARY = (
    """CREATE TABLE vocabulary_versions (
        version       INTEGER PRIMARY KEY,
        created_at    TEXT NOT NULL,
        job_id        INTEGER,
        wave          INTEGER,
        n_words       INTEGER NOT NULL           -- number of custom words at this version
    )""",
    # A row is valid from its from_version until the next row of the same word. Rows are never updated.
    """CREATE TABLE custom_words (
        id            INTEGER PRIMARY KEY AUTOINCREMENT,
        word          TEXT NOT NULL,
        from_version  INTEGER NOT NULL REFERENCES vocabulary_versions(version),
        retired       INTEGER NOT NULL DEFAULT 0, -- 1: the word is unknown from this version on
        word_hash     INTEGER NOT NULL,          -- the 64 bits of FNV-1a, read as signed
        word_id       INTEGER NOT NULL,
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
    """CREATE TABLE custom_word_reefs (
        custom_word_id       INTEGER NOT NULL REFERENCES custom_words(id) ON DELETE CASCADE,
        reef_id              INTEGER NOT NULL,
        bm25_q               INTEGER NOT NULL,   -- bm25 * 8192, u16
        association_strength REAL NOT NULL,      -- 0..1
        PRIMARY KEY (custom_word_id, reef_id)
    ) WITHOUT ROWID""",
    # One row per word and text. It belongs to the content, not to a row of documents, because it is written
    # before the document is stored. Sums are fixed-point integers, so their order does not matter.
    """CREATE TABLE word_observations (
        word          TEXT NOT NULL,
        content_hash  TEXT NOT NULL,
        job_id        INTEGER NOT NULL,
        wave          INTEGER NOT NULL,
        n_occurrences INTEGER NOT NULL,
        context_reefs TEXT NOT NULL,             -- JSON: [{"reef_id", "z_sum", "weight_sum"}, ...]
        PRIMARY KEY (word, content_hash)
    ) WITHOUT ROWID""",
    "CREATE INDEX idx_word_observations_content ON word_observations(content_hash)",
    "CREATE INDEX idx_word_observations_wave ON word_observations(job_id, wave)",
    (
        "INSERT INTO vocabulary_versions (version, created_at, n_words) "
        "VALUES (0, '1970-01-01T00:00:00.000Z', 0)"
    ),
)

JOBS = (
    """CREATE TABLE jobs (
        id              INTEGER PRIMARY KEY AUTOINCREMENT,
        kind            TEXT NOT NULL,           -- 'ingest', 'delete'
        status          TEXT NOT NULL,           -- 'receiving' during the upload, then as in the API
        stage           TEXT,                    -- while processing: 'discover', 'learn', 'score', 'delete'
        plan            TEXT NOT NULL,           -- JSON array: the stages of every wave
        total           INTEGER NOT NULL DEFAULT 0,
        n_succeeded     INTEGER NOT NULL DEFAULT 0,
        n_failed        INTEGER NOT NULL DEFAULT 0,
        n_duplicate     INTEGER NOT NULL DEFAULT 0,
        n_canceled      INTEGER NOT NULL DEFAULT 0,
        bytes_total     INTEGER NOT NULL DEFAULT 0,
        bytes_done      INTEGER NOT NULL DEFAULT 0,
        error           TEXT,
        idempotency_key TEXT UNIQUE,
        request_hash    TEXT,                    -- hash of the body that was sent with the idempotency key
        created_at      TEXT NOT NULL,
        updated_at      TEXT NOT NULL,
        started_at      TEXT,
        finished_at     TEXT,
        revision        INTEGER NOT NULL DEFAULT 0, -- increases with every change; the ETag
        last_claim      REAL NOT NULL DEFAULT 0, -- seconds since the epoch; for fair order between jobs
        received_at     REAL NOT NULL DEFAULT 0  -- last progress of an upload, seconds since the epoch
    )""",
    "CREATE INDEX idx_jobs_status ON jobs(status)",
    """CREATE TABLE waves (
        job_id             INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
        n                  INTEGER NOT NULL,
        stage              TEXT NOT NULL,        -- a stage of the plan, or 'done'
        total              INTEGER NOT NULL,
        pending            INTEGER NOT NULL,     -- items that have not finished this stage
        bytes              INTEGER NOT NULL,
        vocabulary_version INTEGER,              -- produced by its learn stage; its items are scored with it
        attempts           INTEGER NOT NULL DEFAULT 0,
        lease_owner        TEXT,                 -- owner of the learn stage
        lease_expires_at   REAL,
        nudged_at          REAL NOT NULL DEFAULT 0, -- time of the last message for its stage
        PRIMARY KEY (job_id, n)
    )""",
    "CREATE INDEX idx_waves_open ON waves(stage) WHERE stage <> 'done'",
    """CREATE TABLE job_items (
        id               INTEGER PRIMARY KEY AUTOINCREMENT,
        job_id           INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
        seq              INTEGER NOT NULL,       -- 0-based position in the upload
        wave             INTEGER NOT NULL,
        title            TEXT NOT NULL,
        source_path      TEXT,
        format           TEXT NOT NULL,
        tags             TEXT NOT NULL DEFAULT '[]',
        metadata         TEXT NOT NULL DEFAULT '{}',
        warnings         TEXT NOT NULL DEFAULT '[]', -- JSON array: warnings about the text, from its decoding
        n_bytes          INTEGER NOT NULL,
        content_hash     TEXT,                   -- NULL if the item was refused on arrival
        status           TEXT NOT NULL,
        attempts         INTEGER NOT NULL DEFAULT 0, -- crashes while the item ran alone
        alone            INTEGER NOT NULL DEFAULT 0, -- 1: runs alone, because its batch lost its lease
        lease_owner      TEXT,
        lease_expires_at REAL,
        document_id      INTEGER,                -- the resulting document, or the document it duplicates
        error            TEXT,
        updated_at       TEXT NOT NULL,
        UNIQUE (job_id, seq)
    )""",
    "CREATE INDEX idx_job_items_status ON job_items(job_id, status, seq)",
    """CREATE INDEX idx_job_items_open ON job_items(status, job_id, wave, seq)
        WHERE status IN ('enqueued', 'discovering', 'discovered', 'scoring')""",
    """CREATE INDEX idx_job_items_same ON job_items(content_hash, job_id, seq)
        WHERE status IN ('enqueued', 'discovering', 'discovered', 'scoring')""",
    # The text of accepted items that are not stored as documents yet; deleted when the item ends.
    """CREATE TABLE job_item_contents (
        item_id  INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
        content  TEXT NOT NULL
    )""",
    """CREATE TABLE workers (
        name        TEXT PRIMARY KEY,
        hostname    TEXT NOT NULL,
        pid         INTEGER NOT NULL,
        processes   INTEGER NOT NULL,
        version     TEXT NOT NULL,
        started_at  TEXT NOT NULL,
        seen_at     REAL NOT NULL                -- seconds since the epoch
    )""",
)


def upgrade() -> None:
    for statement in (*DOCUMENTS, *CHUNKS, *VOCABULARY, *JOBS):
        op.get_bind().exec_driver_sql(statement)
