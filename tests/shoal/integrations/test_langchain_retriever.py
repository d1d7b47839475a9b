"""The retriever for LangChain, used in chains."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="the extra `langchain` is not installed")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import ParrotFakeChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from shoal.client import AsyncClient, Client
from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.integrations.langchain import ShoalRetriever

PROMPT = ChatPromptTemplate.from_template("Passages:\n{passages}\nQuestion: {question}")


def shown(documents: list[Document]) -> str:
    return "\n".join(f"{d.metadata['document_title']}: {d.page_content}" for d in documents)


def chain_of(retriever: ShoalRetriever) -> Any:
    """Retrieval, prompt, and a model that repeats its prompt."""
    inputs = {"passages": retriever | shown, "question": RunnablePassthrough()}
    return inputs | PROMPT | ParrotFakeChatModel() | StrOutputParser()


def test_documents_have_their_citation(searcher: Engine | Client, engine: Engine) -> None:
    (document,) = ShoalRetriever(searcher=searcher, arguments={"top_k": 1}).invoke("lava and ash")
    metadata = document.metadata
    assert metadata["document_title"] == "Volcano"
    content = engine.documents.content(metadata["document_id"])
    assert content[metadata["start_char"] : metadata["end_char"]] == document.page_content
    assert (metadata["start_line"], metadata["end_line"]) == (1, 3)
    assert metadata["score"] > 0
    assert metadata["reefs"]
    json.dumps(metadata)


def test_chain_gives_passages_to_a_model(searcher: Engine | Client) -> None:
    answer = chain_of(ShoalRetriever(searcher=searcher, arguments={"top_k": 1})).invoke("what is lava")
    assert "Passages:\nVolcano: Lava rose" in answer
    assert answer.endswith("Question: what is lava")


def test_chain_can_be_batched_and_awaited(searcher: Engine | Client) -> None:
    chain = chain_of(ShoalRetriever(searcher=searcher, arguments={"top_k": 1}))
    lava, law = chain.batch(["lava", "law"])
    assert "Volcano: " in lava
    assert "Law: " in law
    assert asyncio.run(chain.ainvoke("lava")) == lava
    assert asyncio.run(chain.abatch(["lava", "law"])) == [lava, law]


def test_async_client_works_in_awaited_chains(address: str) -> None:
    async def ask() -> list[str]:
        async with AsyncClient(address) as client:
            retriever = ShoalRetriever(searcher=client, arguments={"top_k": 1})
            with pytest.raises(TypeError, match="has to be awaited"):
                retriever.invoke("lava")
            return await chain_of(retriever).abatch(["lava", "law"])

    lava, law = asyncio.run(ask())
    assert "Volcano: " in lava
    assert "Law: " in law


def test_arguments_apply_and_a_call_may_override_them(searcher: Engine | Client) -> None:
    retriever = ShoalRetriever(searcher=searcher, arguments={"filters": {"tags": ["hot"]}})
    assert {d.metadata["document_title"] for d in retriever.invoke("lava law")} == {"Volcano"}
    documents = retriever.invoke("lava law", filters=None, top_k=1, mode="lexical")
    assert len(documents) == 1
    both = {d.metadata["document_title"] for d in retriever.invoke("lava law", filters=None)}
    assert both == {"Volcano", "Law"}
    assert asyncio.run(retriever.ainvoke("lava law", filters={"tags": ["cold"]})) == []
    assert ShoalRetriever(searcher=searcher, min_score=2.0).invoke("lava") == []


def test_callbacks_get_documents_and_errors(engine: Engine) -> None:
    class Recorder(BaseCallbackHandler):
        documents: list[Document] | None = None
        error: BaseException | None = None

        def on_retriever_end(self, documents: Any, **_: Any) -> None:
            self.documents = list(documents)

        def on_retriever_error(self, error: BaseException, **_: Any) -> None:
            self.error = error

    recorder = Recorder()
    retriever = ShoalRetriever(searcher=engine)
    documents = retriever.invoke("lava", {"callbacks": [recorder]})
    assert recorder.documents == documents
    with pytest.raises(QueryError):
        retriever.invoke("lava", {"callbacks": [recorder]}, mode="odd")
    assert isinstance(recorder.error, QueryError)


def test_blank_query_finds_nothing(engine: Engine) -> None:
    assert ShoalRetriever(searcher=engine).invoke("  ") == []
