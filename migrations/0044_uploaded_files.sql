-- Items of jobs that were uploaded as files by other programs' interfaces: their source path begins with the id of the
-- file, which has 29 characters.

CREATE INDEX idx_job_items_of_files ON job_items(substr(source_path, 1, 29), id)
    WHERE substr(source_path, 1, 5) = 'file-';
