"""Reranking reads the vectors that a library has, and embeds the query alone, once per search."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal.encoders.encoder import Floats, TextKind
from shoal.engine import Engine
from shoal.models.search import SearchResponse
from shoal.settings import Settings

QUERY = "rain and  storm -snow"
TEXTS = {
    "Rain": "Rain falls on the coast, and a storm follows.",
    "Storm": "A storm brings rain to the hills and the coast.",
    "Drought": "Without rain and storm the fields are dry.",
}


class CountingEncoder(FakeEncoder):
    """Counts the queries, too."""

    def __init__(self, revision: str = "1") -> None:
        super().__init__(revision=revision)
        self.queries: list[str] = []

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        if kind is TextKind.query:
            self.queries += texts
        return super().embed(texts, kind)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shoal.db"
    with opened(path, CountingEncoder()) as engine:
        for title, text in TEXTS.items():
            engine.ingest(title=title, content=text)
        engine.maintenance.embed()
    return path


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


@pytest.fixture
def engine(path: Path, encoder: CountingEncoder) -> Iterator[Engine]:
    with opened(path, encoder) as engine:
        yield engine


def opened(path: Path, encoder: FakeEncoder, *, embed: bool = False) -> Engine:
    return Engine(db_path=path, settings=Settings(embed=embed), scorer=FakeScorer(), encoder=encoder)


def similarities(response: SearchResponse) -> dict[str, float]:
    assert response.rerank is not None
    assert response.rerank.fallback is None
    return {result.document_title: result.rerank.similarity for result in response.results if result.rerank}


def test_only_the_query_is_embedded(engine: Engine, encoder: CountingEncoder) -> None:
    found = similarities(engine.search(QUERY, rerank=20))
    assert set(found) == set(TEXTS)
    assert (encoder.n_embedded, encoder.queries) == (0, ["rain and storm"])
    target = engine.explain(QUERY, rerank=20, document_id=1).target
    assert target is not None
    assert target.rerank is not None
    assert target.rerank.similarity == found["Rain"]
    (answer,) = engine.search_many([{"query": QUERY, "rerank": 20}]).answers
    assert answer.response is not None
    assert similarities(answer.response) == found
    assert encoder.n_embedded == 0


def test_stored_vectors_are_near_fresh_ones(engine: Engine, path: Path, tmp_path: Path) -> None:
    stored = similarities(engine.search(QUERY, rerank=20))
    with opened(tmp_path / "other.db", CountingEncoder()) as other:
        for title, text in TEXTS.items():
            other.ingest(title=title, content=text)
        fresh = similarities(other.search(QUERY, rerank=20))
    assert stored == pytest.approx(fresh, abs=0.05)
    assert stored != fresh


def test_only_passages_without_a_vector_are_read(engine: Engine, encoder: CountingEncoder) -> None:
    engine.ingest(title="Flood", content="After the rain and the storm the river rises.")
    assert "Flood" in similarities(engine.search(QUERY, rerank=20))
    assert encoder.n_embedded == 1


def test_the_dense_signal_and_reranking_share_the_vector_of_the_query(path: Path) -> None:
    encoder = CountingEncoder()
    with opened(path, encoder, embed=True) as engine:
        response = engine.search(QUERY, rerank=20)
        assert response.weights["dense"] > 0
        assert similarities(response)
        engine.search(QUERY)
    assert encoder.queries == ["rain and storm"]


def test_the_dense_signal_uses_a_query_that_reranking_embedded(path: Path) -> None:
    encoder = CountingEncoder()
    with opened(path, encoder, embed=True) as engine:
        assert similarities(engine.search(QUERY, mode="lexical", rerank=20))
        assert engine.search(QUERY).weights["dense"] > 0
    assert encoder.queries == ["rain and storm"]


def test_vectors_of_another_encoder_are_not_used(path: Path) -> None:
    encoder = CountingEncoder(revision="2")
    with opened(path, encoder) as engine:
        assert set(similarities(engine.search(QUERY, rerank=20))) == set(TEXTS)
    assert encoder.n_embedded == len(TEXTS)


def test_damaged_vectors_are_not_used(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE chunk_vectors SET vector = x'00'")
    encoder = CountingEncoder()
    with opened(path, encoder) as engine:
        assert set(similarities(engine.search(QUERY, rerank=20))) == set(TEXTS)
    assert encoder.n_embedded == len(TEXTS)
