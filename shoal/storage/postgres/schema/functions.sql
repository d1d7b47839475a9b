-- Functions of SQLite that statements of both stores use and PostgreSQL lacks.

-- Character NUL, which PostgreSQL cannot hold, in JSON: as `shoal/storage/postgres/values.py` stores it in text.
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
