-- What SQLite has of its own: indexes of long values, the rows of arithmetic on bytes, views, triggers.

CREATE INDEX idx_documents_source_path ON documents(source_path);
CREATE INDEX idx_documents_metadata ON documents(metadata) WHERE metadata <> '{}';
CREATE INDEX idx_documents_names ON documents(id, title, source_path);
CREATE INDEX idx_job_items_path ON job_items(source_path, job_id, seq)
    WHERE source_path IS NOT NULL
      AND status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_by_path ON job_items(source_path, status, job_id, seq) WHERE by_path = 1;
CREATE INDEX idx_logged_queries_normalized ON logged_queries(normalized, created_at);

INSERT INTO index_state (id, revision, epoch) VALUES (1, 1, lower(hex(randomblob(16))));
INSERT INTO ranks (rank)
    WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 255) SELECT n FROM numbers;
INSERT INTO all_bytes (bytes) VALUES (x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff');

CREATE VIEW chunk_islands AS
    SELECT c.id AS chunk_id, n.island_id, n.island_name,
           ROUND(SUM(instr(b.bytes, substr(c.profile, 7 * k.rank + 2, 1)) - 1
            + 256 * (instr(b.bytes, substr(c.profile, 7 * k.rank + 3, 1)) - 1)) / 250.0 * n.island_scale, 3)
               AS aggregate_z,
           COUNT(*) AS n_contributing_reefs
    FROM chunks c
    JOIN all_bytes b
    JOIN ranks k ON k.rank < length(c.profile) / 7
    JOIN reefs n ON n.data_checksum = c.data_checksum
        AND n.reef_id = instr(b.bytes, substr(c.profile, 7 * k.rank + 1, 1)) - 1
    WHERE n.island_id IS NOT NULL
    GROUP BY c.id, n.island_id;

CREATE VIEW document_texts AS
    SELECT d.id AS document_id,
           COALESCE((SELECT GROUP_CONCAT(c.part, '') FROM (
               SELECT text_before || text AS part FROM chunks
               WHERE document_id = d.id ORDER BY chunk_index
           ) c), '') || d.text_after AS content
    FROM documents d;

CREATE VIEW chunk_reefs AS
    SELECT c.id AS chunk_id,
           f.rank AS reef_id,
           n.reef_name,
           ((instr(b.bytes, substr(
                c.profile, 7 * (instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) - 1) + 2, 1)) - 1)
            + 256 * (instr(b.bytes, substr(
                c.profile, 7 * (instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) - 1) + 3, 1)) - 1)) / 250.0 AS z_score,
           ((instr(b.bytes, substr(
                c.profile, 7 * (instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) - 1) + 4, 1)) - 1)
            + 256 * (instr(b.bytes, substr(
                c.profile, 7 * (instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) - 1) + 5, 1)) - 1)) / 10.0 AS raw_bm25,
           (instr(b.bytes, substr(
                c.profile, 7 * (instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) - 1) + 6, 1)) - 1) AS n_contributing_words,
           instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) - 1 AS rank,                  -- 0: the strongest
           (instr(b.bytes, substr(
                c.profile, 7 * (instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) - 1) + 7, 1)) - 1) / 200.0 AS probability
    FROM chunks c
    JOIN all_bytes b
    JOIN ranks f ON instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) > 0
    LEFT JOIN reefs n ON n.data_checksum = c.data_checksum AND n.reef_id = f.rank;

CREATE VIEW word_observations AS
    SELECT ROW_NUMBER() OVER (ORDER BY o.observed_id, o.kind, o.word) AS id,
           o.word,
           (SELECT MIN(d.id) FROM documents d WHERE d.content_hash = t.content_hash) AS document_id,
           NULL AS sentence_idx,             -- a row sums up the occurrences of a document
           (SELECT json_group_array(json_object(
                'reef_id', k.reef_id, 'z_score', k.sum / 64.0 / o.n_occurrences,
                'weight', o.n_occurrences))
            FROM (
                SELECT instr(b.bytes, substr(o.context, 2 + k.rank, 1)) - 1 AS reef_id,
                       (SELECT SUM((instr(b.bytes, substr(
                            o.context, 2 + ((length(o.context) - 1) / (1 + (instr(b.bytes, substr(o.context, 1, 1)) - 1)))
                                + k.rank * (instr(b.bytes, substr(o.context, 1, 1)) - 1) + j.rank, 1)) - 1)
                            << (8 * j.rank))
                        FROM ranks j WHERE j.rank < (instr(b.bytes, substr(o.context, 1, 1)) - 1)) AS sum
                FROM ranks k
                WHERE k.rank < ((length(o.context) - 1) / (1 + (instr(b.bytes, substr(o.context, 1, 1)) - 1))) ORDER BY k.rank) k) AS context_reefs
    FROM observed_words o
    JOIN observed_documents t ON t.id = o.observed_id
    JOIN all_bytes b
    WHERE o.kind > 0;

CREATE TRIGGER total_inserted_document AFTER INSERT ON documents BEGIN
    UPDATE library_totals SET n_documents = n_documents + 1, n_chunks = n_chunks + new.n_chunks,
        content_bytes = content_bytes + new.n_bytes;
END;

CREATE TRIGGER total_updated_document AFTER UPDATE OF n_chunks, n_bytes ON documents BEGIN
    UPDATE library_totals SET n_chunks = n_chunks - old.n_chunks + new.n_chunks,
        content_bytes = content_bytes - old.n_bytes + new.n_bytes;
END;

CREATE TRIGGER total_deleted_document AFTER DELETE ON documents BEGIN
    UPDATE library_totals SET n_documents = n_documents - 1, n_chunks = n_chunks - old.n_chunks,
        content_bytes = content_bytes - old.n_bytes;
END;

CREATE TRIGGER total_inserted_tag AFTER INSERT ON document_tags BEGIN
    INSERT INTO tag_totals (tag, n_documents) VALUES (new.tag, 1)
        ON CONFLICT (tag) DO UPDATE SET n_documents = n_documents + 1;
END;

CREATE TRIGGER total_deleted_tag AFTER DELETE ON document_tags BEGIN
    UPDATE tag_totals SET n_documents = n_documents - 1 WHERE tag = old.tag;
    DELETE FROM tag_totals WHERE tag = old.tag AND n_documents = 0;
END;

CREATE TRIGGER total_inserted_chunk AFTER INSERT ON chunks WHEN new.top_reef_id IS NOT NULL BEGIN
    INSERT INTO reef_totals (reef_id, percent, n_chunks)
        VALUES (new.top_reef_id, CAST(100 * new.top_reef_probability + 1e-9 AS INTEGER), 1)
        ON CONFLICT (reef_id, percent) DO UPDATE SET n_chunks = n_chunks + 1;
END;

CREATE TRIGGER total_updated_chunk AFTER UPDATE OF top_reef_id, top_reef_probability ON chunks
    WHEN new.top_reef_id IS NOT old.top_reef_id OR new.top_reef_probability <> old.top_reef_probability BEGIN
    UPDATE reef_totals SET n_chunks = n_chunks - 1
        WHERE reef_id = old.top_reef_id
          AND percent = CAST(100 * old.top_reef_probability + 1e-9 AS INTEGER);
    DELETE FROM reef_totals
        WHERE reef_id = old.top_reef_id
          AND percent = CAST(100 * old.top_reef_probability + 1e-9 AS INTEGER) AND n_chunks = 0;
    INSERT INTO reef_totals (reef_id, percent, n_chunks)
        SELECT new.top_reef_id, CAST(100 * new.top_reef_probability + 1e-9 AS INTEGER), 1
        WHERE new.top_reef_id IS NOT NULL
        ON CONFLICT (reef_id, percent) DO UPDATE SET n_chunks = n_chunks + 1;
END;

CREATE TRIGGER total_deleted_chunk AFTER DELETE ON chunks WHEN old.top_reef_id IS NOT NULL BEGIN
    UPDATE reef_totals SET n_chunks = n_chunks - 1
        WHERE reef_id = old.top_reef_id
          AND percent = CAST(100 * old.top_reef_probability + 1e-9 AS INTEGER);
    DELETE FROM reef_totals
        WHERE reef_id = old.top_reef_id
          AND percent = CAST(100 * old.top_reef_probability + 1e-9 AS INTEGER) AND n_chunks = 0;
END;

CREATE TRIGGER total_inserted_stale AFTER INSERT ON stale_documents BEGIN
    UPDATE stale_totals SET n_chunks = n_chunks + new.n_chunks;
END;

CREATE TRIGGER total_updated_stale AFTER UPDATE ON stale_documents BEGIN
    UPDATE stale_totals SET n_chunks = n_chunks - old.n_chunks + new.n_chunks;
END;

CREATE TRIGGER total_deleted_stale AFTER DELETE ON stale_documents BEGIN
    UPDATE stale_totals SET n_chunks = n_chunks - old.n_chunks;
END;

CREATE TRIGGER words_deleted_document AFTER DELETE ON documents BEGIN
    DELETE FROM stale_documents WHERE document_id = old.id;
    DELETE FROM document_words WHERE document_id = old.id;
END;

CREATE TRIGGER change_inserted_document AFTER INSERT ON documents BEGIN
    UPDATE rescore_state SET n_changes = n_changes + 1;
END;

CREATE TRIGGER change_updated_document AFTER UPDATE OF title, format, content_hash ON documents
    WHEN new.title <> old.title OR new.format <> old.format OR new.content_hash <> old.content_hash BEGIN
    UPDATE rescore_state SET n_changes = n_changes + 1;
END;

CREATE TRIGGER change_deleted_document AFTER DELETE ON documents BEGIN
    UPDATE rescore_state SET n_changes = n_changes + 1;
END;

CREATE TRIGGER count_inserted_note AFTER INSERT ON notes BEGIN
    INSERT INTO note_owners (owner, n_active, n_deprecated)
    VALUES (new.owner, new.deprecated_at IS NULL, new.deprecated_at IS NOT NULL)
    ON CONFLICT (owner) DO UPDATE SET n_active = n_active + excluded.n_active,
        n_deprecated = n_deprecated + excluded.n_deprecated;
END;

CREATE TRIGGER count_updated_note AFTER UPDATE OF deprecated_at ON notes BEGIN
    UPDATE note_owners SET
        n_active = n_active - (old.deprecated_at IS NULL) + (new.deprecated_at IS NULL),
        n_deprecated = n_deprecated - (old.deprecated_at IS NOT NULL) + (new.deprecated_at IS NOT NULL)
    WHERE owner = new.owner;
END;

CREATE TRIGGER count_deleted_note AFTER DELETE ON notes BEGIN
    UPDATE note_owners SET n_active = n_active - (old.deprecated_at IS NULL),
        n_deprecated = n_deprecated - (old.deprecated_at IS NOT NULL)
    WHERE owner = old.owner;
    DELETE FROM note_owners WHERE owner = old.owner AND n_active = 0 AND n_deprecated = 0;
END;

CREATE TRIGGER outdate_proposals AFTER UPDATE OF text_hash, deprecated_at ON notes
    WHEN new.text_hash <> old.text_hash OR (old.deprecated_at IS NULL AND new.deprecated_at IS NOT NULL)
    BEGIN
    UPDATE merge_proposals SET status = 'outdated', decided_at = new.updated_at
    WHERE status = 'open'
        AND id IN (SELECT proposal_id FROM merge_proposal_notes WHERE note_id = new.id);
END;

CREATE TRIGGER forget_purged_note AFTER DELETE ON notes BEGIN
    UPDATE note_merges SET before = '{}', reason = '',
        canonical_text = CASE survivor_id WHEN old.id THEN '' ELSE canonical_text END
    WHERE id IN (SELECT merge_id FROM note_merge_notes WHERE note_id = old.id);
    UPDATE merge_proposals SET canonical_text = '', reason = '',
        status = CASE status WHEN 'open' THEN 'outdated' ELSE status END
    WHERE id IN (SELECT proposal_id FROM merge_proposal_notes WHERE note_id = old.id);
    DELETE FROM note_merge_notes WHERE note_id = old.id;
    DELETE FROM merge_proposal_notes WHERE note_id = old.id;
END;

CREATE TRIGGER total_inserted_category AFTER INSERT ON note_categories BEGIN
    INSERT INTO note_category_totals (owner, path, n_notes, n_with_subcategories)
    SELECT n.owner, a.path, a.path = new.path, NOT EXISTS (SELECT 1 FROM note_categories c
        WHERE c.note_id = new.note_id AND c.path <> new.path
          AND (c.path = a.path OR (c.path > a.path || '/' AND c.path < a.path || '0')))
    FROM notes n CROSS JOIN (WITH RECURSIVE above(category, path, rest) AS (
        SELECT path, '', path || '/' FROM (SELECT new.path AS path)
        UNION ALL
        SELECT category, path || substr(rest, 1, instr(rest, '/')), substr(rest, instr(rest, '/') + 1)
        FROM above WHERE rest <> '')
    SELECT category, substr(path, 1, length(path) - 1) AS path FROM above WHERE path <> '') a
    WHERE n.id = new.note_id AND n.deprecated_at IS NULL
    ON CONFLICT (owner, path) DO UPDATE SET n_notes = n_notes + excluded.n_notes,
        n_with_subcategories = n_with_subcategories + excluded.n_with_subcategories;
END;

CREATE TRIGGER total_deleted_category AFTER DELETE ON note_categories BEGIN
    UPDATE note_category_totals SET n_notes = n_notes - (path = old.path),
        n_with_subcategories = n_with_subcategories
            - NOT EXISTS (SELECT 1 FROM note_categories c
        WHERE c.note_id = old.note_id AND c.path <> old.path
          AND (c.path = note_category_totals.path OR (c.path > note_category_totals.path || '/' AND c.path < note_category_totals.path || '0')))
    WHERE owner = (SELECT owner FROM notes WHERE id = old.note_id AND deprecated_at IS NULL)
      AND path IN (SELECT path FROM (WITH RECURSIVE above(category, path, rest) AS (
        SELECT path, '', path || '/' FROM (SELECT old.path AS path)
        UNION ALL
        SELECT category, path || substr(rest, 1, instr(rest, '/')), substr(rest, instr(rest, '/') + 1)
        FROM above WHERE rest <> '')
    SELECT category, substr(path, 1, length(path) - 1) AS path FROM above WHERE path <> ''));
    DELETE FROM note_category_totals
    WHERE owner = (SELECT owner FROM notes WHERE id = old.note_id AND deprecated_at IS NULL) AND n_with_subcategories = 0
      AND path IN (SELECT path FROM (WITH RECURSIVE above(category, path, rest) AS (
        SELECT path, '', path || '/' FROM (SELECT old.path AS path)
        UNION ALL
        SELECT category, path || substr(rest, 1, instr(rest, '/')), substr(rest, instr(rest, '/') + 1)
        FROM above WHERE rest <> '')
    SELECT category, substr(path, 1, length(path) - 1) AS path FROM above WHERE path <> ''));
END;

CREATE TRIGGER uncategorize_deleted_note BEFORE DELETE ON notes BEGIN
    DELETE FROM note_categories WHERE note_id = old.id;
END;

CREATE TRIGGER total_restored_note AFTER UPDATE OF deprecated_at ON notes
    WHEN old.deprecated_at IS NOT NULL AND new.deprecated_at IS NULL
    BEGIN
    INSERT INTO note_category_totals (owner, path, n_notes, n_with_subcategories)
    SELECT new.owner, path, MAX(path = category), 1 FROM (WITH RECURSIVE above(category, path, rest) AS (
        SELECT path, '', path || '/' FROM (SELECT path FROM note_categories WHERE note_id = new.id)
        UNION ALL
        SELECT category, path || substr(rest, 1, instr(rest, '/')), substr(rest, instr(rest, '/') + 1)
        FROM above WHERE rest <> '')
    SELECT category, substr(path, 1, length(path) - 1) AS path FROM above WHERE path <> '') WHERE 1 GROUP BY path
    ON CONFLICT (owner, path) DO UPDATE SET n_notes = n_notes + excluded.n_notes,
        n_with_subcategories = n_with_subcategories + excluded.n_with_subcategories;
END;

CREATE TRIGGER total_deprecated_note AFTER UPDATE OF deprecated_at ON notes
    WHEN old.deprecated_at IS NULL AND new.deprecated_at IS NOT NULL
    BEGIN
    UPDATE note_category_totals SET n_notes = n_notes - (path IN (SELECT path FROM note_categories WHERE note_id = new.id)),
        n_with_subcategories = n_with_subcategories - 1
    WHERE owner = new.owner AND path IN (SELECT path FROM (WITH RECURSIVE above(category, path, rest) AS (
        SELECT path, '', path || '/' FROM (SELECT path FROM note_categories WHERE note_id = new.id)
        UNION ALL
        SELECT category, path || substr(rest, 1, instr(rest, '/')), substr(rest, instr(rest, '/') + 1)
        FROM above WHERE rest <> '')
    SELECT category, substr(path, 1, length(path) - 1) AS path FROM above WHERE path <> ''));
    DELETE FROM note_category_totals
    WHERE owner = new.owner AND n_with_subcategories = 0
      AND path IN (SELECT path FROM (WITH RECURSIVE above(category, path, rest) AS (
        SELECT path, '', path || '/' FROM (SELECT path FROM note_categories WHERE note_id = new.id)
        UNION ALL
        SELECT category, path || substr(rest, 1, instr(rest, '/')), substr(rest, instr(rest, '/') + 1)
        FROM above WHERE rest <> '')
    SELECT category, substr(path, 1, length(path) - 1) AS path FROM above WHERE path <> ''));
END;

CREATE TRIGGER fields_inserted_document AFTER INSERT ON documents BEGIN
    INSERT INTO field_state (id, revision) VALUES (1, 1)
        ON CONFLICT (id) DO UPDATE SET revision = revision + 1;
END;

CREATE TRIGGER fields_updated_document
    AFTER UPDATE OF title, source_path, format, created_at, updated_at, metadata ON documents BEGIN
    INSERT INTO field_state (id, revision) VALUES (1, 1)
        ON CONFLICT (id) DO UPDATE SET revision = revision + 1;
    INSERT INTO changed_fields (document_id, revision) SELECT new.id, revision FROM field_state
        WHERE true
        ON CONFLICT (document_id) DO UPDATE SET revision = excluded.revision;
END;

CREATE TRIGGER fields_deleted_document AFTER DELETE ON documents BEGIN
    INSERT INTO field_state (id, revision) VALUES (1, 1)
        ON CONFLICT (id) DO UPDATE SET revision = revision + 1;
    DELETE FROM changed_fields WHERE document_id = old.id;
END;

CREATE TRIGGER acronym_found AFTER INSERT ON acronym_documents BEGIN
    UPDATE acronyms SET n_documents = n_documents + 1 WHERE id = new.acronym_id;
END;

CREATE TRIGGER acronym_lost AFTER DELETE ON acronym_documents BEGIN
    UPDATE acronyms SET n_documents = n_documents - 1 WHERE id = old.acronym_id;
END;
