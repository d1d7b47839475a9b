-- The document that has the text of an object of a source, so that a run notices when it is gone. NULL: none yet, or
-- the object was refused.

ALTER TABLE source_objects ADD COLUMN document_id INTEGER;
CREATE INDEX idx_source_objects_document ON source_objects(document_id) WHERE document_id IS NOT NULL;
CREATE INDEX idx_source_objects_listed ON source_objects(source_id, listed_run);
