"""The retriever for LlamaIndex, used in query engines."""

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


def test_nodes_have_scores_in_descending_order(searcher: Engine | Client, engine: Engine) -> None:
    nodes = ShoalRetriever(searcher, {"mode": "reef"}).retrieve("lava and ash")
    metadata = nodes[0].node.metadata
    assert metadata["document_title"] == "Volcano"
    assert (
        engine.documents.content(1)[metadata["start_char"] : metadata["end_char"]]
        == nodes[0].node.get_content()
    )
    scores = [node.score or 0.0 for node in nodes]
    assert scores == sorted(scores, reverse=True)
    assert len({node.node.node_id for node in nodes}) == len(nodes)
    assert ShoalRetriever(searcher).retrieve(QueryBundle("law"))[0].node.metadata["document_title"] == "Law"


def test_model_sees_the_citation_and_no_scores(engine: Engine) -> None:
    (node,) = ShoalRetriever(engine, {"top_k": 1}).retrieve("lava")
    shown = node.node.get_content(metadata_mode=MetadataMode.LLM)
    assert "notes/volcano.txt" in shown
    assert "start_line: 1" in shown
    for hidden in ("confidence", "trace_id", "scores", "spans"):
        assert hidden not in shown
    assert node.node.get_content(metadata_mode=MetadataMode.EMBED) == node.node.get_content()


def test_query_engine_answers_from_the_passages(searcher: Engine | Client) -> None:
    """The mock model repeats its prompt."""
    query_engine = RetrieverQueryEngine.from_args(ShoalRetriever(searcher, {"top_k": 1}), llm=MockLLM())
    answer = query_engine.query("what is lava")
    assert "Lava rose in the volcano." in str(answer)
    assert [node.node.metadata["document_title"] for node in answer.source_nodes] == ["Volcano"]
    awaited = asyncio.run(query_engine.aquery("what is lava"))
    assert str(awaited) == str(answer)


def test_citation_engine_and_postprocessor_accept_the_nodes(engine: Engine) -> None:
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


def test_async_client_works_in_awaited_engines(address: str) -> None:
    async def ask() -> str:
        async with AsyncClient(address) as client:
            retriever = ShoalRetriever(client, {"top_k": 1})
            with pytest.raises(TypeError, match="has to be awaited"):
                retriever.retrieve("lava")
            return str(await RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).aquery("what is lava"))

    assert "Lava rose in the volcano." in asyncio.run(ask())


def test_search_in_a_library_does_not_block_the_event_loop(engine: Engine) -> None:
    """The search ends only after other code has run on the event loop."""

    async def ask() -> list[str]:
        loop_has_run = asyncio.Event()
        loop = asyncio.get_running_loop()
        search = engine.search

        def search_after_the_loop(query: str, **arguments: object) -> object:
            asyncio.run_coroutine_threadsafe(loop_has_run.wait(), loop).result(60)
            return search(query, **arguments)  # type: ignore[arg-type]

        engine.search = search_after_the_loop  # type: ignore[assignment, method-assign]
        searching = asyncio.ensure_future(ShoalRetriever(engine).aretrieve("lava"))
        await asyncio.sleep(0)
        loop_has_run.set()
        return [node.node.metadata["document_title"] for node in await searching]

    assert "Volcano" in asyncio.run(ask())


def test_filters_and_min_score_apply(searcher: Engine | Client) -> None:
    hot = ShoalRetriever(searcher, {"filters": {"tags": ["hot"]}})
    assert {node.node.metadata["document_title"] for node in hot.retrieve("lava law")} == {"Volcano"}
    assert ShoalRetriever(searcher, min_score=2.0).retrieve("lava") == []
    assert ShoalRetriever(searcher).retrieve("  ") == []
