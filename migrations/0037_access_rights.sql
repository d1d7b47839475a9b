-- Rights of documents: who may see them with a search token. `rights` is a JSON object of `allow`, an array or null,
-- and `deny`, an array; NULL for a document without rights.
-- What changes it sets `updated_at`, too, whose trigger counts a change of fields.

ALTER TABLE documents ADD COLUMN rights TEXT;
ALTER TABLE job_items ADD COLUMN rights TEXT;
CREATE TABLE access_settings (                   -- at most one row
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    visibility TEXT NOT NULL                     -- of documents without rights: 'everyone' or 'nobody'
);
