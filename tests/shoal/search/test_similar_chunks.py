"""Chunks elsewhere that are about the same, and what a reef leads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import NotFoundError
from shoal.storage.topic_statistics import chunks_of_reef, frequent_tags, main_reefs

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
    return engine.chunks(document_id).chunks[0].id


def test_the_likest_chunk_of_another_document_comes_first_and_never_its_own(engine: Engine) -> None:
    found = engine.similar(only_chunk(engine, 1))
    assert found[0].document_title == "More fire"
    assert 0.8 < found[0].likeness <= 1
    assert 1 not in [one.document_id for one in found]
    assert [one.likeness for one in found] == sorted((one.likeness for one in found), reverse=True)
    assert found[0].beginning.startswith("Ash fell.")


def test_kept_postings_find_the_same(engine: Engine) -> None:
    before = engine.similar(only_chunk(engine, 1))
    engine.start()
    assert engine.similar(only_chunk(engine, 1)) == before


def test_a_chunk_of_unknown_words_is_like_nothing(engine: Engine) -> None:
    assert engine.similar(only_chunk(engine, 4)) == ()


def test_no_more_are_found_than_were_asked_for(engine: Engine) -> None:
    assert len(engine.similar(only_chunk(engine, 1), top_k=1)) == 1


def test_there_is_nothing_like_a_chunk_that_is_not_there(engine: Engine) -> None:
    for chunk_id in (99, 0, -1, 2**70):
        with pytest.raises(NotFoundError):
            engine.similar(chunk_id)


def test_main_reefs_are_those_that_lead_most_chunks(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot:
        found = main_reefs(snapshot, [1, 2, 3, 4], 1)
    assert found[1][0].reef_name == found[2][0].reef_name != found[3][0].reef_name
    assert 4 not in found


def test_the_chunks_of_a_reef_are_the_purest_first(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot:
        reef_id = main_reefs(snapshot, [1], 1)[1][0].reef_id
        found = chunks_of_reef(snapshot, reef_id, 10)
    assert {one.document_title for one in found} == {"Fire", "More fire"}
    assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
    assert all(0 < one.share <= 1 for one in found)


def test_frequent_tags_come_first(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot:
        assert frequent_tags(snapshot, 10) == (("hot", 2), ("old", 1))
        assert frequent_tags(snapshot, 1) == (("hot", 2),)
