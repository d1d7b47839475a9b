-- Notes that their owners had forgotten: what refuses their texts, and no text.

CREATE TABLE forgotten_notes (
    note_id      INTEGER PRIMARY KEY,      -- the id that the note had; none gets it again
    owner        TEXT NOT NULL,
    text_digest  TEXT NOT NULL,            -- SHA-256 of the owner and of the digest of the normalized text
    with_note_id INTEGER NOT NULL,         -- the note that the owner named
    forgotten_at TEXT NOT NULL
);
CREATE INDEX idx_forgotten_notes_digest ON forgotten_notes(owner, text_digest);
CREATE INDEX idx_forgotten_notes_named ON forgotten_notes(owner, with_note_id);
