-- The tables, indexes and rows of an empty library, in SQLite's SQL. `shoal/storage/revisions.py` translates the types
-- for PostgreSQL; what else differs is in the file of each store.

CREATE TABLE schema_revision (
    revision  TEXT NOT NULL PRIMARY KEY      -- the number of the last file in `migrations/` that was applied
);

-- Documents, their passages, files and vectors, and the index

CREATE TABLE documents (
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
    text_after    TEXT NOT NULL DEFAULT '',  -- behind the last chunk
    chunk_tokens  TEXT NOT NULL DEFAULT 'any', -- any, a range of tokens such as 300-800, or given
    passages      TEXT,                      -- JSON: [start_char, end_char, [heading, ...], unit, first, last]
                                             -- of each; NULL unless they are given
    text_hash     TEXT                       -- SHA-256 (hex) of the content's UTF-8 alone; NULL if
                                             -- content_hash is that
);
CREATE INDEX idx_documents_text_hash ON documents(text_hash) WHERE text_hash IS NOT NULL;

CREATE TABLE document_tags (
    document_id   INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    tag           TEXT NOT NULL,
    PRIMARY KEY (document_id, tag)
);
CREATE INDEX idx_document_tags_tag ON document_tags(tag, document_id);

CREATE TABLE sections (
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
);

CREATE TABLE reefs (
    data_checksum   TEXT NOT NULL,           -- of the build of lagoon's data that numbers the reefs
    reef_id         INTEGER NOT NULL,
    reef_name       TEXT NOT NULL,
    island_id       INTEGER,                 -- NULL: not known any more
    island_name     TEXT,
    island_scale    REAL,                    -- 1 / square root of the number of the island's reefs
    PRIMARY KEY (data_checksum, reef_id)
) WITHOUT ROWID;

CREATE TABLE chunks (
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
    metadata        TEXT NOT NULL DEFAULT '{}',
    profile         BLOB NOT NULL,           -- 7 bytes per reef, strongest first; see chunk_reefs
    text            TEXT NOT NULL,           -- content[start_char:end_char]; last: filters skip it
    text_before     TEXT NOT NULL DEFAULT '', -- between the end of the chunk before and this one
    locator         TEXT,                    -- JSON: kind, name, first, last of the place in the file; NULL: of
                                             -- a document that was sent as text
    reef_ids        BLOB NOT NULL DEFAULT x'', -- the first byte of each record of `profile`
    UNIQUE (document_id, chunk_index)
);
CREATE INDEX idx_chunks_section_id ON chunks(section_id);
CREATE INDEX idx_chunks_confidence ON chunks(confidence);
CREATE INDEX idx_chunks_staleness ON chunks(data_checksum, vocabulary_version);
CREATE INDEX idx_chunks_top_reef ON chunks(top_reef_id, top_reef_probability);
CREATE INDEX idx_chunks_document_reefs ON chunks(document_id, top_reef_id, top_reef_probability);

CREATE TABLE ranks (rank INTEGER PRIMARY KEY);

CREATE TABLE all_bytes (bytes BLOB NOT NULL);

CREATE TABLE document_files (
    document_id INTEGER PRIMARY KEY REFERENCES documents(id) ON DELETE CASCADE,
    kind        TEXT NOT NULL,           -- such as 'pdf'
    name        TEXT NOT NULL,           -- of the file, without folders; may be empty
    file_hash   TEXT NOT NULL,           -- SHA-256 (hex) of the file
    n_bytes     INTEGER NOT NULL,        -- of the file
    converter   INTEGER NOT NULL,        -- version of the converters
    locators    TEXT NOT NULL,           -- JSON array: start_char, end_char, kind, name, first, last
    data        BLOB                     -- the file, if it is kept
);
CREATE INDEX idx_document_files_hash ON document_files(file_hash);

CREATE TABLE fetched_pages (
    url           TEXT PRIMARY KEY,
    document_id   INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    content_hash  TEXT NOT NULL,           -- of the document; other content came from elsewhere
    converter     INTEGER NOT NULL,        -- version of the converters
    etag          TEXT,                    -- as the server sent it
    last_modified TEXT,                    -- as the server sent it
    checked_at    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_fetched_pages_document ON fetched_pages(document_id);

CREATE TABLE file_stamps (
    path        TEXT PRIMARY KEY,        -- absolute, in the form of a source path
    size        INTEGER NOT NULL,        -- bytes
    mtime_ns    INTEGER NOT NULL,        -- time of its last modification, nanoseconds since the epoch
    ctime_ns    INTEGER NOT NULL,        -- time of the last change of content, name or rights
    basis       TEXT NOT NULL,           -- what its hash depends on besides: version and settings
    file_hash   TEXT NOT NULL            -- SHA-256 (hex) of its text, or of a file to convert
) WITHOUT ROWID;

CREATE TABLE vector_encoder (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    name       TEXT NOT NULL,
    revision   TEXT NOT NULL,
    dimension  INTEGER NOT NULL,
    epoch      TEXT NOT NULL             -- random; another one each time that all vectors are made anew
);

CREATE TABLE chunk_vectors (
    chunk_id   INTEGER PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE,
    text_hash  INTEGER NOT NULL,         -- 64 bits of the BLAKE2b of the embedded text
    vector     BLOB NOT NULL             -- quantised (`shoal.index.vectors`)
);
CREATE INDEX idx_chunk_vectors_text ON chunk_vectors(text_hash);

CREATE TABLE unindexed_vectors (
    chunk_id   INTEGER PRIMARY KEY REFERENCES chunk_vectors(chunk_id) ON DELETE CASCADE,
    revision   INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE imported_vectors (
    text_hash  BLOB PRIMARY KEY,         -- 128 bits of the BLAKE2b of the embedded text
    vector     BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE library_totals (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    n_documents   INTEGER NOT NULL,
    n_chunks      INTEGER NOT NULL,
    content_bytes INTEGER NOT NULL           -- UTF-8
);

CREATE TABLE tag_totals (
    tag           TEXT PRIMARY KEY,
    n_documents   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_tag_totals_frequent ON tag_totals(n_documents DESC, tag);

CREATE TABLE reef_totals (
    reef_id       INTEGER NOT NULL,
    percent       INTEGER NOT NULL,          -- probability of the label, rounded down
    n_chunks      INTEGER NOT NULL,
    PRIMARY KEY (reef_id, percent)
) WITHOUT ROWID;

CREATE TABLE index_segments (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    revision     INTEGER NOT NULL,       -- it holds its documents as they were at this revision
    n_documents  INTEGER NOT NULL,
    n_chunks     INTEGER NOT NULL,
    n_bytes      INTEGER NOT NULL,
    file_name    TEXT NOT NULL,          -- in the folder of the index, never used again
    vectors_file TEXT                    -- NULL: no chunk of it has a vector, or none was looked for
);

CREATE TABLE changed_documents (
    document_id  INTEGER PRIMARY KEY,    -- also of deleted documents
    revision     INTEGER NOT NULL,       -- of the change; older segments hold an outdated state
    is_indexed   INTEGER NOT NULL,       -- 1: a segment holds the new state, or the document was deleted
    changed_at   REAL NOT NULL DEFAULT 0 -- seconds since the epoch, by the store's clock
);
CREATE INDEX idx_changed_documents_open ON changed_documents(document_id) WHERE is_indexed = 0;

CREATE TABLE index_state (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    revision        INTEGER NOT NULL,    -- increases with every change of a document or segment
    epoch           TEXT NOT NULL DEFAULT '', -- random; another one when everything is to be indexed again
    pruned_revision INTEGER NOT NULL DEFAULT 0, -- deletions up to this revision are no longer noted
    vectors_reset   INTEGER NOT NULL DEFAULT 0 -- files of vectors written before it hold none that count
);

CREATE TABLE field_state (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    revision  INTEGER NOT NULL           -- increases with every document stored, changed or deleted
);

CREATE TABLE changed_fields (
    document_id  INTEGER PRIMARY KEY,
    revision     INTEGER NOT NULL        -- of the last change
);
CREATE INDEX idx_changed_fields_revision ON changed_fields(revision);

-- Learned words, what they are learned from, synonyms and acronyms

CREATE TABLE vocabulary_versions (
    version       INTEGER PRIMARY KEY,
    created_at    TEXT NOT NULL,
    job_id        INTEGER,
    wave          INTEGER,
    n_words       INTEGER NOT NULL,          -- number of custom words at this version
    data_checksum TEXT                       -- NULL: no words, so the version fits any data
);

CREATE TABLE custom_words (
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
);
CREATE INDEX idx_custom_words_version ON custom_words(from_version);
CREATE INDEX idx_custom_words_frequent ON custom_words(n_occurrences DESC, word, from_version)
    WHERE retired = 0;

CREATE TABLE word_reefs (
    custom_word_id  INTEGER NOT NULL REFERENCES custom_words(id) ON DELETE CASCADE,
    reef_id         INTEGER NOT NULL,
    bm25_q          INTEGER NOT NULL,        -- bm25 * 8192, u16
    association_strength REAL NOT NULL,      -- 0..1
    probability     REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (custom_word_id, reef_id)
) WITHOUT ROWID;

CREATE VIEW custom_word_reefs AS
    SELECT w.word_id, r.reef_id, r.bm25_q, r.association_strength, r.probability
    FROM custom_words w
    JOIN word_reefs r ON r.custom_word_id = w.id
    WHERE w.retired = 0                      -- the newest version alone
      AND w.from_version = (
        SELECT MAX(v.from_version) FROM custom_words v
        WHERE v.word = w.word
          AND v.from_version <= (SELECT MAX(p.version) FROM vocabulary_versions p));

CREATE TABLE observed_documents (
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
);
CREATE UNIQUE INDEX idx_observed_documents_live ON observed_documents(content_hash)
    WHERE state IN ('pending', 'learned');
CREATE INDEX idx_observed_documents_open ON observed_documents(state, job_id, wave)
    WHERE state <> 'learned' OR stored = 0;

CREATE TABLE observed_words (
    observed_id   INTEGER NOT NULL REFERENCES observed_documents(id) ON DELETE CASCADE,
    kind          INTEGER NOT NULL,          -- 0: the document as a whole, 1: word, 2: compound
    word          TEXT NOT NULL,             -- '' for kind 0
    n_occurrences INTEGER NOT NULL,
    n_short       INTEGER NOT NULL,          -- of these, in short documents
    n_chunks      INTEGER NOT NULL,          -- chunks that contain the word
    parts         TEXT NOT NULL,             -- JSON array: counts for the significance of compounds
    context       BLOB NOT NULL,             -- sums by reef (`shoal/storage/column_values.py`)
    PRIMARY KEY (observed_id, kind, word)
) WITHOUT ROWID;

CREATE TABLE learning (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    revision  INTEGER NOT NULL,              -- published revision of word_evidence
    basis     TEXT,                          -- basis of word_evidence; NULL: the sums are invalid
    learner   TEXT                           -- owner that writes the next revision; NULL: none
);

CREATE TABLE word_evidence (
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
) WITHOUT ROWID;

CREATE TABLE document_words (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- increases with every change
    document_id    INTEGER NOT NULL UNIQUE,
    data_checksum  TEXT NOT NULL,          -- of the build of lagoon's data that does not know the words
    unknown_words  BLOB                    -- u32: chunks, keys of each, keys; NULL: not known
);

CREATE TABLE stale_documents (
    document_id    INTEGER PRIMARY KEY,
    n_chunks       INTEGER NOT NULL,       -- stale ones
    chunks         BLOB NOT NULL           -- a bit for each chunk, in order: 1 if it is stale
);

CREATE TABLE stale_totals (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    n_chunks       INTEGER NOT NULL
);

CREATE TABLE rescore_state (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    n_changes      INTEGER NOT NULL,       -- of titles, formats and contents of documents, so far
    changes        INTEGER,                -- n_changes at the beginning of the last rescore
    revision       INTEGER,                -- of the evidence that all words were decided by
    source         TEXT                    -- data and settings that they were decided with
);

CREATE TABLE synonyms (
    id          INTEGER PRIMARY KEY,
    root        TEXT,                    -- NULL: each of the words also finds the others
    words       TEXT NOT NULL,           -- JSON list, as typed; without the root
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL
);

CREATE TABLE synonym_words (
    key         TEXT NOT NULL,
    synonym_id  INTEGER NOT NULL REFERENCES synonyms(id) ON DELETE CASCADE,
    is_source   INTEGER NOT NULL,        -- whether it finds the others
    PRIMARY KEY (key, synonym_id)
) WITHOUT ROWID;
CREATE INDEX idx_synonym_words_synonym ON synonym_words(synonym_id);

CREATE TABLE acronyms (
    id           INTEGER PRIMARY KEY,
    acronym      TEXT NOT NULL,
    expansion    TEXT NOT NULL,          -- as in the first text
    key          TEXT NOT NULL UNIQUE,   -- the acronym and the stems of the expansion
    status       TEXT NOT NULL CHECK (status IN ('proposed', 'confirmed', 'rejected')),
    synonym_id   INTEGER REFERENCES synonyms(id) ON DELETE SET NULL,
    n_documents  INTEGER NOT NULL DEFAULT 0,
    created_at   TEXT NOT NULL,
    decided_at   TEXT
);
CREATE INDEX idx_acronyms_documents ON acronyms(status, n_documents DESC, acronym);
CREATE INDEX idx_acronyms_synonym ON acronyms(synonym_id) WHERE synonym_id IS NOT NULL;

CREATE TABLE acronym_documents (
    acronym_id   INTEGER NOT NULL REFERENCES acronyms(id) ON DELETE CASCADE,
    document_id  INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    start_char   INTEGER NOT NULL,       -- of the first place in the content
    end_char     INTEGER NOT NULL,
    PRIMARY KEY (acronym_id, document_id)
) WITHOUT ROWID;
CREATE INDEX idx_acronym_documents_document ON acronym_documents(document_id);

CREATE TABLE acronym_scans (
    document_id   INTEGER PRIMARY KEY REFERENCES documents(id) ON DELETE CASCADE,
    content_hash  TEXT NOT NULL
);

-- Jobs

CREATE TABLE jobs (
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
    received_at     REAL NOT NULL DEFAULT 0, -- last progress of an upload, seconds since the epoch
    local_owner     TEXT,                    -- the process that runs it without the service, and ends with it;
                                                 -- NULL: the workers run it
    n_skipped       INTEGER NOT NULL DEFAULT 0, -- entries of an archive that are not documents
    trace_id        TEXT,                    -- NULL: the job was created without a request
    n_changes       INTEGER,                 -- of a rescore: that of rescore_state when it was submitted
    parked          INTEGER NOT NULL DEFAULT 0  -- 0: a claim looks at the job; 1: it holds no work until it
                                                 -- changes; 2: nor but for its turn to learn
);
CREATE INDEX idx_jobs_status ON jobs(status);
CREATE INDEX idx_jobs_in_turn ON jobs(parked, (kind = 'embed'), last_claim, id)
    WHERE status IN ('enqueued', 'processing') AND local_owner IS NULL;

CREATE TABLE waves (
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
    notified_at        REAL NOT NULL DEFAULT 0, -- time of the last message for its stage
    PRIMARY KEY (job_id, n)
);
CREATE INDEX idx_waves_open ON waves(stage) WHERE stage <> 'done';
CREATE INDEX idx_waves_of_job ON waves(job_id, stage, n) WHERE stage <> 'done';
CREATE INDEX idx_waves_leased ON waves(stage) WHERE stage <> 'done' AND lease_owner IS NOT NULL;
CREATE INDEX idx_waves_version ON waves(job_id, vocabulary_version)
    WHERE vocabulary_version IS NOT NULL;

CREATE TABLE job_items (
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
    interruptions    INTEGER NOT NULL DEFAULT 0, -- 1 for a lost worker, 10 if it died with this item alone
    error_code       TEXT,
    by_path          INTEGER NOT NULL DEFAULT 0, -- 1: it replaces the document with its source path
    retry_at         REAL,                   -- seconds since the epoch; NULL: can be claimed at any time
    stage_share      REAL,                   -- of the stage that works on it, 0..1; NULL: unknown
    waits_for        INTEGER,                -- the open item that must end, or pass its stage, first
    chunk_tokens     TEXT NOT NULL DEFAULT 'any', -- as in documents
    UNIQUE (job_id, seq)
);
CREATE INDEX idx_job_items_status ON job_items(job_id, status, seq);
CREATE INDEX idx_job_items_same ON job_items(content_hash, job_id, seq)
    WHERE status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_replacing ON job_items(document_id, job_id, seq)
    WHERE content_hash IS NOT NULL AND document_id IS NOT NULL
      AND status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_open ON job_items(status, job_id, wave, seq, n_bytes)
    WHERE status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_ready ON job_items(job_id, wave, status, seq)
    WHERE status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring')
      AND lease_owner IS NULL AND waits_for IS NULL AND retry_at IS NULL;
CREATE INDEX idx_job_items_waiting ON job_items(waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX idx_job_items_due ON job_items(retry_at) WHERE retry_at IS NOT NULL;

CREATE TABLE job_item_contents (
    item_id  INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
    content  TEXT NOT NULL,
    passages TEXT                            -- as in documents
);

CREATE TABLE job_item_files (
    item_id     INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
    kind        TEXT NOT NULL,           -- such as 'pdf'
    name        TEXT NOT NULL,           -- of the file, without folders; may be empty
    title       TEXT,                    -- as submitted; NULL: from the file
    source      TEXT,                    -- JSON: the file and its locators; NULL: not converted yet
    data        BLOB                     -- NULL: converted elsewhere; last: others skip it
);

CREATE TABLE job_item_cuts (
    item_id  INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
    cuts     TEXT NOT NULL,                  -- JSON array: offsets of the chunks
    document BLOB                            -- `shoal/chunking/packed_documents.py`; NULL: the text is
                                             -- read again
);

CREATE TABLE job_item_responses (
    item_id       INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
    etag          TEXT,                    -- as the server sent it
    last_modified TEXT                     -- as the server sent it
);

CREATE TABLE workers (
    name        TEXT PRIMARY KEY,
    hostname    TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    processes   INTEGER NOT NULL,
    version     TEXT NOT NULL,
    started_at  TEXT NOT NULL,
    seen_at     REAL NOT NULL                -- seconds since the epoch
);

CREATE TABLE counters (
    name   TEXT NOT NULL,
    label  TEXT NOT NULL,
    value  REAL NOT NULL,
    PRIMARY KEY (name, label)
) WITHOUT ROWID;

-- Notes of agents

CREATE TABLE note_changes (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    last  INTEGER NOT NULL                     -- the number of the last change of any note
);

CREATE TABLE notes (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    owner             TEXT NOT NULL,           -- who may read and change it
    kind              TEXT NOT NULL,           -- lesson, atom, knowledge
    title             TEXT NOT NULL,           -- may be empty
    text              TEXT NOT NULL,
    text_hash         TEXT NOT NULL,           -- SHA-256 of the normalized text
    domain            TEXT NOT NULL,           -- of an atom; may be empty
    source            TEXT NOT NULL,           -- manual, agent, extraction, import
    metadata          TEXT NOT NULL,           -- JSON object
    prerequisites     TEXT NOT NULL,           -- JSON object of arrays: os, repos, paths, ...
    verified          INTEGER NOT NULL,        -- 1: a person or a second source confirmed it
    pinned_by         TEXT,                    -- person, tags, relevance; NULL: not pinned
    pin_tags          TEXT NOT NULL,           -- JSON array: the pin counts where all of these hold
    occurrence_count  INTEGER NOT NULL,        -- how often it was submitted
    times_matched     INTEGER NOT NULL,
    last_matched      TEXT,
    deprecated_at     TEXT,                    -- NULL: active
    deprecated_reason TEXT,
    merged_into       INTEGER,                 -- the note that absorbed it
    dedup_verified    INTEGER NOT NULL,        -- 0: to be compared with others, 1: compared
    dedup_attempts    INTEGER NOT NULL,
    dedup_last_error  TEXT,
    profile           BLOB NOT NULL,           -- packed like that of a chunk
    words             BLOB NOT NULL,           -- the stems of title and text, for searches
    data_checksum     TEXT NOT NULL,           -- of the data it was scored with
    vocabulary_version INTEGER NOT NULL,
    change_number     INTEGER NOT NULL,        -- of its last change
    created_at        TEXT NOT NULL,
    updated_at        TEXT NOT NULL
);
CREATE UNIQUE INDEX idx_notes_changes ON notes(owner, change_number);
CREATE INDEX idx_notes_hash ON notes(owner, text_hash);
CREATE INDEX idx_notes_dedup ON notes(owner, deprecated_at, dedup_verified, id);
CREATE INDEX idx_notes_scored ON notes(vocabulary_version, data_checksum);
CREATE INDEX idx_notes_pinned ON notes(owner, id) WHERE pinned_by IS NOT NULL AND deprecated_at IS NULL;

CREATE TABLE note_owners (
    owner             TEXT PRIMARY KEY,
    n_active          INTEGER NOT NULL,
    n_deprecated      INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE note_tags (
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    tag               TEXT NOT NULL,
    PRIMARY KEY (note_id, tag)
) WITHOUT ROWID;

CREATE TABLE note_categories (
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    path              TEXT NOT NULL,           -- such as 'build/docker'
    PRIMARY KEY (note_id, path)
) WITHOUT ROWID;

CREATE TABLE note_sources (
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    session_id        TEXT NOT NULL,           -- a session that submitted the note
    PRIMARY KEY (note_id, session_id)
) WITHOUT ROWID;

CREATE TABLE note_repo_matches (
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    repo              TEXT NOT NULL,
    n_matches         INTEGER NOT NULL,
    PRIMARY KEY (note_id, repo)
) WITHOUT ROWID;

CREATE TABLE note_tag_set_matches (
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    tag_set           TEXT NOT NULL,           -- JSON array of sorted tags
    n_matches         INTEGER NOT NULL,
    PRIMARY KEY (note_id, tag_set)
) WITHOUT ROWID;

CREATE TABLE note_tag_relevance (
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    tag               TEXT NOT NULL,
    score             REAL NOT NULL,           -- -1 to 1, a moving average
    n_positive        INTEGER NOT NULL,
    n_negative        INTEGER NOT NULL,
    PRIMARY KEY (note_id, tag)
) WITHOUT ROWID;

CREATE TABLE note_feedback (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    session_id        TEXT NOT NULL,           -- may be empty
    is_applicable     INTEGER NOT NULL,
    reason            TEXT NOT NULL,
    tag_scores        TEXT NOT NULL,           -- JSON object: -1 to 1 by tag
    created_at        TEXT NOT NULL
);
CREATE INDEX idx_note_feedback_note ON note_feedback(note_id, id);

CREATE TABLE note_history (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    action            TEXT NOT NULL,           -- such as updated, deprecated, pinned, merged
    before            TEXT NOT NULL,           -- JSON object: the fields that changed, as they were
    created_at        TEXT NOT NULL
);
CREATE INDEX idx_note_history_note ON note_history(note_id, id);

CREATE TABLE agent_sessions (
    owner             TEXT NOT NULL,
    session_id        TEXT NOT NULL,
    repo              TEXT NOT NULL,           -- may be empty
    tags              TEXT NOT NULL,           -- JSON array: of the environment
    transcript_path   TEXT NOT NULL,           -- may be empty
    transcript_offset INTEGER NOT NULL,        -- bytes of the transcript whose lessons are extracted
    waiting_since     TEXT,                    -- the transcript has more to extract; NULL: it has not
    extract_attempts  INTEGER NOT NULL,
    extract_error     TEXT,
    retry_at          TEXT,                    -- after a failure: not before this time
    created_at        TEXT NOT NULL,
    updated_at        TEXT NOT NULL,
    PRIMARY KEY (owner, session_id)
) WITHOUT ROWID;
CREATE INDEX idx_agent_sessions_waiting ON agent_sessions(waiting_since)
    WHERE waiting_since IS NOT NULL;
CREATE INDEX idx_agent_sessions_updated ON agent_sessions(updated_at);

CREATE TABLE chat_requests (
    day               TEXT PRIMARY KEY,
    n_requests        INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE shown_notes (
    owner             TEXT NOT NULL,
    session_id        TEXT NOT NULL,
    note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
    event             TEXT NOT NULL,           -- the hook that showed it first
    shown_at          TEXT NOT NULL,
    PRIMARY KEY (owner, session_id, note_id)
) WITHOUT ROWID;
CREATE INDEX idx_shown_notes_note ON shown_notes(note_id);
CREATE INDEX idx_shown_notes_shown ON shown_notes(shown_at);

CREATE TABLE hook_events (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    owner             TEXT NOT NULL,
    session_id        TEXT NOT NULL,
    event             TEXT NOT NULL,           -- session-start, prompt, tool-use, stop
    note_ids          TEXT NOT NULL,           -- JSON array: shown
    context           TEXT NOT NULL,           -- what was searched for, shortened
    created_at        TEXT NOT NULL
);
CREATE INDEX idx_hook_events_owner ON hook_events(owner, id);
CREATE INDEX idx_hook_events_session ON hook_events(owner, session_id);

CREATE TABLE note_merges (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    owner             TEXT NOT NULL,
    run_id            TEXT NOT NULL,
    survivor_id       INTEGER NOT NULL,
    absorbed_ids      TEXT NOT NULL,           -- JSON array
    canonical_text    TEXT NOT NULL,
    confidence        REAL NOT NULL,
    reason            TEXT NOT NULL,
    decided_by        TEXT NOT NULL,           -- person, agent, endpoint
    before            TEXT NOT NULL,           -- JSON: their rows as they were; {}: cannot be undone
    created_at        TEXT NOT NULL,
    undone_at         TEXT
);
CREATE INDEX idx_note_merges_owner ON note_merges(owner, id);

CREATE TABLE note_merge_notes (
    note_id           INTEGER NOT NULL,
    merge_id          INTEGER NOT NULL,
    PRIMARY KEY (note_id, merge_id)
) WITHOUT ROWID;

CREATE TABLE merge_proposals (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    owner             TEXT NOT NULL,
    note_ids          TEXT NOT NULL,           -- JSON array of sorted ids
    similarity        REAL NOT NULL,           -- 0 to 1, of the least similar pair
    is_opposite       INTEGER NOT NULL,        -- 1: the texts may contradict each other
    canonical_text    TEXT NOT NULL,           -- proposed; may be empty
    confidence        REAL,                    -- of an endpoint; NULL: nobody judged it
    reason            TEXT NOT NULL,
    status            TEXT NOT NULL,           -- open, merged, rejected, outdated
    created_at        TEXT NOT NULL,
    decided_at        TEXT
);
CREATE UNIQUE INDEX idx_merge_proposals_notes ON merge_proposals(owner, note_ids)
    WHERE status = 'open';
CREATE INDEX idx_merge_proposals_status ON merge_proposals(owner, status, id);

CREATE TABLE merge_proposal_notes (
    note_id           INTEGER NOT NULL,
    proposal_id       INTEGER NOT NULL,
    PRIMARY KEY (note_id, proposal_id)
) WITHOUT ROWID;

CREATE TABLE note_requests (
    idempotency_key TEXT PRIMARY KEY,
    request_hash    TEXT NOT NULL,           -- SHA-256 (hex)
    created_at      TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_note_requests_created ON note_requests(created_at);

CREATE TABLE note_request_outcomes (
    idempotency_key TEXT NOT NULL REFERENCES note_requests(idempotency_key) ON DELETE CASCADE,
    seq             INTEGER NOT NULL,        -- place of the note in the request, from 0
    outcome         TEXT NOT NULL,           -- JSON: its part of the answer
    PRIMARY KEY (idempotency_key, seq)
) WITHOUT ROWID;

CREATE TABLE note_category_totals (
    owner                TEXT NOT NULL,
    path                 TEXT NOT NULL,        -- a category of an active note, or one above it
    n_notes              INTEGER NOT NULL,     -- active notes in it
    n_with_subcategories INTEGER NOT NULL,     -- active notes in it or below it, each counted once
    PRIMARY KEY (owner, path)
) WITHOUT ROWID;

CREATE TABLE schedules (
    name            TEXT PRIMARY KEY,        -- dedup
    ran_at          TEXT NOT NULL,           -- when it was last done
    owner_after     TEXT NOT NULL            -- owners up to this one had their turn; empty: all had
) WITHOUT ROWID;

-- Searches that are kept: saved searches, queries, pins

CREATE TABLE saved_searches (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    name             TEXT NOT NULL UNIQUE,
    arguments        TEXT NOT NULL,          -- JSON: arguments of a search, `query` among them
    min_score        REAL NOT NULL,
    url              TEXT NOT NULL,          -- of the webhook
    secret           TEXT NOT NULL,          -- signs its requests
    is_active        INTEGER NOT NULL,
    evaluated        INTEGER NOT NULL,       -- number of the last evaluation
    error            TEXT,                   -- why the last evaluation was not possible
    revision         INTEGER NOT NULL DEFAULT 0,
    lease_owner      TEXT,
    lease_expires_at REAL NOT NULL DEFAULT 0,
    created_at       TEXT NOT NULL,
    updated_at       TEXT NOT NULL
);
CREATE INDEX idx_saved_searches_due ON saved_searches(evaluated) WHERE is_active = 1;

CREATE TABLE saved_search_state (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    evaluation  INTEGER NOT NULL             -- the number of the last evaluation
);

CREATE TABLE saved_search_changes (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    document_id    INTEGER NOT NULL,
    first_chunk_id INTEGER NOT NULL,
    last_chunk_id  INTEGER,                -- NULL while open
    job_id         INTEGER,                -- the last job that changed the document
    evaluation     INTEGER                 -- NULL while open
);
CREATE UNIQUE INDEX idx_saved_search_changes_open ON saved_search_changes(document_id)
    WHERE evaluation IS NULL;
CREATE INDEX idx_saved_search_changes_evaluation ON saved_search_changes(evaluation);

CREATE TABLE webhook_deliveries (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id      TEXT NOT NULL UNIQUE,   -- the same for every try
    saved_search_id  INTEGER NOT NULL REFERENCES saved_searches(id) ON DELETE CASCADE,
    event            TEXT NOT NULL,          -- 'match' or 'test'
    n_passages       INTEGER NOT NULL,
    body             TEXT NOT NULL,          -- JSON, as it is sent
    status           TEXT NOT NULL,          -- 'waiting', 'delivered', 'failed'
    attempts         INTEGER NOT NULL DEFAULT 0,
    due_at           REAL NOT NULL,          -- of the next try, seconds since the epoch
    lease_owner      TEXT,
    lease_expires_at REAL NOT NULL DEFAULT 0,
    response_status  INTEGER,                -- of the last try
    error            TEXT,                   -- of the last try
    created_at       TEXT NOT NULL,
    updated_at       TEXT NOT NULL
);
CREATE INDEX idx_webhook_deliveries_due ON webhook_deliveries(due_at) WHERE status = 'waiting';
CREATE INDEX idx_webhook_deliveries_search ON webhook_deliveries(saved_search_id, status, id);
CREATE INDEX idx_webhook_deliveries_updated ON webhook_deliveries(updated_at) WHERE status <> 'waiting';

CREATE TABLE logged_queries (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    trace_id       TEXT NOT NULL UNIQUE,
    query          TEXT NOT NULL,
    normalized     TEXT NOT NULL,          -- lower case, single spaces
    arguments      TEXT NOT NULL,          -- JSON: arguments that differ from the defaults
    n_results      INTEGER NOT NULL,       -- on the page
    best_relevance REAL,
    took_ms        REAL NOT NULL,
    results        TEXT NOT NULL,          -- JSON: [chunk, document] of the first results
    created_at     TEXT NOT NULL
);
CREATE INDEX idx_logged_queries_created ON logged_queries(created_at);
CREATE INDEX idx_logged_queries_empty ON logged_queries(id) WHERE n_results = 0;

CREATE TABLE query_clicks (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    query_id    INTEGER NOT NULL REFERENCES logged_queries(id) ON DELETE CASCADE,
    document_id INTEGER NOT NULL,
    chunk_id    INTEGER,                   -- NULL: the document as a whole
    rank        INTEGER,                   -- from 1; NULL beyond the logged results
    created_at  TEXT NOT NULL
);
CREATE UNIQUE INDEX idx_query_clicks ON query_clicks(query_id, document_id, COALESCE(chunk_id, 0));

CREATE TABLE pins (
    id          INTEGER PRIMARY KEY,
    query       TEXT NOT NULL,           -- as typed
    words       TEXT NOT NULL,           -- its words without case and accents, joined by spaces
    match_kind  TEXT NOT NULL CHECK (match_kind IN ('exact', 'contains')),
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    UNIQUE (words, match_kind)
);

CREATE TABLE pin_targets (
    pin_id       INTEGER NOT NULL REFERENCES pins(id) ON DELETE CASCADE,
    is_hidden    INTEGER NOT NULL,       -- 0: pinned
    position     INTEGER NOT NULL,       -- from 0
    document_id  INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    chunk_id     INTEGER,                -- NULL: the document; no foreign key, since a rescore keeps ids
    PRIMARY KEY (pin_id, is_hidden, position)
) WITHOUT ROWID;
CREATE INDEX idx_pin_targets_document ON pin_targets(document_id);

-- Rows of an empty library, before any trigger

INSERT INTO schema_revision (revision) VALUES ('0034');
INSERT INTO library_totals (id, n_documents, n_chunks, content_bytes) VALUES (1, 0, 0, 0);
INSERT INTO stale_totals (id, n_chunks) VALUES (1, 0);
INSERT INTO rescore_state (id, n_changes) VALUES (1, 0);
INSERT INTO learning (id, revision) VALUES (1, 0);
INSERT INTO note_changes (id, last) VALUES (1, 0);
INSERT INTO saved_search_state (id, evaluation) VALUES (1, 0);
INSERT INTO vocabulary_versions (version, created_at, n_words) VALUES (0, '1970-01-01T00:00:00.000Z', 0);
