"""Passages for a language model."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from shoal.client import AsyncClient, Client
from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.integrations.passages import (
    CITATION,
    SEPARATOR,
    Passage,
    find_passages,
    find_passages_async,
    passages_of,
)

PARTS = [
    "The flower and the leaf.",
    "The petal and the root.",
    "The lava and the ash.",
    "The seed and the plant.",
]
CHAPTERS = "\n\n".join(f"# Part {number}\n\n{text}" for number, text in enumerate(PARTS, start=1))
FLOWERS = {"mode": "lexical", "max_per_document": 0, "filters": {"document_ids": [3]}}


@pytest.fixture
def chapters(engine: Engine) -> Engine:
    """Adds a document of four chunks, three of them about plants."""
    engine.ingest(content=CHAPTERS, title="Chapters", format="markdown")
    return engine


def without_trace(passages: list[Passage]) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [(passage.id, passage.text, {**passage.metadata, "trace_id": ""}) for passage in passages]


def test_passages_are_the_same_from_a_library_and_from_a_service(engine: Engine, address: str) -> None:
    async def search_async(searcher: Any) -> list[Passage]:
        return await find_passages_async(searcher, "lava")

    async def over_http() -> list[Passage]:
        async with AsyncClient(address) as client:
            return await search_async(client)

    with Client(address) as client:
        from_client = find_passages(client, "lava")
        from_client_in_thread = asyncio.run(search_async(client))
    from_engine = without_trace(find_passages(engine, "lava"))
    assert from_engine == without_trace(from_client) == without_trace(from_client_in_thread)
    assert without_trace(asyncio.run(over_http())) == from_engine
    assert without_trace(asyncio.run(search_async(engine))) == from_engine


def test_passage_has_its_citation_and_scores(searcher: Engine | Client) -> None:
    passage = find_passages(searcher, "lava and ash")[0]
    metadata = passage.metadata
    assert set(CITATION) <= metadata.keys()
    assert metadata["score"] == passage.score > 0
    assert metadata["scores"]["lexical"] == pytest.approx(1.0)
    assert metadata["reefs"]
    assert metadata["labels"][0] == metadata["top_reef_name"] == "volcanoes and rocks"
    assert metadata["matched_terms"] == ["lava", "ash"]
    assert metadata["provenance"] == ["lexical", "reef"]
    assert metadata["term_coverage"] == pytest.approx(1.0)
    assert metadata["why"].startswith("holds ")
    assert 0.5 < metadata["relevance"] == passage.relevance < 1.0
    assert not find_passages(searcher, "lava and ash", {"min_relevance": 1.0})
    assert metadata["trace_id"]
    assert passage.place == "Volcano, lines 1-3"
    assert metadata["document_metadata"] == {"by": "a geologist"}
    json.dumps(dict(metadata))


@pytest.mark.parametrize("heading", ["Plants", "Title: Plants"])
def test_title_equal_to_the_first_heading_is_shown_once(engine: Engine, heading: str) -> None:
    engine.ingest(content=f"# {heading}\n\n## Petals\n\n{PARTS[1]}", title="Plants", format="markdown")
    assert find_passages(engine, "petal", {"mode": "lexical"})[0].place == "Plants > Petals, line 5"


def test_text_includes_neighbours_on_request(chapters: Engine) -> None:
    alone = find_passages(chapters, "lava", {"filters": {"document_ids": [3]}, "mode": "lexical"})[0]
    around = find_passages(
        chapters, "lava", {"filters": {"document_ids": [3]}, "mode": "lexical", "context": 1}
    )[0]
    assert alone.text == PARTS[2]
    assert around.text == SEPARATOR.join(PARTS[1:])
    assert alone.place == "Chapters > Part 3, line 11"
    assert around.place == "Chapters > Part 3, lines 7-15", "the lines of the whole text"
    assert [CHAPTERS[start:end] for start, end in around.metadata["spans"]] == PARTS[1:]


def test_adjoining_passages_are_merged_on_request(chapters: Engine) -> None:
    apart = find_passages(chapters, "flower leaf petal root seed", FLOWERS)
    assert sorted(passage.text for passage in apart) == sorted([PARTS[0], PARTS[1], PARTS[3]])
    together = find_passages(chapters, "flower leaf petal root seed", FLOWERS, merge=True)
    assert sorted(passage.text for passage in together) == sorted([SEPARATOR.join(PARTS[:2]), PARTS[3]])
    merged = next(passage for passage in together if passage.text != PARTS[3])
    assert (merged.metadata["start_line"], merged.metadata["end_line"]) == (3, 7)
    assert merged.score == max(passage.score for passage in apart if passage.text in PARTS[:2])
    assert set(merged.metadata["matched_terms"]) >= {"flower", "leaf", "petal", "root"}
    assert [CHAPTERS[start:end] for start, end in merged.metadata["spans"]] == PARTS[:2]


def test_chunk_between_two_passages_joins_them_at_any_rank(chapters: Engine) -> None:
    response = chapters.search("flower leaf petal root lava seed", **FLOWERS)
    by_index = {result.chunk_index: result for result in response.results}
    for order in ((0, 2, 1), (3, 1, 2), (0, 3, 1, 2)):
        ranked = dataclasses.replace(response, results=[by_index[index] for index in order])
        (together,) = passages_of(ranked, merge=True)
        assert together.text == SEPARATOR.join(PARTS[min(order) : max(order) + 1])
        best = max(ranked.results, key=lambda result: result.match_score)
        assert (together.score, together.metadata["chunk_id"]) == (best.match_score, best.chunk_id)


def test_merged_passage_has_each_neighbour_once(chapters: Engine) -> None:
    """The third part is a neighbour of the second and of the fourth."""
    (passage,) = find_passages(chapters, "flower leaf petal root seed", {**FLOWERS, "context": 1}, merge=True)
    assert passage.text == SEPARATOR.join(PARTS)


def test_results_below_min_score_are_left_out(chapters: Engine) -> None:
    scores = [passage.score for passage in find_passages(chapters, "flower leaf seed", FLOWERS)]
    assert scores[0] > scores[-1]
    kept = find_passages(chapters, "flower leaf seed", FLOWERS, min_score=scores[0])
    assert [passage.score for passage in kept] == scores[:1]
    assert find_passages(chapters, "flower", min_score=2) == []


def test_blank_query_finds_nothing_and_invalid_arguments_raise(engine: Engine, address: str) -> None:
    assert find_passages(engine, "  ") == []
    with pytest.raises(QueryError):
        find_passages(engine, "lava", {"mode": "odd"})

    async def empty() -> list[Passage]:
        async with AsyncClient(address) as client:
            with pytest.raises(TypeError, match="has to be awaited"):
                find_passages(client, "lava")  # type: ignore[arg-type]
            return await find_passages_async(client, " ")

    assert asyncio.run(empty()) == []
