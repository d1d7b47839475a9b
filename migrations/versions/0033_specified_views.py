"""What the specification of the tables promises, in SQL.

`chunk_reefs` finds the passages of a reef without unpacking every profile: `reef_ids` has the reefs of a
profile alone, so one search in it finds whether, and at which rank, a passage has a reef. `custom_word_reefs`
and `word_observations` are views with the columns of the specification; the packed tables have other names.
`chunks.metadata` holds the headings.
"""

from alembic import op

revision = "0033"
down_revision = "0032"

_RANK = "instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) - 1"


def _byte(place: int) -> str:
    return f"(instr(b.bytes, substr(c.profile, 7 * ({_RANK}) + {place}, 1)) - 1)"


CHUNK_REEFS = f"""CREATE VIEW chunk_reefs AS
        SELECT c.id AS chunk_id,
               f.rank AS reef_id,
               n.reef_name,
               ({_byte(2)}
                + 256 * {_byte(3)}) / 250.0 AS z_score,
               ({_byte(4)}
                + 256 * {_byte(5)}) / 10.0 AS raw_bm25,
               {_byte(6)} AS n_contributing_words,
               {_RANK} AS rank,                  -- 0: the strongest
               {_byte(7)} / 200.0 AS probability
        FROM chunks c
        JOIN all_bytes b
        JOIN ranks f ON instr(c.reef_ids, substr(b.bytes, f.rank + 1, 1)) > 0
        LEFT JOIN reefs n ON n.data_checksum = c.data_checksum AND n.reef_id = f.rank"""

CUSTOM_WORD_REEFS = """CREATE VIEW custom_word_reefs AS
        SELECT w.word_id, r.reef_id, r.bm25_q, r.association_strength, r.probability
        FROM custom_words w
        JOIN word_reefs r ON r.custom_word_id = w.id
        WHERE w.retired = 0                      -- the newest version alone
          AND w.from_version = (
            SELECT MAX(v.from_version) FROM custom_words v
            WHERE v.word = w.word
              AND v.from_version <= (SELECT MAX(p.version) FROM vocabulary_versions p))"""

_WIDTH = "(instr(b.bytes, substr(o.context, 1, 1)) - 1)"
_N_REEFS = f"((length(o.context) - 1) / (1 + {_WIDTH}))"

WORD_OBSERVATIONS = f"""CREATE VIEW word_observations AS
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
                                o.context, 2 + {_N_REEFS} + k.rank * {_WIDTH} + j.rank, 1)) - 1)
                                << (8 * j.rank))
                            FROM ranks j WHERE j.rank < {_WIDTH}) AS sum
                    FROM ranks k WHERE k.rank < {_N_REEFS} ORDER BY k.rank) k) AS context_reefs
        FROM observed_words o
        JOIN observed_documents t ON t.id = o.observed_id
        JOIN all_bytes b
        WHERE o.kind > 0"""

_HEADINGS = """COALESCE(
        (SELECT '{"headings":' || s.path || '}' FROM sections s
         WHERE s.id = chunks.section_id AND s.path <> '[]'), '{}')"""

SQLITE = (
    "DROP VIEW chunk_reefs",
    # The first byte of each record of `profile`: a reef, the strongest first.
    "ALTER TABLE chunks ADD COLUMN reef_ids BLOB NOT NULL DEFAULT x''",
    f"UPDATE chunks SET reef_ids = reef_ids_of(profile), metadata = {_HEADINGS}",
    CHUNK_REEFS,
    """CREATE TABLE word_reefs (
        custom_word_id  INTEGER NOT NULL REFERENCES custom_words(id) ON DELETE CASCADE,
        reef_id         INTEGER NOT NULL,
        bm25_q          INTEGER NOT NULL,        -- bm25 * 8192, u16
        association_strength REAL NOT NULL,      -- 0..1
        probability     REAL NOT NULL DEFAULT 0,
        PRIMARY KEY (custom_word_id, reef_id)
    ) WITHOUT ROWID""",
    """INSERT INTO word_reefs
       SELECT custom_word_id, reef_id, bm25_q, association_strength, probability FROM custom_word_reefs
       ORDER BY custom_word_id, reef_id""",
    "DROP TABLE custom_word_reefs",
    CUSTOM_WORD_REEFS,
    """CREATE TABLE observed_words (
        observed_id   INTEGER NOT NULL REFERENCES observed_documents(id) ON DELETE CASCADE,
        kind          INTEGER NOT NULL,          -- 0: the document as a whole, 1: word, 2: compound
        word          TEXT NOT NULL,             -- '' for kind 0
        n_occurrences INTEGER NOT NULL,
        n_short       INTEGER NOT NULL,          -- of these, in short documents
        n_chunks      INTEGER NOT NULL,          -- chunks that contain the word
        parts         TEXT NOT NULL,             -- JSON array: counts for the significance of compounds
        context       BLOB NOT NULL,             -- sums by reef (`shoal/storage/packed_contexts.py`)
        PRIMARY KEY (observed_id, kind, word)
    ) WITHOUT ROWID""",
    """INSERT INTO observed_words
       SELECT observed_id, kind, word, n_occurrences, n_short, n_chunks, parts, context
       FROM word_observations ORDER BY observed_id, kind, word""",
    "DROP TABLE word_observations",
    WORD_OBSERVATIONS,
)

_PLACE = "position(set_byte('\\x00'::bytea, 0, f.rank::int) in c.reef_ids)"


def _get(place: int) -> str:
    return f"get_byte(c.profile, 7 * ({_PLACE} - 1) + {place})"


POSTGRESQL = (
    "DROP VIEW chunk_reefs",
    "ALTER TABLE chunks ADD COLUMN reef_ids BYTEA NOT NULL DEFAULT ''",
    f"""UPDATE chunks SET metadata = {_HEADINGS}, reef_ids = COALESCE(
            (SELECT string_agg(substr(profile, 7 * k.rank::int + 1, 1), ''::bytea ORDER BY k.rank)
             FROM ranks k WHERE k.rank < length(profile) / 7), '')""",
    f"""CREATE VIEW chunk_reefs AS
    SELECT c.id AS chunk_id,
           f.rank AS reef_id,
           n.reef_name,
           ({_get(1)} + 256 * {_get(2)}) / 250.0::double precision AS z_score,
           ({_get(3)} + 256 * {_get(4)}) / 10.0::double precision AS raw_bm25,
           {_get(5)}::bigint AS n_contributing_words,
           ({_PLACE} - 1)::bigint AS rank,       -- 0: the strongest
           {_get(6)} / 200.0::double precision AS probability
    FROM chunks c
    JOIN ranks f ON {_PLACE} > 0
    LEFT JOIN reefs n ON n.data_checksum = c.data_checksum AND n.reef_id = f.rank""",
    """CREATE TABLE word_reefs (
    custom_word_id        BIGINT NOT NULL REFERENCES custom_words(id) ON DELETE CASCADE,
    reef_id               BIGINT NOT NULL,
    bm25_q                BIGINT NOT NULL,            -- bm25 * 8192, u16
    association_strength  DOUBLE PRECISION NOT NULL,  -- 0..1
    probability           DOUBLE PRECISION NOT NULL DEFAULT 0,
    PRIMARY KEY (custom_word_id, reef_id)
)""",
    """INSERT INTO word_reefs
       SELECT custom_word_id, reef_id, bm25_q, association_strength, probability FROM custom_word_reefs""",
    "DROP TABLE custom_word_reefs",
    CUSTOM_WORD_REEFS,
    """CREATE TABLE observed_words (
    observed_id    BIGINT NOT NULL REFERENCES observed_documents(id) ON DELETE CASCADE,
    kind           BIGINT NOT NULL,            -- 0: the document as a whole, 1: word, 2: compound
    word           TEXT COLLATE "C" NOT NULL,  -- '' for kind 0
    n_occurrences  BIGINT NOT NULL,
    n_short        BIGINT NOT NULL,            -- of these, in short documents
    n_chunks       BIGINT NOT NULL,            -- chunks that contain the word
    parts          TEXT COLLATE "C" NOT NULL,  -- JSON array: counts for the significance of compounds
    context        BYTEA NOT NULL,             -- sums by reef (`shoal/storage/packed_contexts.py`)
    PRIMARY KEY (observed_id, kind, word)
)""",
    """INSERT INTO observed_words
       SELECT observed_id, kind, word, n_occurrences, n_short, n_chunks, parts, context
       FROM word_observations""",
    "DROP TABLE word_observations",
    """CREATE VIEW word_observations AS
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
    WHERE o.kind > 0""",
)


def upgrade() -> None:
    connection = op.get_bind()
    connection.connection.driver_connection.create_function(
        "reef_ids_of", 1, _reef_ids_of, deterministic=True
    )
    for statement in SQLITE:
        connection.exec_driver_sql(statement)


def _reef_ids_of(profile: bytes) -> bytes:
    return profile[::7]
