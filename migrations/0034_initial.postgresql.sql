-- What PostgreSQL has of its own. A B-tree of PostgreSQL cannot hold values over 2,704 bytes, so columns whose values can
-- be longer have an SP-GiST index, which finds equal values and ranges as well, or are left out.

CREATE INDEX idx_documents_source_path ON documents USING spgist (source_path);
-- Of the documents with metadata only their ids, because the values can be long.
CREATE INDEX idx_documents_metadata ON documents(id) WHERE metadata <> '{}';
CREATE INDEX idx_job_items_path ON job_items USING spgist (source_path)
    WHERE source_path IS NOT NULL
      AND status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_by_path ON job_items USING spgist (source_path) WHERE by_path = 1;
CREATE INDEX idx_logged_queries_normalized ON logged_queries USING spgist (normalized);
-- Machines with an index of their own read by revision.
CREATE INDEX idx_changed_documents_revision ON changed_documents(revision);
CREATE INDEX idx_unindexed_vectors_revision ON unindexed_vectors(revision);

-- Rows

INSERT INTO index_state (id, revision, epoch) VALUES (1, 1, replace(gen_random_uuid()::text, '-', ''));
INSERT INTO ranks (rank) SELECT generate_series(0, 255);
INSERT INTO all_bytes (bytes) SELECT string_agg(decode(lpad(to_hex(i), 2, '0'), 'hex'), ''::bytea ORDER BY i)
    FROM generate_series(0, 255) i;

-- Functions of SQLite that statements of both stores use and PostgreSQL lacks.

-- Character NUL, which PostgreSQL cannot hold, in JSON: as `shoal/storage/postgres/statements.py` stores it in text.
CREATE FUNCTION readable_json(document text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN position('\u0000' in document) = 0 THEN document::json
        ELSE regexp_replace(document, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\udbff\\udffe0', 'g')::json END
$$;

-- The value at a path of one step, `$.name`, `$."name"` or `$[0]`, as SQLite's `->` gives it: as JSON.
CREATE FUNCTION json_at(document text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN path LIKE '$[%' THEN readable_json(document) -> substr(path, 3, length(path) - 3)::int
        ELSE readable_json(document) -> trim(substr(path, 3), '"') END::text
$$;
CREATE OPERATOR -> (LEFTARG = text, RIGHTARG = text, FUNCTION = json_at);

-- The same as text; `CAST` makes a number of it.
CREATE FUNCTION json_extract(document text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN path LIKE '$[%' THEN readable_json(document) ->> substr(path, 3, length(path) - 3)::int
        ELSE readable_json(document) ->> trim(substr(path, 3), '"') END
$$;

-- The members of an object or an array; `value` and `atom` are text, `atom` is NULL for objects and arrays.
CREATE FUNCTION json_each(document text) RETURNS TABLE (key text, value text, type text, atom text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10 AS $$
    WITH member AS (
        SELECT o.key, o.value FROM json_each(
            CASE json_typeof(readable_json(document)) WHEN 'object' THEN readable_json(document) END) o
        UNION ALL
        SELECT (a.place - 1)::text, a.value FROM json_array_elements(
            CASE json_typeof(readable_json(document)) WHEN 'array' THEN readable_json(document) END)
            WITH ORDINALITY a (value, place)
    )
    SELECT m.key, m.value #>> '{}',
        CASE json_typeof(m.value)
            WHEN 'string' THEN 'text'
            WHEN 'boolean' THEN m.value::text
            WHEN 'number' THEN CASE WHEN m.value::text ~ '[.eE]' THEN 'real' ELSE 'integer' END
            ELSE json_typeof(m.value) END,
        CASE WHEN json_typeof(m.value) NOT IN ('object', 'array', 'null') THEN m.value #>> '{}' END
    FROM member m
$$;

-- For the types that are used; only a superuser could create one for all.
CREATE FUNCTION json_array(a text, b double precision, c bigint, d bigint) RETURNS json
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT json_build_array(a, b, c, d) $$;

CREATE FUNCTION array_as_json(elements anycompatiblearray) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN elements IS NULL THEN '[]' ELSE to_json(elements)::text END
$$;
CREATE AGGREGATE json_group_array(anycompatible) (
    SFUNC = array_append, STYPE = anycompatiblearray, FINALFUNC = array_as_json
);

CREATE FUNCTION array_as_list(elements anycompatiblearray) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_to_string(elements, ',')
$$;
CREATE AGGREGATE group_concat(anycompatible) (
    SFUNC = array_append, STYPE = anycompatiblearray, FINALFUNC = array_as_list
);

CREATE FUNCTION instr(searched text, part text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT position(part in searched)
$$;

-- The greatest or least of several values; NULL if one of them is.
CREATE FUNCTION max(a anycompatible, b anycompatible) RETURNS anycompatible LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE greatest(a, b) END $$;
CREATE FUNCTION max(a anycompatible, b anycompatible, c anycompatible) RETURNS anycompatible
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN a IS NULL OR b IS NULL OR c IS NULL THEN NULL ELSE greatest(a, b, c) END $$;
CREATE FUNCTION min(a anycompatible, b anycompatible) RETURNS anycompatible LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE least(a, b) END $$;

-- Views

-- The profiles of passages, a row for each reef (`shoal/storage/profiles.py` packs them).
CREATE VIEW chunk_reefs AS
    SELECT c.id AS chunk_id,
           f.rank AS reef_id,
           n.reef_name,
           (get_byte(
               c.profile, 7 * (position(set_byte('\x00'::bytea, 0, f.rank::int) in c.reef_ids) - 1) + 1)
            + 256 * get_byte(
               c.profile, 7 * (position(set_byte('\x00'::bytea, 0, f.rank::int) in c.reef_ids) - 1) + 2)) / 250.0::double precision AS z_score,
           (get_byte(
               c.profile, 7 * (position(set_byte('\x00'::bytea, 0, f.rank::int) in c.reef_ids) - 1) + 3)
            + 256 * get_byte(
               c.profile, 7 * (position(set_byte('\x00'::bytea, 0, f.rank::int) in c.reef_ids) - 1) + 4)) / 10.0::double precision AS raw_bm25,
           get_byte(
               c.profile, 7 * (position(set_byte('\x00'::bytea, 0, f.rank::int) in c.reef_ids) - 1) + 5)::bigint AS n_contributing_words,
           (position(set_byte('\x00'::bytea, 0, f.rank::int) in c.reef_ids) - 1)::bigint AS rank, -- 0: the strongest
           get_byte(
               c.profile, 7 * (position(set_byte('\x00'::bytea, 0, f.rank::int) in c.reef_ids) - 1) + 6) / 200.0::double precision AS probability
    FROM chunks c
    JOIN ranks f ON position(set_byte('\x00'::bytea, 0, f.rank::int) in c.reef_ids) > 0
    LEFT JOIN reefs n ON n.data_checksum = c.data_checksum AND n.reef_id = f.rank;

-- Rounded by the type `numeric`, which takes the first 15 digits of a float, as SQLite does.
CREATE VIEW chunk_islands AS
    SELECT c.id AS chunk_id, n.island_id, min(n.island_name) AS island_name,
           round((
               sum(get_byte(c.profile, 7 * k.rank::int + 1) + 256 * get_byte(c.profile, 7 * k.rank::int + 2))
                   ::double precision / 250.0::double precision * min(n.island_scale)
           )::numeric, 3)::double precision AS aggregate_z,
           COUNT(*) AS n_contributing_reefs
    FROM chunks c
    JOIN ranks k ON k.rank < length(c.profile) / 7
    JOIN reefs n ON n.data_checksum = c.data_checksum AND n.reef_id = get_byte(c.profile, 7 * k.rank::int)
    WHERE n.island_id IS NOT NULL
    GROUP BY c.id, n.island_id;

CREATE VIEW document_texts AS
    SELECT d.id AS document_id,
           COALESCE((
               SELECT string_agg(c.text_before || c.text, '' ORDER BY c.chunk_index) FROM chunks c
               WHERE c.document_id = d.id
           ), '') || d.text_after AS content
    FROM documents d;

CREATE VIEW word_observations AS
    SELECT ROW_NUMBER() OVER (ORDER BY o.observed_id, o.kind, o.word) AS id,
           o.word,
           (SELECT MIN(d.id) FROM documents d WHERE d.content_hash = t.content_hash) AS document_id,
           NULL::bigint AS sentence_idx,         -- a row sums up the occurrences of a document
           (SELECT COALESCE(json_agg(json_build_object(
                'reef_id', k.reef_id, 'z_score', k.sum::double precision / 64 / o.n_occurrences,
                'weight', o.n_occurrences) ORDER BY k.rank), '[]')::text
            FROM (
                SELECT k.rank, get_byte(o.context, 1 + k.rank::int) AS reef_id,
                       (SELECT SUM(get_byte(
                            o.context, (1 + w.n_reefs + k.rank * w.width + j.rank)::int)::bigint
                            << (8 * j.rank)::int)
                        FROM ranks j WHERE j.rank < w.width) AS sum
                FROM ranks k WHERE k.rank < w.n_reefs) k) AS context_reefs
    FROM observed_words o
    JOIN observed_documents t ON t.id = o.observed_id
    CROSS JOIN LATERAL (
        SELECT v.width,
               CASE WHEN length(o.context) = 0 THEN 0
                   ELSE (length(o.context) - 1) / (1 + v.width) END AS n_reefs
        FROM (SELECT CASE WHEN length(o.context) = 0 THEN 0 ELSE get_byte(o.context, 0) END AS width) v) w
    WHERE o.kind > 0;

-- The triggers of the SQLite schema: each has a function of its name.
--
-- A trigger that adds up runs once for a statement, over all rows that the statement inserted or deleted: of ten thousand
-- rows, it updates each total once. One that reads the other rows of a note must do so, because here, unlike on SQLite, a
-- trigger for a row sees the later rows of its statement as well.

-- Totals of the library

CREATE FUNCTION total_inserted_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE library_totals t SET n_documents = t.n_documents + i.n, n_chunks = t.n_chunks + i.n_chunks,
        content_bytes = t.content_bytes + i.n_bytes
    FROM (SELECT count(*) AS n, sum(n_chunks)::bigint AS n_chunks, sum(n_bytes)::bigint AS n_bytes
          FROM inserted HAVING count(*) > 0) i;
    RETURN NULL;
END $$;
CREATE TRIGGER total_inserted_document AFTER INSERT ON documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION total_inserted_document();

CREATE FUNCTION total_updated_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE library_totals SET n_chunks = n_chunks - old.n_chunks + new.n_chunks,
        content_bytes = content_bytes - old.n_bytes + new.n_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER total_updated_document AFTER UPDATE OF n_chunks, n_bytes ON documents
    FOR EACH ROW EXECUTE FUNCTION total_updated_document();

CREATE FUNCTION total_deleted_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE library_totals t SET n_documents = t.n_documents - d.n, n_chunks = t.n_chunks - d.n_chunks,
        content_bytes = t.content_bytes - d.n_bytes
    FROM (SELECT count(*) AS n, sum(n_chunks)::bigint AS n_chunks, sum(n_bytes)::bigint AS n_bytes
          FROM deleted HAVING count(*) > 0) d;
    RETURN NULL;
END $$;
CREATE TRIGGER total_deleted_document AFTER DELETE ON documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION total_deleted_document();

CREATE FUNCTION total_inserted_tag() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tag_totals (tag, n_documents) SELECT tag, count(*) FROM inserted GROUP BY tag
        ON CONFLICT (tag) DO UPDATE SET n_documents = tag_totals.n_documents + excluded.n_documents;
    RETURN NULL;
END $$;
CREATE TRIGGER total_inserted_tag AFTER INSERT ON document_tags REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION total_inserted_tag();

CREATE FUNCTION total_deleted_tag() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tag_totals t SET n_documents = t.n_documents - d.n
        FROM (SELECT tag, count(*) AS n FROM deleted GROUP BY tag) d WHERE t.tag = d.tag;
    DELETE FROM tag_totals WHERE n_documents = 0 AND tag IN (SELECT tag FROM deleted);
    RETURN NULL;
END $$;
CREATE TRIGGER total_deleted_tag AFTER DELETE ON document_tags REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION total_deleted_tag();

-- Chunks by their first label. Without the small term, 0.29 would be 28 %.

CREATE FUNCTION whole_percent(probability double precision) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT trunc(100 * probability + 1e-9::double precision)::bigint
$$;

CREATE FUNCTION total_inserted_chunk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reef_totals (reef_id, percent, n_chunks)
        SELECT top_reef_id, whole_percent(top_reef_probability), count(*) FROM inserted
        WHERE top_reef_id IS NOT NULL GROUP BY 1, 2
        ON CONFLICT (reef_id, percent) DO UPDATE SET n_chunks = reef_totals.n_chunks + excluded.n_chunks;
    RETURN NULL;
END $$;
CREATE TRIGGER total_inserted_chunk AFTER INSERT ON chunks REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION total_inserted_chunk();

CREATE FUNCTION total_updated_chunk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE reef_totals SET n_chunks = n_chunks - 1
        WHERE reef_id = old.top_reef_id AND percent = whole_percent(old.top_reef_probability);
    DELETE FROM reef_totals
        WHERE reef_id = old.top_reef_id AND percent = whole_percent(old.top_reef_probability) AND n_chunks = 0;
    IF new.top_reef_id IS NOT NULL THEN
        INSERT INTO reef_totals (reef_id, percent, n_chunks)
            VALUES (new.top_reef_id, whole_percent(new.top_reef_probability), 1)
            ON CONFLICT (reef_id, percent) DO UPDATE SET n_chunks = reef_totals.n_chunks + 1;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER total_updated_chunk AFTER UPDATE OF top_reef_id, top_reef_probability ON chunks FOR EACH ROW
    WHEN (new.top_reef_id IS DISTINCT FROM old.top_reef_id OR new.top_reef_probability <> old.top_reef_probability)
    EXECUTE FUNCTION total_updated_chunk();

CREATE FUNCTION total_deleted_chunk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE reef_totals t SET n_chunks = t.n_chunks - d.n
        FROM (SELECT top_reef_id, whole_percent(top_reef_probability) AS percent, count(*) AS n FROM deleted
              WHERE top_reef_id IS NOT NULL GROUP BY 1, 2) d
        WHERE t.reef_id = d.top_reef_id AND t.percent = d.percent;
    DELETE FROM reef_totals WHERE n_chunks = 0 AND (reef_id, percent) IN (
        SELECT top_reef_id, whole_percent(top_reef_probability) FROM deleted WHERE top_reef_id IS NOT NULL);
    RETURN NULL;
END $$;
CREATE TRIGGER total_deleted_chunk AFTER DELETE ON chunks REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION total_deleted_chunk();

-- Stale chunks

CREATE FUNCTION total_inserted_stale() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stale_totals t SET n_chunks = t.n_chunks + i.n
        FROM (SELECT sum(n_chunks)::bigint AS n FROM inserted HAVING count(*) > 0) i;
    RETURN NULL;
END $$;
CREATE TRIGGER total_inserted_stale AFTER INSERT ON stale_documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION total_inserted_stale();

CREATE FUNCTION total_updated_stale() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stale_totals SET n_chunks = n_chunks - old.n_chunks + new.n_chunks;
    RETURN NULL;
END $$;
CREATE TRIGGER total_updated_stale AFTER UPDATE ON stale_documents FOR EACH ROW
    WHEN (new.n_chunks <> old.n_chunks) EXECUTE FUNCTION total_updated_stale();

CREATE FUNCTION total_deleted_stale() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stale_totals t SET n_chunks = t.n_chunks - d.n
        FROM (SELECT sum(n_chunks)::bigint AS n FROM deleted HAVING count(*) > 0) d;
    RETURN NULL;
END $$;
CREATE TRIGGER total_deleted_stale AFTER DELETE ON stale_documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION total_deleted_stale();

CREATE FUNCTION words_deleted_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM stale_documents WHERE document_id = old.id;
    DELETE FROM document_words WHERE document_id = old.id;
    RETURN NULL;
END $$;
CREATE TRIGGER words_deleted_document AFTER DELETE ON documents
    FOR EACH ROW EXECUTE FUNCTION words_deleted_document();

-- Changes of documents since the last rescore

CREATE FUNCTION change_inserted_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rescore_state t SET n_changes = t.n_changes + i.n
        FROM (SELECT count(*) AS n FROM inserted HAVING count(*) > 0) i;
    RETURN NULL;
END $$;
CREATE TRIGGER change_inserted_document AFTER INSERT ON documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION change_inserted_document();

CREATE FUNCTION change_updated_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rescore_state SET n_changes = n_changes + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER change_updated_document AFTER UPDATE OF title, format, content_hash ON documents FOR EACH ROW
    WHEN (new.title <> old.title OR new.format <> old.format OR new.content_hash <> old.content_hash)
    EXECUTE FUNCTION change_updated_document();

CREATE FUNCTION change_deleted_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE rescore_state t SET n_changes = t.n_changes + d.n
        FROM (SELECT count(*) AS n FROM deleted HAVING count(*) > 0) d;
    RETURN NULL;
END $$;
CREATE TRIGGER change_deleted_document AFTER DELETE ON documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION change_deleted_document();

-- The revision of fields of documents, which filters keep in memory

CREATE FUNCTION fields_inserted_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO field_state (id, revision) SELECT 1, count(*) FROM inserted HAVING count(*) > 0
        ON CONFLICT (id) DO UPDATE SET revision = field_state.revision + excluded.revision;
    RETURN NULL;
END $$;
CREATE TRIGGER fields_inserted_document AFTER INSERT ON documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION fields_inserted_document();

CREATE FUNCTION fields_updated_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO field_state (id, revision) VALUES (1, 1)
        ON CONFLICT (id) DO UPDATE SET revision = field_state.revision + 1;
    INSERT INTO changed_fields (document_id, revision) SELECT new.id, revision FROM field_state
        ON CONFLICT (document_id) DO UPDATE SET revision = excluded.revision;
    RETURN NULL;
END $$;
CREATE TRIGGER fields_updated_document
    AFTER UPDATE OF title, source_path, format, created_at, updated_at, metadata ON documents
    FOR EACH ROW EXECUTE FUNCTION fields_updated_document();

CREATE FUNCTION fields_deleted_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO field_state (id, revision) VALUES (1, 1)
        ON CONFLICT (id) DO UPDATE SET revision = field_state.revision + 1;
    DELETE FROM changed_fields WHERE document_id = old.id;
    RETURN NULL;
END $$;
CREATE TRIGGER fields_deleted_document AFTER DELETE ON documents
    FOR EACH ROW EXECUTE FUNCTION fields_deleted_document();

-- Acronyms

CREATE FUNCTION acronym_found() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE acronyms a SET n_documents = a.n_documents + i.n
        FROM (SELECT acronym_id, count(*) AS n FROM inserted GROUP BY acronym_id) i WHERE a.id = i.acronym_id;
    RETURN NULL;
END $$;
CREATE TRIGGER acronym_found AFTER INSERT ON acronym_documents REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION acronym_found();

CREATE FUNCTION acronym_lost() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE acronyms a SET n_documents = a.n_documents - d.n
        FROM (SELECT acronym_id, count(*) AS n FROM deleted GROUP BY acronym_id) d WHERE a.id = d.acronym_id;
    RETURN NULL;
END $$;
CREATE TRIGGER acronym_lost AFTER DELETE ON acronym_documents REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION acronym_lost();

-- Keys that are too long for the index of a primary key: 2,704 bytes is the limit of PostgreSQL. The rows are caches
-- (of files and pages that were read), so one that is not stored costs time only.

CREATE FUNCTION skip_long_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN NULL;
END $$;
CREATE TRIGGER skip_long_path BEFORE INSERT ON file_stamps FOR EACH ROW
    WHEN (octet_length(new.path) > 2600) EXECUTE FUNCTION skip_long_key();
CREATE TRIGGER skip_long_url BEFORE INSERT ON fetched_pages FOR EACH ROW
    WHEN (octet_length(new.url) > 2600) EXECUTE FUNCTION skip_long_key();
-- How often a note matched sets of tags; only a set of dozens of long tags is not counted.
CREATE TRIGGER skip_long_tag_set BEFORE INSERT ON note_tag_set_matches FOR EACH ROW
    WHEN (octet_length(new.tag_set) > 2600) EXECUTE FUNCTION skip_long_key();

-- Numbers of notes by owner

CREATE FUNCTION count_inserted_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO note_owners (owner, n_active, n_deprecated)
        VALUES (new.owner, (new.deprecated_at IS NULL)::int, (new.deprecated_at IS NOT NULL)::int)
        ON CONFLICT (owner) DO UPDATE SET n_active = note_owners.n_active + excluded.n_active,
            n_deprecated = note_owners.n_deprecated + excluded.n_deprecated;
    RETURN NULL;
END $$;
CREATE TRIGGER count_inserted_note AFTER INSERT ON notes FOR EACH ROW EXECUTE FUNCTION count_inserted_note();

CREATE FUNCTION count_updated_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE note_owners SET
        n_active = n_active - (old.deprecated_at IS NULL)::int + (new.deprecated_at IS NULL)::int,
        n_deprecated = n_deprecated - (old.deprecated_at IS NOT NULL)::int + (new.deprecated_at IS NOT NULL)::int
    WHERE owner = new.owner;
    RETURN NULL;
END $$;
CREATE TRIGGER count_updated_note AFTER UPDATE OF deprecated_at ON notes
    FOR EACH ROW EXECUTE FUNCTION count_updated_note();

CREATE FUNCTION count_deleted_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE note_owners SET n_active = n_active - (old.deprecated_at IS NULL)::int,
        n_deprecated = n_deprecated - (old.deprecated_at IS NOT NULL)::int
    WHERE owner = old.owner;
    DELETE FROM note_owners WHERE owner = old.owner AND n_active = 0 AND n_deprecated = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER count_deleted_note AFTER DELETE ON notes FOR EACH ROW EXECUTE FUNCTION count_deleted_note();

-- Merges

CREATE FUNCTION outdate_proposals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE merge_proposals SET status = 'outdated', decided_at = new.updated_at
    WHERE status = 'open' AND id IN (SELECT proposal_id FROM merge_proposal_notes WHERE note_id = new.id);
    RETURN NULL;
END $$;
CREATE TRIGGER outdate_proposals AFTER UPDATE OF text_hash, deprecated_at ON notes FOR EACH ROW
    WHEN (new.text_hash <> old.text_hash OR (old.deprecated_at IS NULL AND new.deprecated_at IS NOT NULL))
    EXECUTE FUNCTION outdate_proposals();

CREATE FUNCTION forget_purged_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE note_merges SET before = '{}', reason = '',
        canonical_text = CASE survivor_id WHEN old.id THEN '' ELSE canonical_text END
    WHERE id IN (SELECT merge_id FROM note_merge_notes WHERE note_id = old.id);
    UPDATE merge_proposals SET canonical_text = '', reason = '',
        status = CASE status WHEN 'open' THEN 'outdated' ELSE status END
    WHERE id IN (SELECT proposal_id FROM merge_proposal_notes WHERE note_id = old.id);
    DELETE FROM note_merge_notes WHERE note_id = old.id;
    DELETE FROM merge_proposal_notes WHERE note_id = old.id;
    RETURN NULL;
END $$;
CREATE TRIGGER forget_purged_note AFTER DELETE ON notes FOR EACH ROW EXECUTE FUNCTION forget_purged_note();

-- Numbers of active notes by category

-- A category with those above it: 'a/b' gives 'a' and 'a/b'.
CREATE FUNCTION categories_above(category text) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS $$
    SELECT array_to_string(parts[1:n], '/')
    FROM (SELECT string_to_array(category || '/', '/') AS parts) p, generate_series(1, cardinality(parts) - 1) n
$$;

CREATE FUNCTION total_inserted_category() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO note_category_totals (owner, path, n_notes, n_with_subcategories)
    SELECT n.owner, a.path, count(*) FILTER (WHERE a.is_own), count(*) FILTER (WHERE NOT EXISTS (
        -- A category of the note at or below this one that was there before.
        SELECT 1 FROM note_categories c
        WHERE c.note_id = a.note_id AND (c.path = a.path OR (c.path > a.path || '/' AND c.path < a.path || '0'))
          AND NOT EXISTS (SELECT 1 FROM inserted i WHERE i.note_id = c.note_id AND i.path = c.path)))
    FROM (SELECT i.note_id, p.path, bool_or(p.path = i.path) AS is_own
          FROM inserted i CROSS JOIN LATERAL categories_above(i.path) p(path) GROUP BY i.note_id, p.path) a
    JOIN notes n ON n.id = a.note_id AND n.deprecated_at IS NULL
    GROUP BY n.owner, a.path
    ON CONFLICT (owner, path) DO UPDATE SET n_notes = note_category_totals.n_notes + excluded.n_notes,
        n_with_subcategories = note_category_totals.n_with_subcategories + excluded.n_with_subcategories;
    RETURN NULL;
END $$;
CREATE TRIGGER total_inserted_category AFTER INSERT ON note_categories REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION total_inserted_category();

CREATE FUNCTION total_deleted_category() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE note_category_totals t SET n_notes = t.n_notes - d.n_own,
        n_with_subcategories = t.n_with_subcategories - d.n_without
    FROM (
        SELECT n.owner, a.path, count(*) FILTER (WHERE a.is_own) AS n_own, count(*) FILTER (WHERE NOT EXISTS (
            -- A category of the note at or below this one that is left.
            SELECT 1 FROM note_categories c
            WHERE c.note_id = a.note_id
              AND (c.path = a.path OR (c.path > a.path || '/' AND c.path < a.path || '0')))) AS n_without
        FROM (SELECT d.note_id, p.path, bool_or(p.path = d.path) AS is_own
              FROM deleted d CROSS JOIN LATERAL categories_above(d.path) p(path) GROUP BY d.note_id, p.path) a
        JOIN notes n ON n.id = a.note_id AND n.deprecated_at IS NULL
        GROUP BY n.owner, a.path) d
    WHERE t.owner = d.owner AND t.path = d.path;
    DELETE FROM note_category_totals WHERE n_with_subcategories = 0 AND (owner, path) IN (
        SELECT n.owner, p.path FROM deleted d CROSS JOIN LATERAL categories_above(d.path) p(path)
        JOIN notes n ON n.id = d.note_id AND n.deprecated_at IS NULL);
    RETURN NULL;
END $$;
CREATE TRIGGER total_deleted_category AFTER DELETE ON note_categories REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION total_deleted_category();

-- While the note is there, which says the owner.
CREATE FUNCTION uncategorize_deleted_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM note_categories WHERE note_id = old.id;
    RETURN old;
END $$;
CREATE TRIGGER uncategorize_deleted_note BEFORE DELETE ON notes
    FOR EACH ROW EXECUTE FUNCTION uncategorize_deleted_note();

CREATE FUNCTION total_restored_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO note_category_totals (owner, path, n_notes, n_with_subcategories)
    SELECT new.owner, p.path, max((p.path = c.path)::int), 1
    FROM note_categories c CROSS JOIN LATERAL categories_above(c.path) p(path)
    WHERE c.note_id = new.id GROUP BY p.path
    ON CONFLICT (owner, path) DO UPDATE SET n_notes = note_category_totals.n_notes + excluded.n_notes,
        n_with_subcategories = note_category_totals.n_with_subcategories + excluded.n_with_subcategories;
    RETURN NULL;
END $$;
CREATE TRIGGER total_restored_note AFTER UPDATE OF deprecated_at ON notes FOR EACH ROW
    WHEN (old.deprecated_at IS NOT NULL AND new.deprecated_at IS NULL) EXECUTE FUNCTION total_restored_note();

CREATE FUNCTION total_deprecated_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE note_category_totals t SET n_notes = t.n_notes - a.is_own, n_with_subcategories = t.n_with_subcategories - 1
    FROM (SELECT p.path, max((p.path = c.path)::int) AS is_own
          FROM note_categories c CROSS JOIN LATERAL categories_above(c.path) p(path)
          WHERE c.note_id = new.id GROUP BY p.path) a
    WHERE t.owner = new.owner AND t.path = a.path;
    DELETE FROM note_category_totals WHERE owner = new.owner AND n_with_subcategories = 0 AND path IN (
        SELECT p.path FROM note_categories c CROSS JOIN LATERAL categories_above(c.path) p(path)
        WHERE c.note_id = new.id);
    RETURN NULL;
END $$;
CREATE TRIGGER total_deprecated_note AFTER UPDATE OF deprecated_at ON notes FOR EACH ROW
    WHEN (old.deprecated_at IS NULL AND new.deprecated_at IS NOT NULL) EXECUTE FUNCTION total_deprecated_note();

-- Notifications: listeners are woken when the library, or the work that waits, has changed

CREATE FUNCTION notify_listeners() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_notify('shoal_' || TG_TABLE_SCHEMA, TG_ARGV[0]);
        RETURN NULL;
    END $$;
CREATE TRIGGER notify_changes AFTER UPDATE OF revision ON index_state
    FOR EACH STATEMENT EXECUTE FUNCTION notify_listeners('index');
CREATE TRIGGER notify_waves AFTER INSERT OR UPDATE OF stage, lease_owner ON waves
    FOR EACH STATEMENT EXECUTE FUNCTION notify_listeners('work');
