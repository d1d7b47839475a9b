"""A retriever for LlamaIndex.

from shoal import Engine
from shoal.integrations.llama_index import ShoalRetriever

retriever = ShoalRetriever(Engine(db_path="shoal.db"), {"top_k": 5, "context": 1})
nodes = retriever.retrieve("how bees find food")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from shoal.integrations.passages import Passage, find_passages, find_passages_async

if TYPE_CHECKING:
    from shoal.client import AsyncClient, Client
    from shoal.engine import Engine

MODEL_METADATA = frozenset(
    {"document_title", "source_path", "section_path", "start_line", "end_line", "time_start", "time_end"}
)
"""Metadata that LlamaIndex gives to a language model with the text; the rest stays with the node."""


class ShoalRetriever(BaseRetriever):
    """Returns passages of a Shoal library as nodes with scores and the metadata of
    `shoal.integrations.passages.Passage`.

    `searcher` is a `shoal.Engine`, a `shoal.client.Client` or, for `aretrieve` only, a
    `shoal.client.AsyncClient`. `arguments` are those of its search (`top_k`, `mode`, `filters`, `context` and
    so on). Results below `min_score` are left out. With `merge`, adjoining results become one node.
    """

    def __init__(
        self,
        searcher: Engine | Client | AsyncClient,
        arguments: Mapping[str, Any] | None = None,
        *,
        min_score: float = 0.0,
        merge: bool = False,
        **options: Any,
    ) -> None:
        """`options` are passed to LlamaIndex's BaseRetriever."""
        super().__init__(**options)
        self._searcher: Any = searcher
        self._arguments = dict(arguments or {})
        self._min_score, self._merge = min_score, merge

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(
            find_passages(
                self._searcher,
                query_bundle.query_str,
                self._arguments,
                min_score=self._min_score,
                merge=self._merge,
            )
        )

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(
            await find_passages_async(
                self._searcher,
                query_bundle.query_str,
                self._arguments,
                min_score=self._min_score,
                merge=self._merge,
            )
        )


def _nodes(passages: Sequence[Passage]) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(
                id_=passage.id,
                text=passage.text,
                metadata=dict(passage.metadata),
                excluded_llm_metadata_keys=sorted(passage.metadata.keys() - MODEL_METADATA),
                excluded_embed_metadata_keys=sorted(passage.metadata),
            ),
            score=passage.score,
        )
        for passage in passages
    ]
