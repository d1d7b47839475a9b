"""Notes: short texts with an owner, evidence and a state; and what agents' sessions saw of them."""

from alembic import op

revision = "0019"
down_revision = "0018"

STATEMENTS = (
    # One row: the change of a note gets the next number.
    "CREATE TABLE note_changes (id INTEGER PRIMARY KEY CHECK (id = 1), last INTEGER NOT NULL)",
    "INSERT INTO note_changes (id, last) VALUES (1, 0)",
    """CREATE TABLE notes (
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
    )""",
    "CREATE UNIQUE INDEX idx_notes_changes ON notes(owner, change_number)",
    "CREATE INDEX idx_notes_hash ON notes(owner, text_hash)",
    "CREATE INDEX idx_notes_dedup ON notes(owner, deprecated_at, dedup_verified, id)",
    "CREATE INDEX idx_notes_scored ON notes(vocabulary_version, data_checksum)",
    "CREATE INDEX idx_notes_pinned ON notes(owner, id) WHERE pinned_by IS NOT NULL AND deprecated_at IS NULL",
    # The number of notes by owner, for pages and for the constant of rank fusion.
    """CREATE TABLE note_owners (
        owner             TEXT PRIMARY KEY,
        n_active          INTEGER NOT NULL,
        n_deprecated      INTEGER NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TRIGGER count_inserted_note AFTER INSERT ON notes BEGIN
        INSERT INTO note_owners (owner, n_active, n_deprecated)
        VALUES (new.owner, new.deprecated_at IS NULL, new.deprecated_at IS NOT NULL)
        ON CONFLICT (owner) DO UPDATE SET n_active = n_active + excluded.n_active,
            n_deprecated = n_deprecated + excluded.n_deprecated;
    END""",
    """CREATE TRIGGER count_updated_note AFTER UPDATE OF deprecated_at ON notes BEGIN
        UPDATE note_owners SET
            n_active = n_active - (old.deprecated_at IS NULL) + (new.deprecated_at IS NULL),
            n_deprecated = n_deprecated - (old.deprecated_at IS NOT NULL) + (new.deprecated_at IS NOT NULL)
        WHERE owner = new.owner;
    END""",
    """CREATE TRIGGER count_deleted_note AFTER DELETE ON notes BEGIN
        UPDATE note_owners SET n_active = n_active - (old.deprecated_at IS NULL),
            n_deprecated = n_deprecated - (old.deprecated_at IS NOT NULL)
        WHERE owner = old.owner;
        DELETE FROM note_owners WHERE owner = old.owner AND n_active = 0 AND n_deprecated = 0;
    END""",
    """CREATE TABLE note_tags (
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        tag               TEXT NOT NULL,
        PRIMARY KEY (note_id, tag)
    ) WITHOUT ROWID""",
    """CREATE TABLE note_categories (
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        path              TEXT NOT NULL,           -- such as 'build/docker'
        PRIMARY KEY (note_id, path)
    ) WITHOUT ROWID""",
    """CREATE TABLE note_sources (
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        session_id        TEXT NOT NULL,           -- a session that submitted the note
        PRIMARY KEY (note_id, session_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE note_repo_matches (
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        repo              TEXT NOT NULL,
        n_matches         INTEGER NOT NULL,
        PRIMARY KEY (note_id, repo)
    ) WITHOUT ROWID""",
    """CREATE TABLE note_tag_set_matches (
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        tag_set           TEXT NOT NULL,           -- JSON array of sorted tags
        n_matches         INTEGER NOT NULL,
        PRIMARY KEY (note_id, tag_set)
    ) WITHOUT ROWID""",
    """CREATE TABLE note_tag_relevance (
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        tag               TEXT NOT NULL,
        score             REAL NOT NULL,           -- -1 to 1, a moving average
        n_positive        INTEGER NOT NULL,
        n_negative        INTEGER NOT NULL,
        PRIMARY KEY (note_id, tag)
    ) WITHOUT ROWID""",
    """CREATE TABLE note_feedback (
        id                INTEGER PRIMARY KEY AUTOINCREMENT,
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        session_id        TEXT NOT NULL,           -- may be empty
        is_applicable     INTEGER NOT NULL,
        reason            TEXT NOT NULL,
        tag_scores        TEXT NOT NULL,           -- JSON object: -1 to 1 by tag
        created_at        TEXT NOT NULL
    )""",
    "CREATE INDEX idx_note_feedback_note ON note_feedback(note_id, id)",
    # The state of a note before each change of its text, tags, prerequisites or state.
    """CREATE TABLE note_history (
        id                INTEGER PRIMARY KEY AUTOINCREMENT,
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        action            TEXT NOT NULL,           -- such as updated, deprecated, pinned, merged
        before            TEXT NOT NULL,           -- JSON object: the fields that changed, as they were
        created_at        TEXT NOT NULL
    )""",
    "CREATE INDEX idx_note_history_note ON note_history(note_id, id)",
    """CREATE TABLE agent_sessions (
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
    ) WITHOUT ROWID""",
    """CREATE INDEX idx_agent_sessions_waiting ON agent_sessions(waiting_since)
        WHERE waiting_since IS NOT NULL""",
    # Requests to the chat endpoint by day (UTC), for the limit of a day.
    """CREATE TABLE chat_requests (
        day               TEXT PRIMARY KEY,
        n_requests        INTEGER NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE shown_notes (
        owner             TEXT NOT NULL,
        session_id        TEXT NOT NULL,
        note_id           INTEGER NOT NULL REFERENCES notes(id) ON DELETE CASCADE,
        event             TEXT NOT NULL,           -- the hook that showed it first
        shown_at          TEXT NOT NULL,
        PRIMARY KEY (owner, session_id, note_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX idx_shown_notes_note ON shown_notes(note_id)",
    """CREATE TABLE hook_events (
        id                INTEGER PRIMARY KEY AUTOINCREMENT,
        owner             TEXT NOT NULL,
        session_id        TEXT NOT NULL,
        event             TEXT NOT NULL,           -- session-start, prompt, tool-use, stop
        note_ids          TEXT NOT NULL,           -- JSON array: shown
        context           TEXT NOT NULL,           -- what was searched for, shortened
        created_at        TEXT NOT NULL
    )""",
    "CREATE INDEX idx_hook_events_owner ON hook_events(owner, id)",
    "CREATE INDEX idx_hook_events_session ON hook_events(owner, session_id)",
    """CREATE TABLE note_merges (
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
    )""",
    "CREATE INDEX idx_note_merges_owner ON note_merges(owner, id)",
    # The notes of each merge. No foreign key: a merge stays when a note is purged.
    """CREATE TABLE note_merge_notes (
        note_id           INTEGER NOT NULL,
        merge_id          INTEGER NOT NULL,
        PRIMARY KEY (note_id, merge_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE merge_proposals (
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
    )""",
    """CREATE UNIQUE INDEX idx_merge_proposals_notes ON merge_proposals(owner, note_ids)
        WHERE status = 'open'""",
    "CREATE INDEX idx_merge_proposals_status ON merge_proposals(owner, status, id)",
    """CREATE TABLE merge_proposal_notes (
        note_id           INTEGER NOT NULL,
        proposal_id       INTEGER NOT NULL,
        PRIMARY KEY (note_id, proposal_id)
    ) WITHOUT ROWID""",
    # A proposal is about the texts that were compared.
    """CREATE TRIGGER outdate_proposals AFTER UPDATE OF text_hash, deprecated_at ON notes
        WHEN new.text_hash <> old.text_hash OR (old.deprecated_at IS NULL AND new.deprecated_at IS NOT NULL)
    BEGIN
        UPDATE merge_proposals SET status = 'outdated', decided_at = new.updated_at
        WHERE status = 'open'
            AND id IN (SELECT proposal_id FROM merge_proposal_notes WHERE note_id = new.id);
    END""",
    # No text of a purged note stays in merges and proposals.
    """CREATE TRIGGER forget_purged_note AFTER DELETE ON notes BEGIN
        UPDATE note_merges SET before = '{}', reason = '',
            canonical_text = CASE survivor_id WHEN old.id THEN '' ELSE canonical_text END
        WHERE id IN (SELECT merge_id FROM note_merge_notes WHERE note_id = old.id);
        UPDATE merge_proposals SET canonical_text = '', reason = '',
            status = CASE status WHEN 'open' THEN 'outdated' ELSE status END
        WHERE id IN (SELECT proposal_id FROM merge_proposal_notes WHERE note_id = old.id);
        DELETE FROM note_merge_notes WHERE note_id = old.id;
        DELETE FROM merge_proposal_notes WHERE note_id = old.id;
    END""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
