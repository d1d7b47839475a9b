"""A retriever for LangChain.

from shoal.client import Client
from shoal.integrations.langchain import ShoalRetriever

retriever = ShoalRetriever(searcher=Client("http://127.0.0.1:8000"), arguments={"top_k": 5, "context": 1})
documents = retriever.invoke("how bees find food")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from shoal.integrations.passages import Passage, find_passages, find_passages_async


class ShoalRetriever(BaseRetriever):
    """Returns passages of a Shoal library as documents, with the metadata of
    `shoal.integrations.passages.Passage`.

    `searcher` is a `shoal.Engine`, a `shoal.client.Client` or, for `ainvoke` only, a
    `shoal.client.AsyncClient`. `arguments` are those of its search (`top_k`, `mode`, `filters`, `context` and
    so on); arguments of `invoke` override them. Results below `min_score` are left out. With `merge`,
    adjoining results become one document.
    """

    searcher: Any
    arguments: dict[str, Any] = Field(default_factory=dict)
    min_score: float = 0.0
    merge: bool = False

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **arguments: Any
    ) -> list[Document]:
        return _documents(
            find_passages(
                self.searcher,
                query,
                {**self.arguments, **arguments},
                min_score=self.min_score,
                merge=self.merge,
            )
        )

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **arguments: Any
    ) -> list[Document]:
        return _documents(
            await find_passages_async(
                self.searcher,
                query,
                {**self.arguments, **arguments},
                min_score=self.min_score,
                merge=self.merge,
            )
        )


def _documents(passages: Sequence[Passage]) -> list[Document]:
    return [
        Document(id=passage.id, page_content=passage.text, metadata=dict(passage.metadata))
        for passage in passages
    ]
