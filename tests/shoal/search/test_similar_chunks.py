"""Similar chunks of other documents, and the chunks of a reef."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import NotFoundError
from shoal.storage.statistics import find_reef_chunks, frequent_tags, main_reefs

FIRE = "Lava rose in the volcano and ash fell. "
LAW = "The judge read the law to the court. "


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as opened:
        opened.ingest_many(
            [
                {"title": "Fire", "content": FIRE * 3, "tags": ["hot", "old"]},
                {"title": "More fire", "content": "Ash fell. " + FIRE * 2, "tags": ["hot"]},
                {"title": "Law", "content": LAW * 3},
                {"title": "Nothing", "content": "Xq zv."},
            ]
        )
        yield opened


def only_chunk(engine: Engine, document_id: int) -> int:
    return engine.documents.chunks(document_id).chunks[0].id


def test_most_similar_chunk_of_another_document_comes_first(engine: Engine) -> None:
    chunks = engine.similar(only_chunk(engine, 1))
    assert chunks[0].document_title == "More fire"
    assert 0.8 < chunks[0].similarity <= 1
    assert 1 not in [chunk.document_id for chunk in chunks]
    assert [chunk.similarity for chunk in chunks] == sorted(
        (chunk.similarity for chunk in chunks), reverse=True
    )
    assert chunks[0].beginning.startswith("Ash fell.")


def test_similar_chunks_are_the_same_from_memory_and_from_sql(engine: Engine) -> None:
    before = engine.similar(only_chunk(engine, 1))
    engine.start()
    assert engine.similar(only_chunk(engine, 1)) == before


def test_chunk_of_unknown_words_has_no_similar_chunks(engine: Engine) -> None:
    assert engine.similar(only_chunk(engine, 4)) == ()


def test_top_k_limits_similar_chunks(engine: Engine) -> None:
    assert len(engine.similar(only_chunk(engine, 1), top_k=1)) == 1


def test_similar_raises_not_found_for_a_missing_chunk(engine: Engine) -> None:
    for chunk_id in (99, 0, -1, 2**70):
        with pytest.raises(NotFoundError):
            engine.similar(chunk_id)


def test_main_reefs_are_the_first_labels_of_most_chunks(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot:
        reefs = main_reefs(snapshot, [1, 2, 3, 4], 1, label_threshold=0.5)
    assert reefs[1][0].reef_name == reefs[2][0].reef_name != reefs[3][0].reef_name
    assert 4 not in reefs


def test_chunks_of_a_reef_are_ordered_by_probability(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot:
        reef_id = main_reefs(snapshot, [1], 1, label_threshold=0.5)[1][0].reef_id
        chunks = find_reef_chunks(snapshot, reef_id, 10, label_threshold=0.5)
    assert {chunk.document_title for chunk in chunks} == {"Fire", "More fire"}
    probabilities = [chunk.probability for chunk in chunks]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all(0.5 <= probability <= 1 for probability in probabilities)


def test_frequent_tags_come_first(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot:
        assert frequent_tags(snapshot, 10) == (("hot", 2), ("old", 1))
        assert frequent_tags(snapshot, 1) == (("hot", 2),)
