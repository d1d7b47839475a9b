"""Replacing a document keeps its id and the citations of unchanged chunks, and is atomic for readers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st
from indexed_library import assert_indexed, chunks_with
from job_parts import last_ids_of
from replacing_parts import COURT, FIRE, PLANT, TIDE, chunks_of, found_chunks, ranked, text_of

from shoal.engine import Engine
from shoal.errors import DocumentError, DuplicateContentError, EmptyDocumentError, NotFoundError
from shoal.index.matching import TITLE
from shoal.jobs.stages.replace import matching_chunk_ids
from shoal.settings import Settings
from shoal.storage.database import Database


@pytest.fixture
def engine(settings: Settings, database: Database) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        yield opened


def test_chunks_with_unchanged_text_keep_their_ids(engine: Engine) -> None:
    document_id = engine.ingest(
        content=text_of(FIRE, PLANT, COURT), format="markdown", title="Notes", tags=["a"]
    ).id
    assert document_id is not None
    before = chunks_of(engine, document_id)
    created = engine.documents.get(document_id).document.created_at

    result = engine.documents.replace(
        document_id, content=text_of(TIDE, FIRE, COURT, "Bees carry nectar to the hive.")
    )

    assert (result.id, result.title, result.tags, result.duplicate) == (document_id, "Notes", ("a",), None)
    after = chunks_of(engine, document_id)
    assert result.n_chunks == len(after) == 4
    assert {after[FIRE], after[COURT]} == {before[FIRE], before[COURT]}
    assert before[PLANT] not in after.values()
    assert min(after[TIDE], after["Bees carry nectar to the hive."]) > max(before.values())
    document = engine.documents.get(document_id).document
    assert document.created_at == created
    assert document.updated_at >= created
    content = engine.documents.content(document_id)
    for chunk in engine.documents.chunks(document_id).chunks:
        assert content[chunk.start_char : chunk.end_char] == chunk.text
    assert_indexed(engine.database)


def test_search_finds_the_new_text_and_not_the_old(engine: Engine) -> None:
    other = engine.ingest(content=COURT).id
    document_id = engine.ingest(content=text_of(FIRE, PLANT), format="markdown").id
    assert document_id is not None
    assert other is not None
    assert found_chunks(engine, "magma and lava") >= {chunks_of(engine, document_id)[FIRE]}
    for content in (text_of(PLANT, TIDE), text_of(TIDE), text_of(FIRE, TIDE), text_of(FIRE, PLANT)):
        engine.documents.replace(document_id, content=content)
        chunks = chunks_of(engine, document_id)
        for query in ("magma and lava", "flower and seed", "tide and wave", "judge and jury"):
            with Engine(settings=engine.settings, scorer=engine.scorer) as opened_anew:
                assert found_chunks(engine, query) == found_chunks(opened_anew, query)
            assert found_chunks(engine, query) <= {*chunks.values(), *chunks_of(engine, other).values()}
        assert (chunks.get(FIRE) in found_chunks(engine, "magma and lava")) == (FIRE in chunks)
    assert_indexed(engine.database)


def test_replace_changes_only_the_given_fields(engine: Engine) -> None:
    document_id = engine.ingest(
        content=FIRE, title="Fire", tags=["a", "b"], metadata={"n": 1}, source_path="fire.txt"
    ).id
    assert document_id is not None
    engine.documents.replace(document_id, content=PLANT)
    document = engine.documents.get(document_id).document
    assert (document.title, document.tags, document.metadata, document.source_path) == (
        "Fire",
        ("a", "b"),
        {"n": 1},
        "fire.txt",
    )
    engine.documents.replace(
        document_id,
        content=COURT,
        title="Court",
        tags=["c"],
        metadata={},
        source_path="c.md",
        format="markdown",
    )
    document = engine.documents.get(document_id).document
    assert (document.title, document.tags, document.metadata, document.source_path, document.format) == (
        "Court",
        ("c",),
        {},
        "c.md",
        "markdown",
    )


def test_replacing_with_the_same_content_only_updates_its_fields(engine: Engine) -> None:
    document_id = engine.ingest(content=FIRE, title="Fire", tags=["a"]).id
    assert document_id is not None
    before = engine.documents.chunks(document_id)
    given = last_ids_of(engine.database)
    updated = engine.documents.get(document_id).document.updated_at

    assert engine.documents.replace(document_id, content=FIRE).id == document_id
    assert engine.documents.get(document_id).document.updated_at == updated
    engine.documents.replace(document_id, content=FIRE, tags=["b"], metadata={"seen": True})
    document = engine.documents.get(document_id).document
    assert (document.tags, document.metadata) == (("b",), {"seen": True})
    assert engine.documents.chunks(document_id) == before
    assert last_ids_of(engine.database) == given


def test_new_title_alone_rescores_the_same_chunks(engine: Engine) -> None:
    document_id = engine.ingest(content=FIRE, title="Volcano").id
    assert document_id is not None
    engine.ingest(content=PLANT)
    before = chunks_of(engine, document_id)
    scores = ranked(engine, "lava in the garden of flowers")
    engine.documents.replace(document_id, content=FIRE, title="Flowers and seeds")
    assert chunks_of(engine, document_id) == before
    after = ranked(engine, "lava in the garden of flowers")
    assert after != scores
    with Engine(settings=engine.settings, scorer=engine.scorer) as opened_anew:
        assert opened_anew.documents.get(document_id).document.title == "Flowers and seeds"
        assert ranked(opened_anew, "lava in the garden of flowers") == after
    assert_indexed(engine.database)
    assert chunks_with(engine.database, "seeds", TITLE)
    assert not chunks_with(engine.database, "volcano", TITLE)


def test_replace_accepts_a_file(engine: Engine, tmp_path: Path) -> None:
    document_id = engine.ingest(content=FIRE, title="Fire", tags=["a"], metadata={"n": 1}).id
    assert document_id is not None
    path = tmp_path / "plants.md"
    path.write_bytes(f"# Plants\n\n{PLANT} Grün.\n".encode("cp1252"))
    result = engine.documents.replace_file(document_id, path)
    assert (result.id, result.title, result.tags) == (document_id, "Fire", ("a",))
    assert any("not UTF-8" in warning for warning in result.warnings)
    document = engine.documents.get(document_id).document
    assert (document.source_path, document.format, document.metadata) == (str(path), "markdown", {"n": 1})
    assert "Grün" in engine.documents.content(document_id)
    assert engine.documents.replace_file(document_id, path, title="Plants", tags=["b"]).tags == ("b",)
    for missing in (tmp_path / "nothing.md", tmp_path):
        with pytest.raises((NotFoundError, DocumentError)):
            engine.documents.replace_file(document_id, missing)


def test_content_of_another_document_is_refused(engine: Engine) -> None:
    fire, plant = engine.ingest(content=FIRE).id, engine.ingest(content=PLANT).id
    assert fire is not None
    with pytest.raises(DuplicateContentError, match=f"document {plant}"):
        engine.documents.replace(fire, content=PLANT)
    assert engine.documents.content(fire) == FIRE


def test_bad_text_leaves_the_document_unchanged(engine: Engine) -> None:
    document_id = engine.ingest(content=FIRE).id
    assert document_id is not None
    before = engine.documents.chunks(document_id)
    for wrong in ("   \n", "<!-- nothing -->\n\n---\n"):
        with pytest.raises(EmptyDocumentError):
            engine.documents.replace(document_id, content=wrong, format="markdown")
    assert engine.documents.chunks(document_id) == before
    assert engine.documents.content(document_id) == FIRE


@pytest.mark.parametrize("document_id", [0, 17, 2**63, -1])
def test_replacing_a_missing_document_is_an_error(engine: Engine, document_id: int) -> None:
    with pytest.raises(NotFoundError):
        engine.documents.replace(document_id, content=FIRE)


TEXTS = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(TEXTS, TEXTS)
def test_chunks_are_matched_by_equal_text_and_order(before: list[str], after: list[str]) -> None:
    numbered_before = list(enumerate(before, start=100))
    kept = matching_chunk_ids(numbered_before, after)
    assert len(kept) == len(after)
    ids = [chunk_id for chunk_id in kept if chunk_id is not None]
    assert ids == sorted(set(ids))
    texts = dict(numbered_before)
    assert all(
        chunk_id is None or texts[chunk_id] == text for chunk_id, text in zip(kept, after, strict=True)
    )
    if before == after:
        assert None not in kept


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True))
def test_matching_keeps_as_many_chunks_as_possible(before: list[int], after: list[int]) -> None:
    numbered_before = [(place, str(text)) for place, text in enumerate(before)]
    kept = matching_chunk_ids(numbered_before, [str(text) for text in after])
    longest = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, j in itertools.product(range(len(before)), range(len(after))):
        longest[i + 1][j + 1] = (
            longest[i][j] + 1 if before[i] == after[j] else max(longest[i][j + 1], longest[i + 1][j])
        )
    assert sum(chunk_id is not None for chunk_id in kept) == longest[-1][-1]


def test_matching_many_equal_chunks_is_fast() -> None:
    before = [(i, "same" if i % 2 else str(i)) for i in range(40_000)]
    after = ["new", *(text for _, text in before[::-1])]
    assert len(matching_chunk_ids(before, after)) == len(after)
