-- Attachments: the files in a mail become documents of their own, with links to it.

CREATE TABLE job_item_parents (
    item_id   INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
    parent_id INTEGER NOT NULL REFERENCES job_items(id) ON DELETE CASCADE,  -- the item of the mail
    root_id   INTEGER NOT NULL REFERENCES job_items(id) ON DELETE CASCADE,  -- the uploaded file that all are in
    depth     INTEGER NOT NULL,          -- 1: in the uploaded file itself
    name      TEXT NOT NULL              -- in the mail, after the archives that it is in
);
CREATE INDEX idx_job_item_parents_parent ON job_item_parents(parent_id);
CREATE INDEX idx_job_item_parents_root ON job_item_parents(root_id);

CREATE TABLE document_parents (
    document_id INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    parent_id   INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE, -- the mail
    name        TEXT NOT NULL,           -- in the mail, after the archives that it is in
    PRIMARY KEY (document_id, parent_id)
) WITHOUT ROWID;
CREATE INDEX idx_document_parents_parent ON document_parents(parent_id);

CREATE TABLE attached_documents (        -- that came with their parents alone: deleted with the last of them
    document_id INTEGER PRIMARY KEY REFERENCES documents(id) ON DELETE CASCADE
);
