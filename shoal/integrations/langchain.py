"""A retriever for LangChain.

from shoal.client import Client
from shoal.integrations.langchain import ShoalRetriever

retriever = ShoalRetriever(searcher=Client("http://127.0.0.1:8000"), arguments={"top_k": 5, "context": 1})
documents = retriever.invoke("how bees find food")
"""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from shoal.integrations.passages import find_passages


class ShoalRetriever(BaseRetriever):
    """Passages of a Shoal library as documents; `metadata` has the citation, `score` and `reefs`.

    `searcher` is a `shoal.Engine` or a `shoal.client.Client`; `arguments` are those of its search (`top_k`, `mode`,
    `filters`, `context` and so on).
    """

    searcher: Any
    arguments: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document(id=one.id, page_content=one.text, metadata={**one.metadata, "score": one.score})
            for one in find_passages(self.searcher, query, self.arguments)
        ]
