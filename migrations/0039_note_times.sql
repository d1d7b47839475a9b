-- When a note was said, what time its text names, how long it holds, and which note replaced it.

CREATE TABLE note_times (
    note_id       INTEGER PRIMARY KEY REFERENCES notes(id) ON DELETE CASCADE,
    said_at       TEXT NOT NULL,           -- when it was said
    event_from    TEXT,                    -- first day that its text names, YYYY-MM-DD; NULL: none
    event_to      TEXT,                    -- the last day
    event_words   TEXT NOT NULL,           -- the words that name it; may be empty
    valid_from    TEXT NOT NULL,           -- first day on which it holds
    valid_to      TEXT,                    -- day on which another replaced it; NULL: it holds
    superseded_by INTEGER,                 -- the note that replaced it; NULL: none
    fact_id       INTEGER                  -- the first note of those that replaced each other; NULL: none
);
CREATE INDEX idx_note_times_fact ON note_times(fact_id) WHERE fact_id IS NOT NULL;
