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
