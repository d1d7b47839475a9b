-- The rows of an empty library.
INSERT INTO alembic_version (version_num) VALUES ('0028');
INSERT INTO library_totals (id, n_documents, n_chunks, content_bytes) VALUES (1, 0, 0, 0);
INSERT INTO stale_totals (id, n_chunks) VALUES (1, 0);
INSERT INTO rescore_state (id, n_changes) VALUES (1, 0);
INSERT INTO index_state (id, revision) VALUES (1, 1);
INSERT INTO learning (id, revision) VALUES (1, 0);
INSERT INTO note_changes (id, last) VALUES (1, 0);
INSERT INTO saved_search_state (id, evaluation) VALUES (1, 0);
INSERT INTO vocabulary_versions (version, created_at, n_words) VALUES (0, '1970-01-01T00:00:00.000Z', 0);
INSERT INTO ranks (rank) SELECT generate_series(0, 255);
INSERT INTO all_bytes (bytes) SELECT string_agg(decode(lpad(to_hex(i), 2, '0'), 'hex'), ''::bytea ORDER BY i)
    FROM generate_series(0, 255) i;
