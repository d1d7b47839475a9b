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
