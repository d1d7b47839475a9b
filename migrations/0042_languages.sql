-- Languages of texts: a code of ISO 639-1. `is_language_given`: 1 if the caller said it, and no detection changes it.

ALTER TABLE documents ADD COLUMN language TEXT NOT NULL DEFAULT 'en';
ALTER TABLE documents ADD COLUMN is_language_given INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chunks ADD COLUMN language TEXT NOT NULL DEFAULT 'en';
ALTER TABLE job_items ADD COLUMN language TEXT; -- NULL: to be detected
