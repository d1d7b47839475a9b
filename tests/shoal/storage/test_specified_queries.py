"""The queries of the specification run on a library as they stand, and find a reef without unpacking profiles."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.settings import Settings

CORE = """
    WITH qr(reef_id, query_z) AS (VALUES {reefs})
    SELECT c.id, SUM(cr.z_score * qr.query_z) AS match_score, COUNT(cr.reef_id) AS n_shared_reefs
    FROM chunks c
    JOIN chunk_reefs cr ON c.id = cr.chunk_id
    JOIN qr ON cr.reef_id = qr.reef_id
    JOIN documents d ON c.document_id = d.id
    GROUP BY c.id ORDER BY match_score DESC LIMIT 10
"""


@pytest.fixture
def connection(settings: Settings) -> Iterator[sqlite3.Connection]:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest(
            title="Lava", content="# Fire\n\nLava rises.\n\n## Rain\n\nRain falls.\n", format="markdown"
        )
    with closing(sqlite3.connect(settings.database_path)) as connection:
        yield connection


def test_the_retrieval_query_adds_up_the_shared_reefs(connection: sqlite3.Connection) -> None:
    stored = connection.execute("SELECT chunk_id, reef_id, z_score FROM chunk_reefs").fetchall()
    reefs = sorted({reef_id for _, reef_id, _ in stored})[:3]
    weights = {reef_id: 2.0 + i for i, reef_id in enumerate(reefs)}
    expected: dict[int, float] = {}
    for chunk_id, reef_id, z_score in stored:
        if reef_id in weights:
            expected[chunk_id] = expected.get(chunk_id, 0.0) + z_score * weights[reef_id]
    values = ", ".join(f"({reef_id}, {weight})" for reef_id, weight in weights.items())
    rows = connection.execute(CORE.format(reefs=values)).fetchall()
    assert expected
    assert {row[0]: pytest.approx(row[1]) for row in rows} == expected


def test_a_reef_is_looked_up_and_no_profile_is_unpacked_for_another(connection: sqlite3.Connection) -> None:
    plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + CORE.format(reefs="(1, 2.0)"))]
    assert any(step.startswith("SEARCH f USING INTEGER PRIMARY KEY (rowid=?)") for step in plan), plan


def test_metadata_of_chunks_has_the_headings(connection: sqlite3.Connection) -> None:
    rows = connection.execute(
        "SELECT json_extract(metadata, '$.headings') FROM chunks ORDER BY chunk_index"
    ).fetchall()
    assert rows == [('["Fire"]',), ('["Fire","Rain"]',)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT word, word_id, specificity, idf_q FROM custom_words",
        "SELECT word_id, reef_id, bm25_q, association_strength FROM custom_word_reefs",
        "SELECT id, word, document_id, sentence_idx, context_reefs FROM word_observations",
        "SELECT chunk_id, reef_id, reef_name, z_score, raw_bm25, n_contributing_words, rank FROM chunk_reefs",
    ],
)
def test_the_tables_have_the_columns_of_the_specification(connection: sqlite3.Connection, query: str) -> None:
    connection.execute(query)
