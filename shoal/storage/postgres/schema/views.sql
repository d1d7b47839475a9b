-- The profiles of chunks, a row for each reef (`shoal/storage/profiles.py` packs them).
CREATE VIEW chunk_reefs AS
    SELECT c.id AS chunk_id,
           get_byte(c.profile, 7 * k.rank::int)::bigint AS reef_id,
           n.reef_name,
           (get_byte(c.profile, 7 * k.rank::int + 1) + 256 * get_byte(c.profile, 7 * k.rank::int + 2))
               / 250.0::double precision AS z_score,
           (get_byte(c.profile, 7 * k.rank::int + 3) + 256 * get_byte(c.profile, 7 * k.rank::int + 4))
               / 10.0::double precision AS raw_bm25,
           get_byte(c.profile, 7 * k.rank::int + 5)::bigint AS n_contributing_words,
           k.rank,                           -- 0: the strongest
           get_byte(c.profile, 7 * k.rank::int + 6) / 200.0::double precision AS probability
    FROM chunks c
    JOIN ranks k ON k.rank < length(c.profile) / 7
    LEFT JOIN reefs n ON n.data_checksum = c.data_checksum AND n.reef_id = get_byte(c.profile, 7 * k.rank::int);

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
