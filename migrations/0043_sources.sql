-- Sources: places that the library follows, such as a folder or a bucket, with their runs and objects.
-- Times are seconds since the epoch by the clock of the database, unless they are texts.

CREATE TABLE sources (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    arguments  TEXT NOT NULL,                -- JSON: how it was added, with names of secrets and no values
    every      REAL,                         -- seconds from one run to the next; NULL: only when asked for
    is_paused  INTEGER NOT NULL DEFAULT 0,
    due_at     REAL,                         -- when the next run begins; NULL: when asked for
    n_failures INTEGER NOT NULL DEFAULT 0,   -- tries that failed, one after the other
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);
CREATE INDEX idx_sources_due ON sources(due_at) WHERE is_paused = 0;

CREATE TABLE source_runs (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id        INTEGER NOT NULL REFERENCES sources(id) ON DELETE CASCADE,
    status           TEXT NOT NULL,          -- 'listing', 'reading', 'removing'; then 'succeeded', 'failed', 'stopped'
    is_forced        INTEGER NOT NULL DEFAULT 0, -- 1: documents go even if nothing is listed any more
    place            TEXT,                   -- where it goes on
    job_id           INTEGER,                -- the job that the run waits for
    n_listed         INTEGER NOT NULL DEFAULT 0,
    n_skipped        INTEGER NOT NULL DEFAULT 0,
    n_new            INTEGER NOT NULL DEFAULT 0,
    n_changed        INTEGER NOT NULL DEFAULT 0,
    n_moved          INTEGER NOT NULL DEFAULT 0,
    n_removed        INTEGER NOT NULL DEFAULT 0,
    n_failed         INTEGER NOT NULL DEFAULT 0,
    n_bytes          INTEGER NOT NULL DEFAULT 0, -- read from the source
    error            TEXT,                   -- why it failed, or why the last try did
    lease_owner      TEXT,
    lease_expires_at REAL NOT NULL DEFAULT 0, -- no step begins before this time
    started_at       TEXT NOT NULL,
    ended_at         TEXT
);
CREATE UNIQUE INDEX idx_source_runs_open ON source_runs(source_id) WHERE ended_at IS NULL;
CREATE INDEX idx_source_runs_source ON source_runs(source_id, id);

CREATE TABLE source_objects (
    source_id      INTEGER NOT NULL REFERENCES sources(id) ON DELETE CASCADE,
    name           TEXT NOT NULL,            -- below the address of the source
    version        TEXT NOT NULL,            -- changes with the content, as the source says
    n_bytes        INTEGER,                  -- as listed; NULL if the source does not say
    listed_run     INTEGER NOT NULL,         -- the last run that saw it
    stored_version TEXT,                     -- of the content that was read last; NULL: none yet
    checksum       TEXT,                     -- SHA-256 (hex) of that content; NULL if it was refused
    error          TEXT,                     -- why it is not stored
    PRIMARY KEY (source_id, name)
);
CREATE INDEX idx_source_objects_checksum ON source_objects(source_id, checksum);
CREATE INDEX idx_source_objects_errors ON source_objects(source_id, name) WHERE error IS NOT NULL;
