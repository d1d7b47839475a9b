"""The retrievers in the frameworks they are for, over a library in this process and over a service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from langchain_core.runnables import RunnableLambda
from llama_index.core.schema import MetadataMode, QueryBundle

from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.integrations.langchain import ShoalRetriever as LangChainRetriever
from shoal.integrations.llama_index import ShoalRetriever as LlamaIndexRetriever
from shoal.integrations.passages import CITATION, find_passages
from shoal_api import create_app

TEXT = "Lava rose in the volcano.\n\nAsh fell on the rock. The magma was hot."


class Service:
    """A service without a network: what `shoal.client.Client.search` gets."""

    def __init__(self, engine: Engine) -> None:
        self._http = create_app(engine.settings, engine=engine).test_client()

    def search(self, query: str, **arguments: Any) -> dict[str, Any]:
        answer = self._http.post("/api/v1/search", json={"query": query, **arguments})
        assert answer.status_code == 200, answer.get_data(as_text=True)
        body: dict[str, Any] = json.loads(answer.get_data())
        return body


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as opened:
        opened.ingest(content=TEXT, title="Volcano", tags=["hot"], source_path="notes/volcano.txt")
        opened.ingest(content="The judge read the law to the court.", title="Law")
        yield opened


@pytest.fixture(params=["library", "service"])
def searcher(request: pytest.FixtureRequest, engine: Engine) -> Any:
    return engine if request.param == "library" else Service(engine)


def test_passages_are_the_same_from_a_library_and_from_a_service(engine: Engine) -> None:
    here, there = find_passages(engine, "lava", {}), find_passages(Service(engine), "lava", {})
    assert [p.id for p in here] == [p.id for p in there]
    assert [dict(p.metadata) for p in here] == [dict(p.metadata) for p in there]
    assert here[0].score == pytest.approx(there[0].score)


def test_langchain_gets_documents_with_their_citation(searcher: Any) -> None:
    documents = LangChainRetriever(searcher=searcher, arguments={"top_k": 1}).invoke("lava and ash")
    assert len(documents) == 1
    assert documents[0].page_content in TEXT
    metadata = documents[0].metadata
    assert metadata["document_title"] == "Volcano"
    assert TEXT[metadata["start_char"] : metadata["end_char"]] == documents[0].page_content
    assert metadata["score"] > 0
    assert metadata["reefs"]
    assert set(CITATION) <= metadata.keys()
    json.dumps(metadata)


def test_langchain_composes_the_retriever_into_a_chain(engine: Engine) -> None:
    chain = LangChainRetriever(searcher=engine) | RunnableLambda(
        lambda found: [d.metadata["tags"] for d in found]
    )
    assert chain.invoke("lava")[0] == ["hot"]
    assert len(chain.batch(["lava", "law"])) == 2


def test_llama_index_gets_nodes_with_scores_in_order(searcher: Any) -> None:
    nodes = LlamaIndexRetriever(searcher, {"mode": "reef"}).retrieve("lava and ash")
    assert nodes[0].node.metadata["document_title"] == "Volcano"
    scores = [node.score or 0.0 for node in nodes]
    assert scores == sorted(scores, reverse=True)
    assert len({node.node.node_id for node in nodes}) == len(nodes)
    shown = nodes[0].node.get_content(metadata_mode=MetadataMode.LLM)
    assert "notes/volcano.txt" in shown
    assert "confidence" not in shown
    assert (
        LlamaIndexRetriever(searcher).retrieve(QueryBundle("law"))[0].node.metadata["document_title"] == "Law"
    )


def test_neighbours_come_with_the_text_where_they_are_asked_for(engine: Engine) -> None:
    engine.ingest(
        content="# One\n\nThe flower and the leaf.\n\n# Two\n\nThe petal and the root.",
        title="F",
        format="markdown",
    )
    alone = find_passages(engine, "flower", {"top_k": 1})[0]
    around = find_passages(engine, "flower", {"top_k": 1, "context": 1})[0]
    assert alone.text in around.text
    assert len(around.text) > len(alone.text)


def test_an_empty_question_finds_nothing_and_a_wrong_argument_is_told(engine: Engine) -> None:
    assert LangChainRetriever(searcher=engine).invoke("  ") == []
    with pytest.raises(QueryError):
        LangChainRetriever(searcher=engine, arguments={"mode": "odd"}).invoke("lava")
