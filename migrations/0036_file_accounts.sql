CREATE TABLE file_accounts (
    document_id   INTEGER PRIMARY KEY REFERENCES documents(id) ON DELETE CASCADE,
    n_words       INTEGER NOT NULL,   -- visible words of the file that the document was converted from
    n_stored      INTEGER NOT NULL,   -- of them in the document
    is_incomplete INTEGER NOT NULL,   -- 1 if more than 2 % are missing, besides those left out on purpose
    missing       TEXT NOT NULL       -- JSON array: kind, place, n_words, n_bytes, is_intended, text
);
CREATE INDEX idx_file_accounts_incomplete ON file_accounts(document_id) WHERE is_incomplete = 1;
