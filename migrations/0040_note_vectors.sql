CREATE TABLE note_vectors (
    note_id   INTEGER PRIMARY KEY REFERENCES notes(id) ON DELETE CASCADE,
    text_hash TEXT NOT NULL,   -- of the text that was embedded; the vector counts while the note has it
    encoder   TEXT NOT NULL,   -- name, revision and dimension of the encoder; others do not read the vector
    vector    BLOB NOT NULL    -- of length 1, little-endian numbers of 16 bits
);
