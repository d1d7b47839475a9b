"""The retriever for LlamaIndex, in query engines of LlamaIndex."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("llama_index.core", reason="the extra `llamaindex` is not installed")

from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, QueryBundle

from shoal.client import AsyncClient, Client
from shoal.engine import Engine
from shoal.integrations.llama_index import ShoalRetriever


def test_nodes_come_with_scores_in_order(searcher: Engine | Client, engine: Engine) -> None:
    nodes = ShoalRetriever(searcher, {"mode": "reef"}).retrieve("lava and ash")
    metadata = nodes[0].node.metadata
    assert metadata["document_title"] == "Volcano"
    assert engine.content(1)[metadata["start_char"] : metadata["end_char"]] == nodes[0].node.get_content()
    scores = [node.score or 0.0 for node in nodes]
    assert scores == sorted(scores, reverse=True)
    assert len({node.node.node_id for node in nodes}) == len(nodes)
    assert ShoalRetriever(searcher).retrieve(QueryBundle("law"))[0].node.metadata["document_title"] == "Law"


def test_a_model_sees_where_a_node_is_from_and_none_of_the_numbers(engine: Engine) -> None:
    (node,) = ShoalRetriever(engine, {"top_k": 1}).retrieve("lava")
    shown = node.node.get_content(metadata_mode=MetadataMode.LLM)
    assert "notes/volcano.txt" in shown
    assert "start_line: 1" in shown
    for hidden in ("confidence", "trace_id", "scores", "spans"):
        assert hidden not in shown
    assert node.node.get_content(metadata_mode=MetadataMode.EMBED) == node.node.get_content()


def test_a_query_engine_answers_from_the_passages(searcher: Engine | Client) -> None:
    """The model says again what it was asked."""
    made = RetrieverQueryEngine.from_args(ShoalRetriever(searcher, {"top_k": 1}), llm=MockLLM())
    answer = made.query("what is lava")
    assert "Lava rose in the volcano." in str(answer)
    assert [node.node.metadata["document_title"] for node in answer.source_nodes] == ["Volcano"]
    again = asyncio.run(made.aquery("what is lava"))
    assert str(again) == str(answer)


def test_a_citing_engine_and_a_postprocessor_take_the_nodes(engine: Engine) -> None:
    citing = CitationQueryEngine.from_args(
        None, retriever=ShoalRetriever(engine, {"top_k": 1}), llm=MockLLM()
    )
    assert "Source 1:" in str(citing.query("what is lava"))
    strict = RetrieverQueryEngine.from_args(
        ShoalRetriever(engine),
        llm=MockLLM(),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=2.0)],
    )
    assert strict.query("what is lava").source_nodes == []


def test_an_awaited_client_serves_engines_that_are_awaited(address: str) -> None:
    async def ask() -> str:
        async with AsyncClient(address) as client:
            retriever = ShoalRetriever(client, {"top_k": 1})
            with pytest.raises(TypeError, match="has to be awaited"):
                retriever.retrieve("lava")
            return str(await RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).aquery("what is lava"))

    assert "Lava rose in the volcano." in asyncio.run(ask())


def test_an_event_loop_goes_on_while_a_library_is_searched(engine: Engine) -> None:
    """The search ends only after something else has had its turn."""

    async def ask() -> list[str]:
        turn = asyncio.Event()
        loop = asyncio.get_running_loop()
        search = engine.search

        def waits_for_its_turn(query: str, **arguments: object) -> object:
            asyncio.run_coroutine_threadsafe(turn.wait(), loop).result(60)
            return search(query, **arguments)  # type: ignore[arg-type]

        engine.search = waits_for_its_turn  # type: ignore[assignment, method-assign]
        searching = asyncio.ensure_future(ShoalRetriever(engine).aretrieve("lava"))
        await asyncio.sleep(0)
        turn.set()
        return [node.node.metadata["document_title"] for node in await searching]

    assert "Volcano" in asyncio.run(ask())


def test_filters_hold_and_little_is_left_out(searcher: Engine | Client) -> None:
    hot = ShoalRetriever(searcher, {"filters": {"tags": ["hot"]}})
    assert {node.node.metadata["document_title"] for node in hot.retrieve("lava law")} == {"Volcano"}
    assert ShoalRetriever(searcher, min_score=2.0).retrieve("lava") == []
    assert ShoalRetriever(searcher).retrieve("  ") == []
